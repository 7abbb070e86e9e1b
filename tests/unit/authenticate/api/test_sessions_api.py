"""Sessions by the API: listed a page at a time, ended everywhere, each end in the audit log first."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from databroker.audit_log import AuditAction
from databroker.models import AuditEntry, Session, User
from databroker.records import SESSION
from foundation.errors import BrokerError
from tests.support.api_site import ApiSite
from tests.support.database import in_database, row
from tests.support.signed_in import put_session

LATER = datetime.now(UTC) + timedelta(days=1)


def known(id: str, user_id: str = "oidc/alice", **values: Any) -> None:
    row(Session, **{"id": id, "user_id": user_id, "expires_at": LATER, **values})


async def pages(api: ApiSite, query: str = "") -> list[list[str]]:
    found, cursor = [], ""
    while True:
        page = await api.done("GET", f"sessions?limit=2{query}{cursor}")
        found.append([item["id"] for item in page["items"]])
        if page["next"] is None:
            return found
        cursor = f"&cursor={page['next']}"


async def test_sessions_are_listed_a_page_at_a_time(api: ApiSite) -> None:
    await in_database(lambda: [known(id) for id in "edcba"])
    assert await pages(api) == [["a", "b"], ["c", "d"], ["e"]]
    assert await api.done("GET", "sessions?user_id=oidc/nobody") == {"items": [], "next": None}


async def test_additions_between_two_pages_move_nothing(api: ApiSite) -> None:
    await in_database(lambda: [known(id) for id in "bdfh"])
    first = await api.done("GET", "sessions?limit=2")
    await in_database(lambda: [known(id) for id in "ae"])
    second = await api.done("GET", f"sessions?limit=200&cursor={first['next']}")
    assert [item["id"] for item in (*first["items"], *second["items"])] == ["b", "d", "e", "f", "h"]


async def test_sessions_are_found_as_in_the_admin(api: ApiSite) -> None:
    def make() -> None:
        row(User, id="oidc/bob", email="bob@example.com")
        known("1")
        known("2", "oidc/bob", client_address="198.51.100.7")
        known("3", "oidc/bob", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    await in_database(make)
    assert await pages(api, "&user_id=oidc/bob") == [["2"]]
    assert await pages(api, "&q=bob@example") == [["2"]]
    assert await pages(api, "&q=198.51.100") == [["2"]]
    assert await pages(api, "&user_id=oidc/alice&q=bob") == [[]]


async def test_sessions_of_agents(api: ApiSite) -> None:
    agent = {"client_id": "build-agent", "client_name": "Build", "resource": "https://mcp.example.com/mcp", "scopes": ["read", "write"]}
    columns = {"kind": "agent", "client_id": "build-agent", "resource": agent["resource"], "scopes": "read write"}
    await in_database(lambda: [known("1"), known("2", **columns), known("3", **{**columns, "client_id": "https://claude.ai/x"})])
    await put_session(api.site.broker, "2", {"user_id": "oidc/alice", "agent": agent})
    for query, found in (
        ("&kind=agent", ["2", "3"]),
        ("&kind=browser", ["1"]),
        ("&client_id=build-agent", ["2"]),
        ("&client_id=https://claude.ai/x&kind=agent", ["3"]),
        ("&resource=https://mcp.example.com/mcp", ["2", "3"]),
        ("&resource=https://mcp.example.com", []),
        ("&q=claude", ["3"]),
    ):
        assert await pages(api, query) == [found], query
    (listed,) = (await api.done("GET", "sessions?client_id=build-agent"))["items"]
    read = await api.done("GET", "sessions/2")
    expected = {**agent, "kind": "agent"}
    del expected["client_name"]
    assert expected.items() <= listed.items()
    assert expected.items() <= read.items()
    browser = (await api.done("GET", "sessions?kind=browser"))["items"][0]
    assert (browser["kind"], browser["client_id"], browser["resource"], browser["scopes"]) == ("browser", "", "", [])
    await api.problem(400, "GET", "sessions?kind=robot")


async def test_session_is_read_from_the_store(api: ApiSite) -> None:
    session = await api.signed_in("alice")
    response = await api.done("GET", f"sessions/{session.id}")
    assert (response["id"], response["user_id"], response["client_address"]) == (session.id, "oidc/alice", "192.0.2.1")
    assert response["started_at"].endswith("Z")
    assert "token" not in str(response)
    await api.problem(404, "GET", "sessions/another")


async def test_end_is_audited_first(api: ApiSite) -> None:
    session = await api.signed_in("alice")
    await api.done("DELETE", f"sessions/{session.id}", status=204)
    assert await api.site.broker.get(SESSION, session.id) is None
    assert await api.audit_log() == [("robot (API)", AuditAction.END_SESSION, session.id)]
    (entry,) = await in_database(lambda: list(AuditEntry.objects.all()))
    assert (entry.actor_id, entry.client_address, entry.object_repr) == (
        "service_account/robot",
        "192.0.2.7",
        "alice@example.com, from 192.0.2.1",
    )
    await api.problem(404, "DELETE", f"sessions/{session.id}")
    assert len(await api.audit_log()) == 1


async def test_no_session_ends_without_audit(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await api.signed_in("alice")

    def is_full(*_: Any, **__: Any) -> None:
        raise OperationalError("database is full")

    monkeypatch.setattr(AuditEntry.objects, "bulk_create", is_full)
    monkeypatch.setattr(type(AuditEntry.objects), "bulk_create", is_full)
    for method, path, document in (
        ("DELETE", f"sessions/{session.id}", None),
        ("POST", "end_sessions", {"user_id": "oidc/alice"}),
    ):
        problem = await api.problem(503, method, path, document)
        assert "full" not in problem["detail"]
    assert await api.site.broker.get(SESSION, session.id) is not None


async def test_failure_is_in_the_audit_log(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    session = await api.signed_in("alice")

    async def away(type: str, id: str) -> bool:
        raise BrokerError("away")

    monkeypatch.setattr(api.site.broker, "delete", away)
    await api.problem(503, "DELETE", f"sessions/{session.id}")
    await api.problem(503, "POST", "end_sessions", {"user_id": "oidc/alice"})
    assert [action for _, action, _ in await api.audit_log()] == [
        AuditAction.END_SESSION,
        AuditAction.END_SESSION.failure,
        AuditAction.END_ALL_SESSIONS,
        AuditAction.END_ALL_SESSIONS.failure,
    ]


async def test_ends_all_sessions_of_a_user(api: ApiSite) -> None:
    first, second = await api.signed_in("alice", "one"), await api.signed_in("alice", "two")
    other = await api.signed_in("bob")
    await in_database(lambda: known(first.id))
    answer = await api.done("POST", "end_sessions", {"user_id": "oidc/alice"})
    assert answer == {"ended": 2}
    assert [await api.site.broker.get(SESSION, each.id) is None for each in (first, second, other)] == [True, True, False]
    assert await api.audit_log() == [("robot (API)", AuditAction.END_ALL_SESSIONS, "oidc/alice")]
