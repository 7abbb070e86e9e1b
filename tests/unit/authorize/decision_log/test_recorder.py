"""The recorder logs checks of other processes like local ones, with their inputs, and reports when a session was seen."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from authorize.decision_log.decision_log import DecisionLog, DecisionLogEntry, DecisionRecorder, QueuedEntry
from authorize.policy.decision import Outcome
from authorize.service import AuthorizeService
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BadRequest, BrokerError
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.unit.authorize.broker import BreakableBroker, followed_broker, settled
from tests.unit.authorize.builders import request

NOW = 1500.0
APP = {"from": "https://app.example.com", "to": "http://up"}
POLICY: list[dict[str, Any]] = [
    {**APP, "prefix": "/public", "allow_public_unauthenticated_access": True},
    {**APP, "prefix": "/bob", "allowed_users": ["bob@corp.com"]},
    {**APP, "prefix": "/soon", "allowed_users": ["bob@corp.com"], "mode": "shadow"},
    {**APP, "allowed_domains": ["corp.com"]},
]


@dataclass
class World:
    recorder: DecisionRecorder
    service: AuthorizeService
    broker: BreakableBroker
    log: DecisionLog
    cookie: bytes
    fresh_cookie: bytes
    written: list[QueuedEntry]
    seen: list[tuple[str, float, str]] = field(default_factory=list)

    async def ask(self, path: str, request_id: str = "r1", *, cookie: bytes | None = None) -> Outcome:
        incoming = request(path, source_ip="192.0.2.7")
        cookies = [self.cookie if cookie is None else cookie]
        return (await self.recorder.check(self.service, incoming, cookies, request_id)).decision.outcome

    async def recorded(self) -> list[DecisionLogEntry]:
        await self.log.flush()
        return [entry for entry, _ in self.written]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    options, written, seen = make_options(tmp_path, policy=POLICY), [], []
    log = DecisionLog(written.extend, clock=lambda: NOW)
    log.configure(options, "c0ffee")
    async with followed_broker() as (broker, replica):
        await broker.sign_in()
        await settled()
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        recorder = DecisionRecorder(log, lambda *facts: seen.append(facts), clock=lambda: NOW)
        own = SessionCookies(options)
        cookies = [signed_in(own, id, "app.example.com", issued=1000.0, expires=2000.0).encode() for id in ("s1", "s2")]
        yield World(recorder, service, broker, log, *cookies, written, seen)


async def test_logs_decision_with_its_inputs(world: World) -> None:
    assert await world.ask("/bob/x") is Outcome.FORBIDDEN
    (entry,) = await world.recorded()
    assert (entry.request_id, entry.client_address, entry.request.path) == ("r1", "192.0.2.7", "/bob/x")
    assert entry.decision is not None
    assert entry.decision.trace
    assert entry.identity is not None
    assert entry.identity.user_id == "oidc/1"
    assert entry.sources is not None
    assert world.seen == []


async def test_a_session_that_is_let_in_was_seen(world: World) -> None:
    assert await world.ask("/") is Outcome.ALLOWED
    assert await world.ask("/public", cookie=b"") is Outcome.ALLOWED
    assert world.seen == [("s1", NOW, "app.example.com")]


async def test_reevaluated_stream_is_not_logged(world: World) -> None:
    assert await world.ask("/", "") is Outcome.ALLOWED
    assert await world.ask("/bob", "") is Outcome.FORBIDDEN
    assert (world.seen, await world.recorded()) == ([], [])


async def test_shadow_outcome_is_logged_with_decision(world: World) -> None:
    assert await world.ask("/soon") is Outcome.ALLOWED
    (entry,) = await world.recorded()
    assert entry.shadow_outcome is not None
    assert (entry.shadow_outcome.outcome, entry.shadow_differs) == ("forbidden", True)


async def test_undecided_request_is_logged_and_raises(world: World) -> None:
    world.broker.is_down = True
    with pytest.raises(BrokerError):
        await world.ask("/", cookie=world.fresh_cookie)
    (entry,) = await world.recorded()
    assert (entry.decision, entry.failure, entry.error) == (None, "unavailable", "the data broker is down")


async def test_ambiguous_path_is_logged_as_bad_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise BadRequest("the path has two readings")

    monkeypatch.setattr(world.service, "check", refuse)
    with pytest.raises(BadRequest):
        await world.ask("/")
    assert [(entry.failure, entry.error) for entry in await world.recorded()] == [("bad request", "the path has two readings")]
