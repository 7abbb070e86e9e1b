"""Requests for access by the API: a program answers as itself, and only where a rule names it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

from databroker.audit_log import AuditAction
from databroker.grants.access_request_store import AccessRequest, AccessRequestStore
from databroker.grants.grant_store import GrantStore
from tests.support.api_site import ApiSite
from tests.support.authenticate_site import Site
from tests.support.fake_idp import FakeIdP

WAGES = {"from": "https://wages.example.com", "to": "http://127.0.0.1:9", "name": "wages", "allowed_groups": ["payroll"]}


def route(approvers: list[Any], **keys: Any) -> dict[str, Any]:
    return {**WAGES, "access_requests": {"approvers": approvers, **keys}}


@pytest.fixture
async def sites(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[Any]:
    """Makes a site with one route, which may be asked for."""
    started: list[Site] = []

    async def make(approvers: list[Any], groups: list[str] | None = None, **keys: Any) -> ApiSite:
        site = Site(tmp_path, idp, django_pages, policy=[route(approvers, **keys)])
        await site.service.start()
        started.append(site)
        api = ApiSite(site)
        api.token = await api.account(groups=groups or ())
        return api

    yield make
    for site in started:
        await site.service.stop()


async def ask(api: ApiSite, username: str = "alice", email: str = "") -> None:
    desk = api.site.service.access_requests
    (access_request,) = desk.rules.routes
    now = api.site.clock()
    held = AccessRequest(
        "c" * 32, f"oidc/{username}", "i", username, access_request.grant_key, "wages", "year's end", 3600.0, now, email=email
    )
    await AccessRequestStore(api.site.broker, api.site.clock).add(held)


async def the_one(api: ApiSite) -> dict[str, Any]:
    (item,) = (await api.done("GET", "requests"))["items"]
    return item


async def granted(api: ApiSite) -> list[str]:
    return [held.user_id async for held, _ in GrantStore(api.site.broker, api.site.clock).iter_grants()]


async def test_named_service_account_approves(sites: Any) -> None:
    api = await sites([{"groups": "leads"}, {"user": "service_account/robot"}])
    await ask(api)
    item = await the_one(api)
    assert (item["user_id"], item["route"], item["reason"], item["duration_seconds"], item["can_decide"]) == (
        "oidc/alice",
        "wages",
        "year's end",
        3600,
        True,
    )
    answer = await api.done("POST", f"requests/{item['id']}/approve")
    assert answer["granted"] is True
    assert await granted(api) == ["oidc/alice"]
    assert await api.audit_log() == [
        ("robot (API)", AuditAction.APPROVE_REQUEST, "oidc/alice"),
        ("robot (API)", AuditAction.GRANT_ACCESS, "oidc/alice"),
    ]
    assert (await api.done("GET", "requests"))["items"] == []
    assert (await api.done("GET", "grants"))["items"][0]["granted_by"] == "service_account/robot"
    await api.problem(404, "POST", f"requests/{item['id']}/approve")


async def test_named_service_account_denies(sites: Any) -> None:
    api = await sites([{"user": {"in": ["alice@example.com", "service_account/robot"]}}])
    await ask(api)
    await api.done("POST", f"requests/{(await the_one(api))['id']}/deny", status=204)
    assert (await granted(api), await api.audit_log()) == ([], [("robot (API)", AuditAction.DENY_REQUEST, "oidc/alice")])


@pytest.mark.parametrize(
    "approvers",
    [
        [{"groups": "leads"}],
        [{"user": "service_account/other"}],
        [{"user": "robot"}],
        [{"user": {"not_in": ["service_account/other"]}}],
        [{"user": {"not_in": ["service_account/robot"]}}],
    ],
)
async def test_permissions_and_groups_make_no_approver(sites: Any, approvers: list[Any]) -> None:
    api = await sites(approvers, groups=["leads"])
    await ask(api)
    item = await the_one(api)
    assert item["can_decide"] is False
    for answer in ("approve", "deny"):
        await api.problem(403, "POST", f"requests/{item['id']}/{answer}")
    assert (await granted(api), await api.audit_log()) == ([], [])


async def test_an_approver_without_the_permission_answers_nothing(sites: Any) -> None:
    api = await sites([{"user": "service_account/named"}])
    token = await api.account("named", ["requests:read"])
    await ask(api)
    problem = await api.problem(403, "POST", f"requests/{(await the_one(api))['id']}/approve", token=token)
    assert problem["permission"] == "requests:decide"


async def test_approval_ends_with_the_service_account(sites: Any) -> None:
    api = await sites([{"user": {"in": ["service_account/robot", "service_account/second"]}}], approvals=2)
    await ask(api)
    path = f"requests/{(await the_one(api))['id']}/approve"
    second = await api.account("second")
    assert (await api.done("POST", path))["granted"] is False
    assert (await api.done("POST", path))["granted"] is False  # the same service account again
    assert (await the_one(api))["approved_by"] == ["service_account/robot"]
    await api.accounts.revoke("robot")
    assert (await api.done("POST", path, token=second))["granted"] is False
    api.token = await api.account("robot")
    assert (await api.done("POST", path))["granted"] is True


@pytest.mark.parametrize("step", ["made anew", "given a new secret"])
async def test_approval_by_a_rotated_secret_is_ignored(sites: Any, step: str) -> None:
    """The approval may have been sent by anyone with the old secret."""
    api = await sites([{"user": {"in": ["service_account/robot", "service_account/second"]}}], approvals=2)
    await ask(api)
    path = f"requests/{(await the_one(api))['id']}/approve"
    second = await api.account("second")
    assert (await api.done("POST", path))["granted"] is False
    api.site.clock.ahead += 1
    if step == "made anew":
        await api.accounts.revoke("robot")
        api.token = await api.account("robot")
    else:
        api.token = await api.accounts.rotate("robot")
    assert (await api.done("POST", path, token=second))["granted"] is False
    assert (await the_one(api))["approved_by"] == ["service_account/second"]
    assert (await api.done("POST", path))["granted"] is True


@pytest.mark.parametrize("secret_viewers", ["oidc/alice", "Alice@Example.com"])
@pytest.mark.parametrize("step", ["made", "given a new secret", "made by their service account"])
async def test_requester_cannot_decide_with_a_known_secret(sites: Any, step: str, secret_viewers: str) -> None:
    name = "robot--own" if step == "made by their service account" else "named"
    api = await sites([{"user": f"service_account/{name}"}])
    may = ["requests:read", "requests:decide", "service_accounts:write"]
    if step == "made":
        token = await api.accounts.create(name, [], None, "x", may, secret_viewers=[secret_viewers])
    elif step == "given a new secret":
        await api.accounts.create(name, [], None, "x", may)
        token = await api.accounts.rotate(name, secret_viewers=[secret_viewers])
    else:
        api.token = await api.accounts.rotate("robot", secret_viewers=[secret_viewers])
        token = (await api.done("POST", "service_accounts", {"name": name, "permissions": may[:2]}, status=201))["token"]
    before = await api.audit_log()
    await ask(api, "alice", "alice@example.com")
    (item,) = (await api.done("GET", "requests", token=token))["items"]
    assert item["can_decide"] is False
    for answer in ("approve", "deny"):
        await api.problem(403, "POST", f"requests/{item['id']}/{answer}", token=token)
    assert (await granted(api), await api.audit_log()) == ([], before)


async def test_account_created_by_a_user_decides_requests_of_others(sites: Any) -> None:
    api = await sites([{"user": "service_account/named"}])
    token = await api.accounts.create("named", [], None, "x", ["requests:decide"], secret_viewers=["oidc/alice", "alice@example.com"])
    await ask(api, "bob", "bob@example.com")
    answer = await api.done("POST", f"requests/{(await the_one(api))['id']}/approve", token=token)
    assert answer["granted"] is True


async def test_accounts_of_one_creator_count_as_one_approval(sites: Any) -> None:
    names = ["robot", "robot--own", "other"]
    api = await sites([{"user": {"in": [f"service_account/{name}" for name in names]}}], approvals=2)
    made = await api.done("POST", "service_accounts", {"name": "robot--own", "permissions": ["requests:decide"]}, status=201)
    await ask(api)
    path = f"requests/{(await the_one(api))['id']}/approve"
    for token in (api.token, made["token"], api.token):
        assert (await api.done("POST", path, token=token))["granted"] is False
    assert (await api.done("POST", path, token=await api.account("other")))["granted"] is True


async def test_a_list_of_requests_is_read_a_page_at_a_time(sites: Any) -> None:
    api = await sites([{"user": "service_account/robot"}])
    for username in ("alice", "bob", "carol"):
        await ask(api, username)
    first = await api.done("GET", "requests?limit=2")
    second = await api.done("GET", f"requests?limit=2&cursor={first['next']}")
    assert sorted(item["user"] for item in (*first["items"], *second["items"])) == ["alice", "bob", "carol"]
    assert second["next"] is None
    assert [item["user"] for item in (await api.done("GET", "requests?user_id=oidc/bob"))["items"]] == ["bob"]
