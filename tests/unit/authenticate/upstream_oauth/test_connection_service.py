"""Connections in the data broker: written for one user and server, listed, and deleted."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authenticate.provider.tokens.token_response import Tokens
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authenticate.upstream_oauth.server_discovery import ServerEndpoints
from authorize.upstream.account_connections import ConnectionState
from databroker.records import SessionRecord
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.authenticate_site import ORIGIN, Clock
from tests.support.connections import CALLBACK, OTHER_RESOURCE, RESOURCE, a_connection, put_connection, routes, server_in, stored_connection
from tests.support.eventually import eventually_equal
from tests.support.fake_idp import FakeIdP
from tests.support.options import make_options

SESSION = SessionRecord("s", "oidc/alice", "alice", "oidc", 1.0, 2e9, issuer="https://idp.example.com")
TOKENS = Tokens("access", "refresh", "", None)


class Stage:
    def __init__(self, directory: Path, server: FakeIdP):
        self.clock = Clock()
        self.broker = MemoryStore(self.clock)
        self.options = make_options(directory, policy=routes(server), authenticate_service_url=ORIGIN)
        self.connections = UpstreamConnections(self.options, self.broker, self.clock)
        self.target = server_in(self.options)
        issuer = server.issuer
        self.endpoints = ServerEndpoints(issuer, self.target.uri, f"{issuer}/authorize", f"{issuer}/token")


@pytest.fixture
async def stage(tmp_path: Path, server: FakeIdP) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, server)
    yield stage
    await stage.connections.close()


async def test_connection_is_one_users_at_one_server(stage: Stage) -> None:
    await stage.connections.save(SESSION, stage.target, stage.endpoints, TOKENS)
    assert (await stage.connections.get(SESSION, stage.target)) is not None
    others = [
        replace(SESSION, user_id="oidc/bob"),
        replace(SESSION, issuer="https://other.example.com"),
        replace(SESSION, user_id="OIDC/alice"),
    ]
    for other in others:
        assert await stage.connections.get(other, stage.target) is None
    assert await stage.connections.get(SESSION, server_in(stage.options, OTHER_RESOURCE)) is None
    assert await stage.connections.get(SESSION, replace(stage.target, fingerprint="changed")) is None
    assert stage.connections.client.redirect_uri(stage.target) == CALLBACK


async def test_only_the_owner_disconnects(stage: Stage) -> None:
    await stage.connections.save(SESSION, stage.target, stage.endpoints, TOKENS)
    assert not await stage.connections.disconnect(replace(SESSION, user_id="oidc/bob"), RESOURCE)
    assert await stored_connection(stage.broker) is not None
    assert await stage.connections.disconnect(SESSION, RESOURCE)
    assert not await stage.connections.disconnect(SESSION, RESOURCE)


async def test_tokens_of_other_settings_are_not_sent_to_the_new_server(stage: Stage, server: FakeIdP) -> None:
    await put_connection(stage.broker, a_connection(stage.target, stage.clock, server_fingerprint="old"))
    assert await stage.connections.disconnect(SESSION, RESOURCE)
    await stage.connections.save(SESSION, stage.target, stage.endpoints, TOKENS)
    assert await stage.connections.disconnect(SESSION, RESOURCE)

    async def revoked() -> list[str]:
        return [request.form["token"] for request in server.requests]

    await eventually_equal(revoked, ["refresh", "access"])


async def test_listed_servers(stage: Stage) -> None:
    await stage.connections.save(SESSION, stage.target, stage.endpoints, TOKENS)
    await put_connection(stage.broker, a_connection(stage.target, stage.clock, resource="https://gone.example.com/mcp"))
    listed = await stage.connections.list_servers(SESSION, [OTHER_RESOURCE, RESOURCE])
    assert [(each.name, each.connected_at is not None, each.state, each.is_current) for each in listed] == [
        ("Fourth", False, ConnectionState.NOT_CONNECTED, True),
        ("gone.example.com/mcp", True, ConnectionState.REMOVED, False),
        ("Third party", True, ConnectionState.CONNECTED, True),
    ]
    assert [each.is_current for each in await stage.connections.list_servers(SESSION, [])] == [False, False]
    assert await stage.connections.list_servers(replace(SESSION, user_id="oidc/bob"), []) == []


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, ConnectionState.CONNECTED),
        ({"access_token_expires_at": 1.0}, ConnectionState.CONNECTED),
        ({"access_token_expires_at": None, "refresh_token": ""}, ConnectionState.CONNECTED),
        ({"access_token_expires_at": 1.0, "refresh_token": ""}, ConnectionState.EXPIRED),
        ({"refused_at": 1.0, "access_token": "", "refresh_token": ""}, ConnectionState.EXPIRED),
        ({"server_fingerprint": "old"}, ConnectionState.CHANGED),
        ({"issuer": "https://other.example.com"}, ConnectionState.CHANGED),
        ({"user_id": "oidc/bob"}, ConnectionState.NOT_CONNECTED),
    ],
)
async def test_state_of_a_connection(stage: Stage, changes: dict[str, Any], state: ConnectionState) -> None:
    await put_connection(stage.broker, a_connection(stage.target, stage.clock, **{"issuer": SESSION.issuer, **changes}))
    assert await stage.connections.states(SESSION) == {RESOURCE: state, OTHER_RESOURCE: ConnectionState.NOT_CONNECTED}
    assert (await stage.connections.get(SESSION, stage.target) is not None) is (state is ConnectionState.CONNECTED)


async def test_states_are_unknown_without_the_data_broker(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise BrokerError("away")

    monkeypatch.setattr(stage.broker, "page", fail)
    assert set((await stage.connections.states(SESSION)).values()) == {ConnectionState.UNKNOWN}
