"""Service accounts by the API: no program makes one that may more than itself, by whatever it is known."""

from typing import Any

import pytest

from databroker.audit_log import AuditAction
from databroker.records import SERVICE_ACCOUNT
from databroker.service_account_store import NO_EXPIRY, ServiceAccounts
from foundation.errors import BrokerError
from tests.support.api_site import ALL, ApiSite

DAY = 86400


async def listed(api: ApiSite, query: str = "") -> list[str]:
    return [item["name"] for item in (await api.done("GET", f"service_accounts?{query}"))["items"]]


async def test_created_account_works(api: ApiSite) -> None:
    wanted = {"name": "robot--reader", "permissions": ["routes:read"], "lifetime_seconds": 3600.0}
    made = await api.done("POST", "service_accounts", wanted, status=201)
    assert (await api.ask("GET", "routes", token=made["token"])).status == 200
    assert (await api.ask("GET", "users", token=made["token"])).status == 403
    assert await api.audit_log() == [("robot (API)", AuditAction.CREATE_ACCOUNT, "robot--reader")]
    (account,) = (await api.done("GET", "service_accounts?q=reader"))["items"]
    assert (account["created_by"], account["permissions"], account["groups"]) == ("service_account/robot", ["routes:read"], [])
    assert made["token"] not in str(account)
    assert "hash" not in str(account)
    await api.problem(409, "POST", "service_accounts", {"name": "robot--reader"})


async def test_created_accounts_end_with_a_rotation(api: ApiSite) -> None:
    """Also where the chain has revoked its own middle, so that no list of living accounts leads to its end."""
    may = {"permissions": ["service_accounts:write", "routes:read"]}
    first = await api.account("maker", [*may["permissions"]], [], days=30)
    second = (await api.done("POST", "service_accounts", {"name": "maker--x", **may}, token=first, status=201))["token"]
    third = (await api.done("POST", "service_accounts", {"name": "maker--x--y", **may}, token=second, status=201))["token"]
    assert (await api.ask("GET", "routes", token=third)).status == 200
    await ServiceAccounts(api.site.broker).rotate("maker")
    for token in (first, second, third):
        assert (await api.ask("GET", "routes", token=token)).status == 401
    items = (await api.done("GET", "service_accounts"))["items"]
    assert {item["name"]: item["ended_with_creator"] for item in items} == {
        "maker": False,
        "maker--x": True,
        "maker--x--y": True,
        "robot": False,
    }


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"permissions": ["routes:read", "sessions:end"]}, "sessions:end"),
        ({"permissions": list(ALL)}, "lacks the permission"),
        ({"groups": ["admins"]}, "admins"),
        ({"groups": ["deployers", "admins"]}, "admins"),
        ({"groups": [" deployers"]}, "deployers"),
        ({"name": "other"}, "maker--suffix"),
        ({"name": "maker"}, "maker--suffix"),
        ({"name": "maker-x"}, "maker--suffix"),
        ({"name": "makers--x"}, "maker--suffix"),
        ({"lifetime_seconds": 31 * DAY}, "expires earlier"),
    ],
)
async def test_refuses_rights_beyond_the_creator(api: ApiSite, wanted: dict[str, Any], why: str) -> None:
    token = await api.account("maker", ["service_accounts:write", "routes:read"], ["deployers"], days=30)
    problem = await api.problem(403, "POST", "service_accounts", {"name": "maker--x", **wanted}, token=token)
    assert why in problem["detail"]
    assert await listed(api) == ["maker", "robot"]
    assert await api.audit_log() == []


async def test_account_expires_with_its_creator(api: ApiSite) -> None:
    token = await api.account("maker", ["service_accounts:write"], ["deployers"], days=30)
    wanted = {"name": "maker--x", "groups": ["deployers"], "permissions": ["service_accounts:write"]}
    made = await api.done("POST", "service_accounts", wanted, token=token, status=201)
    parent, child = [await api.site.broker.get(SERVICE_ACCOUNT, name) for name in ("maker", "maker--x")]
    assert parent is not None
    assert child is not None
    assert child.data["expires_at"] <= parent.data["expires_at"]
    again = await api.done("POST", "service_accounts", {"name": "maker--x--y"}, token=made["token"], status=201)
    assert (await api.ask("GET", "routes", token=again["token"])).status == 403


async def test_of_one_that_never_ends_an_account_lives_ninety_days(api: ApiSite) -> None:
    token = await api.account("maker", ["service_accounts:write"], days=None)
    await api.done("POST", "service_accounts", {"name": "maker--x"}, token=token, status=201)
    child = await api.site.broker.get(SERVICE_ACCOUNT, "maker--x")
    assert child is not None
    assert 89 * DAY < child.data["expires_at"] - api.site.clock() < 91 * DAY
    (maker,) = (await api.done("GET", "service_accounts?q=maker&limit=1"))["items"]
    assert (maker["name"], maker["expires_at"]) == ("maker", None)
    assert NO_EXPIRY > 1e11


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"name": "Robot--x"},
        {"name": "robot--"},
        {"name": "robot--" + "x" * 60},
        {"name": "robot--x", "permissions": ["everything"]},
        {"name": "robot--x", "permissions": "routes:read"},
        {"name": "robot--x", "groups": [""]},
        {"name": "robot--x", "groups": ["a\u0000"]},
        {"name": "robot--x", "lifetime_seconds": 1},
        {"name": "robot--x", "lifetime_seconds": "90"},
        {"name": "robot--x", "lifetime_seconds": 90.5},
        {"name": "robot--x", "lifetime_seconds": True},
        {"name": "robot--x", "lifetime_seconds": 1e400},
        {"name": "robot--x", "created_by": "root"},
        {"name": "robot--x", "secret_hash": "0"},
    ],
)
async def test_malformed_account_is_refused_and_named(api: ApiSite, wanted: dict[str, Any]) -> None:
    problem = await api.problem(400, "POST", "service_accounts", wanted)
    assert problem["errors"]
    assert await api.audit_log() == []


async def test_revocation_is_immediate_also_of_itself(api: ApiSite) -> None:
    token = await api.account("other", ["routes:read"])
    await api.done("DELETE", "service_accounts/other", status=204)
    assert (await api.ask("GET", "routes", token=token)).status == 401
    await api.problem(404, "DELETE", "service_accounts/other")
    await api.done("DELETE", "service_accounts/robot", status=204)
    assert (await api.ask("GET", "routes")).status == 401
    assert [(action, id) for _, action, id in await api.audit_log()] == [
        (AuditAction.REVOKE_ACCOUNT, "other"),
        (AuditAction.REVOKE_ACCOUNT, "other"),
        (AuditAction.CREATE_ACCOUNT.failure, "other"),
        (AuditAction.REVOKE_ACCOUNT, "robot"),
    ]


async def test_failure_is_in_the_audit_log(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object, **__: object) -> None:
        raise BrokerError("away")

    monkeypatch.setattr(api.site.broker, "put", away)
    await api.problem(503, "POST", "service_accounts", {"name": "robot--x"})
    assert [action for _, action, _ in await api.audit_log()] == [AuditAction.CREATE_ACCOUNT, AuditAction.CREATE_ACCOUNT.failure]


async def test_accounts_are_listed_a_page_at_a_time(api: ApiSite) -> None:
    for name in ("d", "a", "c", "b"):
        await api.account(name, ["routes:read"], ["deployers"])
    first = await api.done("GET", "service_accounts?limit=3")
    assert [item["name"] for item in first["items"]] == ["a", "b", "c"]
    assert await listed(api, f"cursor={first['next']}") == ["d", "robot"]
    assert await listed(api, "q=DEPLOYERS") == ["a", "b", "c", "d"]
