"""Refresh of connections: once for all that wait, with one outcome for each answer of the server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.upstream_oauth.connection_refresh import ConnectionRefresh
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authorize.upstream.account_connections import AccountConnection, connection_id, refuse_connection
from databroker.records import UPSTREAM_CONNECTION, UPSTREAM_REFRESH_REQUEST, TokenRefreshRequest
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.authenticate_site import Clock
from tests.support.connections import RESOURCE, a_connection, put_connection, routes, server_in, stored_connection
from tests.support.fake_idp import Answer, FakeIdP
from tests.support.options import make_options

NEW = {"access_token": "access-2", "token_type": "Bearer", "expires_in": 60}
ID = connection_id("oidc/alice", RESOURCE)


class Stage:
    def __init__(self, directory: Path, server: FakeIdP):
        self.clock = Clock()
        self.server = server
        self.broker: Any = MemoryStore(self.clock)
        self.options = make_options(directory, policy=routes(server))
        self.connections = UpstreamConnections(self.options, self.broker, self.clock)
        self.target = server_in(self.options)
        self.refresh = ConnectionRefresh(self.connections, self.broker, self.clock)

    async def connect(self, **changes: Any) -> float:
        connection = a_connection(self.target, self.clock, **changes)
        await put_connection(self.broker, connection)
        return connection.tokens_received_at

    async def run(self, received_at: float) -> None:
        """Handle a request for the refresh of the tokens that were received at this time."""
        wish = TokenRefreshRequest(received_at).to_data()
        self.refresh.handle(await self.broker.put(UPSTREAM_REFRESH_REQUEST, ID, wish))
        await asyncio.gather(*self.refresh.running.values())
        assert await self.broker.get(UPSTREAM_REFRESH_REQUEST, ID) is None


@pytest.fixture
async def stage(tmp_path: Path, server: FakeIdP) -> AsyncIterator[Stage]:
    stage = Stage(tmp_path, server)
    yield stage
    await stage.connections.close()


@pytest.mark.parametrize(("answer", "refresh_token"), [(NEW, "refresh-1"), ({**NEW, "refresh_token": "refresh-2"}, "refresh-2")])
async def test_new_tokens_replace_the_old_ones(stage: Stage, answer: dict[str, Any], refresh_token: str) -> None:
    received_at = await stage.connect()
    stage.server.bend.answers["/token"] = Answer.json(answer)
    await stage.run(received_at)
    renewed = await stored_connection(stage.broker)
    assert renewed is not None
    assert (renewed.access_token, renewed.refresh_token) == ("access-2", refresh_token)
    assert renewed.tokens_received_at > received_at
    (request,) = stage.server.requests
    assert (request.form["refresh_token"], request.form["resource"]) == ("refresh-1", "https://mcp.example.org/mcp")
    await stage.run(received_at)  # of a request that waited as well
    assert len(stage.server.requests) == 1


@pytest.mark.parametrize(
    ("changes", "answer", "remains"),
    [
        ({}, Answer.json({"error": "invalid_grant"}, 400), False),
        ({"refresh_token": ""}, Answer.json(NEW), False),
        ({}, Answer(503), True),
        ({}, Answer.json({"error": "invalid_client"}, 401), True),
        ({"server_fingerprint": "old"}, Answer.json(NEW), True),
        ({"authorization_server": "https://evil.example"}, Answer.json(NEW), False),
    ],
)
async def test_refresh_that_brings_no_token(stage: Stage, changes: dict[str, Any], answer: Answer, remains: bool) -> None:
    received_at = await stage.connect(**changes)
    stage.server.bend.answers["/token"] = answer
    with capture_logs() as logs:
        await stage.run(received_at)
    connection = await stored_connection(stage.broker)
    assert connection is not None
    assert (connection.access_token, connection.refresh_token != "") == (("access-1", True) if remains else ("", False))
    assert (connection.refused_at is None) is remains
    assert ("upstream connection removed" in [entry["event"] for entry in logs]) is not remains
    assert "refresh-1" not in str(logs)


@pytest.mark.parametrize("is_refused", [False, True])
async def test_new_tokens_are_revoked_after_a_concurrent_disconnection(stage: Stage, is_refused: bool) -> None:
    received_at = await stage.connect()
    held = stage.server.bend.holds["/token"] = asyncio.Event()
    stage.server.bend.answers["/token"] = Answer.json(NEW)
    stage.refresh.handle(await stage.broker.put(UPSTREAM_REFRESH_REQUEST, ID, TokenRefreshRequest(received_at).to_data()))
    while not stage.server.requests:
        await asyncio.sleep(0)
    record = await stage.broker.get(UPSTREAM_CONNECTION, ID)
    if is_refused:
        await refuse_connection(stage.broker, record, AccountConnection.from_record(record), stage.clock(), "refused")
    else:
        await stage.broker.delete(UPSTREAM_CONNECTION, ID)
    held.set()
    await asyncio.gather(*stage.refresh.running.values())
    connection = await stored_connection(stage.broker)
    assert connection is None or (connection.access_token, connection.refused_at is not None) == ("", True)
    assert [request.form["token"] for request in stage.server.requests if request.path == "/revoke"] == ["refresh-1", "access-2"]


async def test_refresh_of_another_process_is_not_repeated(stage: Stage) -> None:
    received_at = await stage.connect()
    assert await stage.broker.acquire(f"connection refresh/{ID}", 60.0) is not None
    await stage.run(received_at)
    assert stage.server.requests == []


async def test_new_tokens_are_saved_after_a_short_failure_of_the_store(stage: Stage) -> None:
    received_at = await stage.connect()
    stage.server.bend.answers["/token"] = Answer.json(NEW)
    put, failures = stage.broker.put, [BrokerError("away"), BrokerError("away")]

    async def failing(type: str, id: str, data: Any, **options: Any) -> Any:
        if type == UPSTREAM_CONNECTION and failures:
            raise failures.pop()
        return await put(type, id, data, **options)

    stage.broker.put = failing
    await stage.run(received_at)
    renewed = await stored_connection(stage.broker)
    assert renewed is not None
    assert renewed.access_token == "access-2"


async def test_malformed_request_is_deleted(stage: Stage) -> None:
    stage.refresh.handle(await stage.broker.put(UPSTREAM_REFRESH_REQUEST, ID, {"x": 1}))
    await asyncio.gather(*stage.refresh.running.values())
    assert await stage.broker.get(UPSTREAM_REFRESH_REQUEST, ID) is None
