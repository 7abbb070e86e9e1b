"""Third-party servers of a configuration, and whose connection a record is."""

import math
from dataclasses import replace
from typing import Any

import pytest

from authorize.upstream.account_connections import (
    AccountConnection,
    UpstreamServer,
    UpstreamServers,
    connection_id,
    delete_user_connections,
    parse_own_connection,
    refuse_connection,
    upstream_server,
    user_connections,
)
from config.routes.route import Route
from databroker.records import UPSTREAM_CONNECTION, SessionRecord
from databroker.store.memory import MemoryStore
from tests.support.connections import a_connection, put_connection
from tests.unit.authorize.builders import make_route

OAUTH = {"client_id": "gate", "authorization_url": "https://l.example.org/a", "token_url": "https://l.example.org/t", "scopes": ["b", "a"]}
SESSION = SessionRecord("s", "oidc/alice", "alice", "oidc", 1.0, 2e9)
URI = "https://app.example.com/mcp"


def route(oauth: dict[str, Any] | None = None, **keys: Any) -> Route:
    mcp = {"path": "/mcp", "upstream_oauth": {**OAUTH, **(oauth or {})}}
    return make_route(**{"to": "https://mcp.example.org", "mcp": mcp, **keys})


def server(oauth: dict[str, Any] | None = None, **keys: Any) -> UpstreamServer:
    found = upstream_server(route(oauth, **keys))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("oauth", "keys", "changes"),
    [
        ({}, {}, False),
        ({"scopes": ["a", "b"]}, {}, False),
        ({"client_secret": "x"}, {}, False),
        ({"scopes": ["a"]}, {}, True),
        ({"client_id": "other"}, {}, True),
        ({"token_url": "https://evil.example.org/t"}, {}, True),
        ({"authorization_url": "https://evil.example.org/a"}, {}, True),
        ({"issuer": "https://l.example.org"}, {}, True),
        ({"resource": "https://mcp.example.org/other"}, {}, True),
        ({"resource": "https://mcp.example.org/mcp"}, {"to": "https://evil.example.org"}, True),
    ],
)
def test_fingerprint_changes_with_the_origin_and_the_destination_of_tokens(
    oauth: dict[str, Any], keys: dict[str, Any], changes: bool
) -> None:
    assert (server(oauth, **keys).fingerprint != server().fingerprint) is changes


def test_servers_by_resource() -> None:
    servers = UpstreamServers([route(), make_route("plain.example.com"), make_route("b.example.com", mcp={})])
    assert [each.resource.uri for each in servers] == [URI]
    assert servers.find(URI) == server()
    assert servers.find("https://b.example.com") is None
    assert server().callback_name == "app.example.com/mcp"


@pytest.mark.parametrize(
    ("changes", "session", "is_own"),
    [
        ({}, {}, True),
        ({"issuer": "https://idp.example.com"}, {"issuer": "https://idp.example.com"}, True),
        ({"user_id": "oidc/bob"}, {}, False),
        ({"issuer": "https://other.example.com"}, {}, False),
        ({}, {"issuer": "https://other.example.com"}, False),
        ({"server_fingerprint": "other"}, {}, False),
    ],
)
async def test_owner_of_a_connection(changes: dict[str, Any], session: dict[str, Any], is_own: bool) -> None:
    broker, found = MemoryStore(), None
    id = connection_id("oidc/alice", URI)
    await broker.put(UPSTREAM_CONNECTION, id, a_connection(server(), lambda: 0.0, **changes).to_data())
    found = parse_own_connection(await broker.get(UPSTREAM_CONNECTION, id), replace(SESSION, **session), server())
    assert (found is not None) is is_own


async def test_malformed_record_is_no_connection() -> None:
    broker = MemoryStore()
    record = await broker.put(UPSTREAM_CONNECTION, connection_id("oidc/alice", URI), {"user_id": "oidc/alice"})
    assert parse_own_connection(record, SESSION, server()) is None
    assert parse_own_connection(None, SESSION, server()) is None


@pytest.mark.parametrize(("lifetime", "due"), [(None, math.inf), (3600.0, 3570.0), (40.0, 30.0), (-5.0, -5.0)])
def test_token_is_due_before_it_expires(lifetime: float | None, due: float) -> None:
    ends = None if lifetime is None else 1000.0 + lifetime
    connection = a_connection(server(), lambda: 1000.0, access_token_expires_at=ends)
    assert connection.due_at == (math.inf if due == math.inf else 1000.0 + due)
    assert "access-1" not in repr(connection)


async def test_connections_of_a_deleted_user() -> None:
    broker = MemoryStore()
    for user in ("oidc/alice", "oidc/Alice", "oidc/bob"):
        for resource in (URI, "https://b.example.com"):
            await put_connection(broker, a_connection(server(), lambda: 0.0, user_id=user, resource=resource))
    revoked: list[AccountConnection] = []
    await delete_user_connections(broker, "oidc/alice", "the reason", str, revoked.append)
    assert {each.resource for each in revoked} == {URI, "https://b.example.com"}

    async def held(user: str) -> list[AccountConnection]:
        return [connection async for _, connection in user_connections(broker, user)]

    assert [len(await held(user)) for user in ("oidc/alice", "oidc/Alice", "oidc/bob")] == [0, 2, 2]
    await delete_user_connections(broker, "oidc/ALICE", "the reason", str.lower, revoked.append)
    assert [len(await held(user)) for user in ("oidc/alice", "oidc/Alice", "oidc/bob")] == [0, 0, 2]


async def test_only_the_tokens_that_the_server_refused_are_deleted() -> None:
    broker, target = MemoryStore(lambda: 5.0), server()
    connection = a_connection(target, lambda: 1.0)
    id = await put_connection(broker, connection)
    record = await broker.get(UPSTREAM_CONNECTION, id)
    assert record is not None
    await put_connection(broker, replace(connection, access_token="new"))
    await refuse_connection(broker, record, connection, 5.0, "refused")
    replaced = await broker.get(UPSTREAM_CONNECTION, id)
    assert replaced is not None
    assert replaced.data["access_token"] == "new"
    await refuse_connection(broker, replaced, AccountConnection.from_record(replaced), 5.0, "refused")
    refused = await broker.get(UPSTREAM_CONNECTION, id)
    assert refused is not None
    assert (refused.data["access_token"], refused.data["refresh_token"], refused.data["usable_until"]) == ("", "", 5.0)
    assert parse_own_connection(refused, SESSION, target) is None
