"""API of grants: list and revoke."""

import pytest

from databroker.audit_log import AuditAction
from databroker.grants.grant_records import AccessGrant
from databroker.grants.grant_store import GrantStore
from databroker.records import UserRecord
from foundation.errors import BrokerError
from tests.support.api_site import ApiSite


async def give(api: ApiSite, username: str, *ids: str) -> None:
    now = api.site.clock()
    for id in ids:
        access = AccessGrant(id, f"route-{id}", now, now + 3600, "ops", "to see", f"Route {id}")
        await GrantStore(api.site.broker, api.site.clock).grant(UserRecord(f"oidc/{username}", name=username, issuer="i"), access)


async def listed(api: ApiSite, query: str = "") -> list[str]:
    return [item["id"] for item in (await api.done("GET", f"grants?{query}"))["items"]]


async def test_grants_are_listed_a_page_at_a_time(api: ApiSite) -> None:
    await give(api, "bob", "b2", "b1")
    await give(api, "alice", "a1")
    first = await api.done("GET", "grants?limit=2")
    assert [item["id"] for item in first["items"]] == ["a1", "b1"]
    assert {key: first["items"][0][key] for key in ("user_id", "user", "route", "granted_by", "reason")} == {
        "user_id": "oidc/alice",
        "user": "alice",
        "route": "Route a1",
        "granted_by": "ops",
        "reason": "to see",
    }
    assert await listed(api, f"cursor={first['next']}") == ["b2"]
    assert await listed(api, "user_id=oidc/bob") == ["b1", "b2"]


async def test_a_revoked_grant_is_over_and_in_the_audit_log(api: ApiSite) -> None:
    await give(api, "alice", "a1", "a2")
    await api.done("DELETE", "grants/a1", status=204)
    assert await listed(api) == ["a2"]
    assert await api.audit_log() == [("robot (API)", AuditAction.REVOKE_ACCESS, "oidc/alice")]
    await api.problem(404, "DELETE", "grants/a1")
    assert len(await api.audit_log()) == 1


async def test_failed_revocation_is_reported(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    await give(api, "alice", "a1")

    async def away(*_: object, **__: object) -> None:
        raise BrokerError("away")

    monkeypatch.setattr(api.site.broker, "put", away)
    await api.problem(503, "DELETE", "grants/a1")
    assert [action for _, action, _ in await api.audit_log()] == [AuditAction.REVOKE_ACCESS, AuditAction.REVOKE_ACCESS.failure]


async def test_an_expired_grant_is_listed_as_such_for_a_day(api: ApiSite) -> None:
    await give(api, "alice", "a1")
    api.site.clock.ahead += 3601
    await give(api, "alice", "a2")
    assert [(item["id"], item["is_expired"]) for item in (await api.done("GET", "grants"))["items"]] == [("a1", True), ("a2", False)]
    await api.problem(404, "DELETE", "grants/a1")
    api.site.clock.ahead += 86400
    assert await listed(api) == ["a2"]
