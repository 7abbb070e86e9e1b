"""Actors of access requests: current records and unambiguous names."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from authenticate.views.actors import actor_for
from authorize.policy.identity import Identity
from databroker.records import USER
from tests.unit.authenticate.access_requests.test_access_request_service import ISSUER, NOW, World


def gate_of(world: World, identity: Identity | None) -> Any:
    async def load_session_identity(session_id: str) -> Identity | None:
        return identity

    service = SimpleNamespace(broker=world.broker, clock=lambda: NOW)
    return SimpleNamespace(
        options=world.options,
        authenticate=service,
        authorize=SimpleNamespace(load_session_identity=load_session_identity),
        client_address="192.0.2.9",
    )


async def test_no_actor_without_matching_records(tmp_path: Path) -> None:
    world = World(tmp_path)
    session = world.caller("ann").session
    assert await actor_for(gate_of(world, None), session) is None
    assert await actor_for(gate_of(world, world.identity("bob", "ann")), session) is None


async def test_self_chosen_name_is_displayed_with_id(tmp_path: Path) -> None:
    world = World(tmp_path)
    await world.broker.put(USER, "oidc/ann", {"id": "oidc/ann", "name": "The Boss", "email": "boss@example.com", "issuer": ISSUER})
    caller = await actor_for(gate_of(world, Identity("ann", "oidc/ann", "", "oidc", NOW + 9)), world.caller("ann").session)
    assert caller is not None
    assert caller.name == "The Boss (oidc/ann)"
