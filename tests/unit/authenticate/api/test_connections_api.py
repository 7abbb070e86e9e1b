"""Accounts at third-party MCP servers by the API: listed a page at a time without tokens, disconnected after the audit log has it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler

from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from databroker.projection.rows import RowBatch, add_connected_account, write
from databroker.records import UPSTREAM_CONNECTION, Record
from foundation.errors import BrokerError
from tests.support.api_site import ApiSite
from tests.support.authenticate_site import Site
from tests.support.connections import OTHER_RESOURCE, RESOURCE, a_connection, put_connection, routes, server_in, stored_connection
from tests.support.database import in_database
from tests.support.eventually import eventually_equal
from tests.support.fake_idp import FakeIdP

GONE = "https://gone.example.com/mcp"


@pytest.fixture
async def api(tmp_path: Path, idp: FakeIdP, server: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[ApiSite]:
    async with ApiSite.running(Site(tmp_path, idp, django_pages, policy=routes(server))) as api:
        target = server_in(api.site.service.options)
        for user in ("alice", "bob", "carol"):
            for resource in (RESOURCE, OTHER_RESOURCE, GONE):
                changes = {"refused_at": 1.0} if user == "bob" else {"server_fingerprint": "old"} if user == "carol" else {}
                if resource == OTHER_RESOURCE and not changes:
                    changes = {"server_fingerprint": server_in(api.site.service.options, OTHER_RESOURCE).fingerprint}
                await put_connection(
                    api.site.broker, a_connection(target, api.site.clock, user_id=f"oidc/{user}", resource=resource, **changes)
                )
        await project(await api.site.broker.page(UPSTREAM_CONNECTION, "", 100))
        yield api


async def project(records: list[Record]) -> None:
    rows = RowBatch()
    for record in records:
        add_connected_account(rows, record.id, record)
    await in_database(lambda: write(rows))


async def test_connections_are_listed_a_page_at_a_time(api: ApiSite) -> None:
    found, cursor = [], ""
    while cursor is not None:
        page = await api.done("GET", f"connections?limit=4{cursor}")
        found += page["items"]
        cursor = f"&cursor={page['next']}" if page["next"] is not None else None
    ids = [each["id"] for each in found]
    assert (len(ids), ids) == (9, sorted(set(ids)))
    assert {(each["user_id"], each["resource"], each["state"]) for each in found} == {
        ("oidc/alice", RESOURCE, "connected"),
        ("oidc/alice", OTHER_RESOURCE, "connected"),
        ("oidc/bob", RESOURCE, "expired"),
        ("oidc/bob", OTHER_RESOURCE, "settings_changed"),
        ("oidc/carol", RESOURCE, "settings_changed"),
        ("oidc/carol", OTHER_RESOURCE, "settings_changed"),
        *((f"oidc/{user}", GONE, "server_removed") for user in ("alice", "bob", "carol")),
    }
    assert all(each["connected_at"].endswith("Z") and each["last_refreshed_at"].endswith("Z") for each in found)
    for secret in ("access-1", "refresh-1", "token"):
        assert secret not in str(found)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("user_id=oidc/alice", 3),
        (f"resource={RESOURCE}", 3),
        (f"user_id=oidc/bob&resource={GONE}", 1),
        ("q=gone+carol", 1),
        ("q=nobody", 0),
    ],
)
async def test_filters(api: ApiSite, query: str, count: int) -> None:
    assert len((await api.done("GET", f"connections?{query}"))["items"]) == count


async def test_end_is_audited_and_revokes_the_tokens(api: ApiSite, server: FakeIdP) -> None:
    (item,) = (await api.done("GET", f"connections?user_id=oidc/alice&resource={RESOURCE}"))["items"]
    await api.done("DELETE", f"connections/{item['id']}", status=204)
    assert await stored_connection(api.site.broker, "oidc/alice") is None
    assert await stored_connection(api.site.broker, "oidc/bob") is not None
    assert [action for _, action, _ in await api.audit_log()] == [AuditAction.DISCONNECT_SERVER]
    (entry,) = await in_database(lambda: list(AuditEntry.objects.all()))
    assert (entry.actor_id, entry.object_repr) == ("service_account/robot", f"oidc/alice at {RESOURCE}")
    assert not any(secret in str(vars(entry)) for secret in ("access-1", "refresh-1"))

    async def revoked() -> list[str]:
        return [request.form["token"] for request in server.requests if request.path == "/revoke"]

    await eventually_equal(revoked, ["refresh-1", "access-1"])
    await api.problem(404, "DELETE", f"connections/{item['id']}")
    await api.problem(404, "DELETE", "connections/another")


async def test_store_that_is_away_and_missing_permission(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    (item,) = (await api.done("GET", f"connections?user_id=oidc/alice&resource={RESOURCE}"))["items"]
    reader = await api.account("reader", ["connections:read", "sessions:end"])
    await api.problem(403, "DELETE", f"connections/{item['id']}", token=reader)
    stranger = await api.account("stranger", ["sessions:read", "connections:end"])
    await api.problem(403, "GET", "connections", token=stranger)

    async def away(*_: object) -> bool:
        raise BrokerError("away")

    monkeypatch.setattr(api.site.broker, "delete", away)
    await api.problem(503, "DELETE", f"connections/{item['id']}")
    assert [action for _, action, _ in await api.audit_log()] == [AuditAction.DISCONNECT_SERVER, AuditAction.DISCONNECT_SERVER.failure]
