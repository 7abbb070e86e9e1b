"""Upstreams get the user's own token, fresh; without one, the user is led to connect."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.upstream_oauth.connection_refresh import ConnectionRefresh
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import Identity
from authorize.policy.route_table import RouteTable
from authorize.upstream import upstream_oauth_tokens
from authorize.upstream.account_connections import connection_id
from authorize.upstream.upstream_oauth_tokens import UpstreamOAuthTokens, token_hash
from databroker.records import SESSION, UPSTREAM_CONNECTION, UPSTREAM_REFRESH_REQUEST, SessionRecord
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.errors import AccountConnectionRequired, NoIdentity, UpstreamCredentialsUnavailable
from tests.support.authenticate_site import Clock
from tests.support.connections import RESOURCE, a_connection, put_connection, routes, server_in, stored_connection
from tests.support.eventually import eventually_equal
from tests.support.fake_idp import Answer, FakeIdP
from tests.support.options import make_options
from tests.unit.authorize.builders import user

ISSUER = "https://idp.example.com"
NEW = {"access_token": "access-2", "token_type": "Bearer", "expires_in": 3600}


class Stage:
    def __init__(self, directory: Path, server: FakeIdP):
        self.clock, self.server = Clock(), server
        self.broker = MemoryStore(self.clock)
        self.options = make_options(directory, policy=routes(server), idp_provider_url=ISSUER)
        self.target = server_in(self.options)
        self.replica = Replica(self.broker, clock=self.clock)
        table = RouteTable.build(self.options.policy, frozenset({443}), client_ca=None)
        self.route: CompiledRoute = next(route for route in table.routes() if route.route.from_.host == "third.example.com")
        self.tokens = UpstreamOAuthTokens(self.options, table.routes(), self.broker, self.replica, self.clock)
        self.connections = UpstreamConnections(self.options, self.broker, self.clock)
        self.refresh = ConnectionRefresh(self.connections, self.broker, self.clock)
        self.tasks = [asyncio.create_task(self.replica.run()), asyncio.create_task(self.handle_requests())]

    async def handle_requests(self) -> None:
        """Handle refresh requests, as the elected process does."""
        while True:
            for record in await self.broker.page(UPSTREAM_REFRESH_REQUEST, "", 10):
                self.refresh.handle(record)
            await asyncio.sleep(0.01)

    async def sign_in(self, name: str = "alice", **changes: Any) -> Identity:
        session = SessionRecord(f"session-{name}", f"oidc/{name}", name, "oidc", self.clock(), self.clock() + 9999, issuer=ISSUER)
        await self.broker.put(SESSION, session.id, session.to_data())
        return user(session_id=session.id, subject=name, **changes)

    async def connect(self, **changes: Any) -> None:
        await put_connection(self.broker, a_connection(self.target, self.clock, **{"issuer": ISSUER, **changes}))

    async def value(self, identity: Identity, rejected: str = "") -> bytes:
        ((name, value),) = await self.tokens.headers_for(self.route, identity, rejected)
        assert name == b"authorization"
        return value

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)
        await self.connections.close()


@pytest.fixture
async def server() -> AsyncIterator[FakeIdP]:
    running = await FakeIdP.started()
    yield running
    await running.stop()


@pytest.fixture
async def stage(tmp_path: Path, server: FakeIdP) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, server)
    yield stage
    await stage.stop()


async def test_each_user_has_their_own_token(stage: Stage) -> None:
    alice, bob = await stage.sign_in(), await stage.sign_in("bob")
    await stage.connect()
    assert await stage.value(alice) == b"Bearer access-1"
    assert await stage.value(alice) == b"Bearer access-1"
    with pytest.raises(AccountConnectionRequired):
        await stage.value(bob)
    await stage.connect(user_id="oidc/bob", access_token="of-bob")
    assert (await stage.value(alice), await stage.value(bob)) == (b"Bearer access-1", b"Bearer of-bob")
    assert stage.tokens.has_route(stage.route)


@pytest.mark.parametrize(
    "changes", [{"issuer": "https://other.example.com"}, {"server_fingerprint": "old"}, {"resource": "https://fourth.example.com"}]
)
async def test_tokens_of_another_owner_or_server_are_not_sent(stage: Stage, changes: dict[str, Any]) -> None:
    alice = await stage.sign_in()
    connection = a_connection(stage.target, stage.clock, **{"issuer": ISSUER, **changes})
    await stage.broker.put(UPSTREAM_CONNECTION, connection_id("oidc/alice", RESOURCE), connection.to_data())
    if "resource" in changes:  # only the id of the record decides the server of a record
        assert await stage.value(alice)
        return
    with pytest.raises(AccountConnectionRequired):
        await stage.value(alice)


@pytest.mark.parametrize(
    "caller",
    [
        None,
        user(provider="service_account", subject="agent", session_id="x"),
        user(provider="jwt", subject="1", session_id="bearer/x"),
        user(subject="alice", session_id="bearer/x"),
        user(subject="alice", session_id="session-without-record"),
    ],
)
async def test_callers_without_an_account_are_refused(stage: Stage, caller: Identity | None) -> None:
    await stage.connect()
    with pytest.raises(NoIdentity, match="service accounts") as raised:
        await stage.tokens.headers_for(stage.route, caller)
    assert not isinstance(raised.value, AccountConnectionRequired)


async def test_disconnection_ends_the_use_at_once(stage: Stage) -> None:
    alice = await stage.sign_in()
    await stage.connect()
    assert await stage.value(alice)
    await stage.broker.delete(UPSTREAM_CONNECTION, connection_id("oidc/alice", RESOURCE))

    async def outcome() -> str:
        try:
            return (await stage.value(alice)).decode()
        except AccountConnectionRequired:
            return "connect"

    await eventually_equal(outcome, "connect")


async def test_due_token_is_refreshed_once_for_all_that_wait(stage: Stage) -> None:
    alice = await stage.sign_in()
    await stage.connect(access_token_expires_at=stage.clock() + 20, tokens_received_at=stage.clock() - 3600)
    stage.server.bend.answers["/token"] = Answer.json(NEW)
    values = await asyncio.gather(*(stage.value(alice) for _ in range(20)))
    assert set(values) == {b"Bearer access-2"}
    assert stage.server.count("/token") == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer.json({"error": "invalid_grant"}, 400), AccountConnectionRequired),
        (Answer(503), UpstreamCredentialsUnavailable),
        (Answer.json({**NEW, "expires_in": 1}), None),
    ],
)
async def test_refresh_that_brings_no_usable_token(stage: Stage, answer: Answer, error: type[Exception] | None) -> None:
    alice = await stage.sign_in()
    await stage.connect(access_token_expires_at=stage.clock() - 1)
    stage.server.bend.answers["/token"] = answer
    if error is None:
        assert await stage.value(alice) == b"Bearer access-2"
        return
    with pytest.raises(error), capture_logs() as logs:
        await stage.value(alice)
    assert "refresh-1" not in str(logs)
    connection = await stored_connection(stage.broker)
    assert connection is not None
    assert (connection.access_token == "") is (error is AccountConnectionRequired)
    requests = stage.server.count("/token")
    with pytest.raises(error):
        await stage.value(alice)
    assert stage.server.count("/token") == requests, "no retry in the next two seconds"


async def test_without_the_elected_process_the_request_is_denied(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.tasks[1].cancel()
    monkeypatch.setattr(upstream_oauth_tokens, "MAX_WAIT_SECONDS", 0.05)
    alice = await stage.sign_in()
    await stage.connect(access_token_expires_at=stage.clock() - 1)
    with pytest.raises(UpstreamCredentialsUnavailable), capture_logs() as logs:
        await stage.value(alice)
    assert [entry["reason"] for entry in logs if entry["event"] == "upstream connection refresh failed"] == ["timeout"]


async def test_rejected_token_is_replaced_and_a_new_one_is_not(stage: Stage) -> None:
    alice = await stage.sign_in()
    await stage.connect(tokens_received_at=stage.clock() - 100)
    stage.server.bend.answers["/token"] = Answer.json(NEW)
    assert await stage.value(alice, token_hash(b"Bearer access-1")) == b"Bearer access-2"
    # Another request had sent the same old token.
    assert await stage.value(alice, token_hash(b"Bearer access-1")) == b"Bearer access-2"
    assert stage.server.count("/token") == 1
    with pytest.raises(AccountConnectionRequired), capture_logs() as logs:
        await stage.value(alice, token_hash(b"Bearer access-2"))
    assert [entry["event"] for entry in logs] == ["upstream connection removed"]
    connection = await stored_connection(stage.broker)
    assert connection is not None
    assert (connection.access_token, connection.refresh_token, connection.refused_at is not None) == ("", "", True)


async def test_process_without_data_broker_sends_nothing(stage: Stage) -> None:
    alone = UpstreamOAuthTokens(stage.options, [stage.route], None, None, stage.clock)
    with pytest.raises(UpstreamCredentialsUnavailable):
        await alone.headers_for(stage.route, user())
