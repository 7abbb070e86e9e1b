"""Accessible routes equal the decisions on the requests themselves, for any policy, user, address and time."""

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorize.accessible_routes import AccessibleRoute, EntryPoint, EntryPoints, ambient_headers, entry_path
from authorize.policy.decision import Decision, Outcome, decide
from authorize.policy.policy_request import PolicyRequest
from authorize.service import AuthorizeService
from config.routes.route import Route
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.support.policy_cases import Cases
from tests.unit.authorize.broker import followed_broker, settled
from tests.unit.authorize.builders import HTTPS, NOW, make_route, request, table, user

AUTHENTICATE = "auth.example.com"
POLICIES = 500
LAYOUTS: tuple[dict[str, Any], ...] = (
    {},
    {"prefix": "/admin"},
    {"path": "/x/admin"},
    {"regex": "/[a-z]*"},
    {"regex": "/admin(/.*)?"},
    {"prefix": "/a b/"},
    {"portal": "hide"},
    {"acr_values": ["a"]},
    {"max_age": "10m"},
)
PEOPLE: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("1", {"email": "ann@corp.com"}, ("g1", "payroll")),
    ("2", {"email": "eve@evil-corp.com", "team": "a", "acr": "a", "auth_time": NOW - 60}, ()),
    ("corp", {"email": "bob@corp.com", "level": 1, "realm": {"role": ["b"]}}, ("audit",)),
)


def random_policy(seed: int) -> list[dict[str, Any]]:
    """Routes of many hosts, some of which share one."""
    chosen, cases, policy = random.Random(seed), Cases(seed), []
    for number in range(POLICIES):
        host = f"https://r{chosen.randint(0, number)}.example.com" + chosen.choice(["", "", ":8443"])
        layout = chosen.choice(LAYOUTS)
        written = next(route for route in iter(cases.route, None) if "client_certificate" not in str(route))
        if {"allow_public_unauthenticated_access"} & written.keys():
            layout = {key: value for key, value in layout.items() if key not in ("acr_values", "max_age")}
        policy.append({"from": host, "to": "http://127.0.0.1:1", **layout, **written})
    return policy


@pytest.mark.parametrize("seed", [1, 2])
async def test_listed_routes_match_the_decisions_on_requests(tmp_path: Path, seed: int) -> None:
    options = make_options(tmp_path, policy=random_policy(seed))
    cookies, outcomes = SessionCookies(options), set[tuple[Outcome, bool]]()
    async with followed_broker() as (broker, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: 1500.0)
        for subject, claims, groups in PEOPLE:
            await broker.sign_in(f"s{subject}", f"oidc/{subject}", claims=claims, email=claims["email"])
            await broker.join(f"oidc/{subject}", *groups)
        await settled()
        for subject, _, _ in PEOPLE:
            for address in ("10.1.2.3", "203.0.113.9"):
                page_request = PolicyRequest("GET", AUTHENTICATE, None, "/.gate/", source_ip=address, headers=((b"x-env", b"a"),))
                cookie = signed_in(cookies, f"s{subject}", AUTHENTICATE, issued=1000.0, expires=2000.0).encode()
                listed = {id(each.route): each for each in await service.accessible_routes(page_request, [cookie])}
                for route in service.routes.routes():
                    page = EntryPoint.for_route(route, service.default_ports)
                    assert page is not None or route.route.regex
                    start = page.build_request(page_request, page_request.headers) if page is not None else None
                    outcome = await check(service, start, cookies, subject) if start is not None else None
                    opens = outcome is not None and outcome[0] in (Outcome.ALLOWED, Outcome.STEP_UP) and outcome[1] is route
                    assert (id(route) in listed) is opens, (route.route.from_, route.route.policy, page_request.source_ip, outcome)
                    if opens and outcome is not None:
                        assert listed[id(route)].needs_step_up is (outcome[0] is Outcome.STEP_UP)
                    if outcome is not None:
                        outcomes.add((outcome[0], opens))
    assert {(Outcome.ALLOWED, True), (Outcome.STEP_UP, True), (Outcome.FORBIDDEN, False)} <= outcomes


async def check(service: AuthorizeService, incoming: PolicyRequest, cookies: SessionCookies, subject: str) -> tuple[Outcome, object] | None:
    """By the door that requests go through, at the application's own host."""
    cookie = signed_in(cookies, f"s{subject}", incoming.host_port, issued=1000.0, expires=2000.0).encode()
    decision = (await service.check(incoming, [cookie])).decision
    return decision.outcome, decision.compiled_route


async def listed(*routes: Any, page_request: PolicyRequest | None = None, **facts: Any) -> tuple[AccessibleRoute, ...]:
    found, identity = table(*routes), user(**facts)

    def evaluate(incoming: PolicyRequest, client_id: str = "") -> Decision:
        scopes = frozenset({"read"}) if client_id else frozenset[str]()
        return decide(incoming, replace(identity, client_id=client_id, scopes=scopes), found, NOW)

    return await EntryPoints(found, HTTPS).find_accessible(page_request or request("/.gate/", AUTHENTICATE), evaluate)


async def test_a_start_page_that_is_another_route_s_is_none_of_this_one() -> None:
    free, secret = make_route(allow_any_authenticated_user=True), make_route(prefix="/", allowed_users=["x@corp.com"], title="Secret")
    assert [each.route.route for each in await listed(free, secret)] == [free]


async def test_redirects_are_hidden_and_hosts_with_a_wildcard_are_not_listed() -> None:
    gone, listed_table = (
        Route.model_validate({"from": f"https://{host}", "redirect": {"host_redirect": "new.example.com"}, **keys})
        for host, keys in (("old.example.com", {}), ("also-old.example.com", {"portal": "show"}))
    )
    everywhere = make_route("*.example.com", allow_any_authenticated_user=True)
    found = [each.route.route for each in await listed(gone, listed_table, everywhere)]
    assert [(route, route.is_in_portal) for route in found] == [(gone, False), (listed_table, True)]


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ({}, "/"),
        ({"path": "/a b"}, "/a%20b"),
        ({"prefix": "/app/"}, "/app/"),
        ({"regex": "/.*"}, "/"),
        ({"regex": "/docs(/.*)?"}, "/docs"),
        ({"regex": "/item/[0-9]+"}, None),
        ({"prefix": "/a", "regex": "/a/b"}, "/a/b"),
    ],
)
def test_start_page_is_the_one_named_by_the_route(keys: dict[str, Any], path: str | None) -> None:
    assert entry_path(table(make_route(**keys, allow_any_authenticated_user=True)).routes()[0]) == path


@pytest.mark.parametrize(
    ("rule", "is_partial"),
    [
        ({"http_path": {"is": "/"}}, True),
        ({"http_method": "GET"}, True),
        ({"http_header/x-env": "prod"}, True),
        ({"domain": "corp.com"}, False),
        ({"source_ip": "10.0.0.0/8"}, False),
    ],
)
async def test_partially_accessible_routes_are_marked(rule: dict[str, Any], is_partial: bool) -> None:
    page_request = PolicyRequest("GET", AUTHENTICATE, None, "/.gate/", source_ip="10.1.1.1", headers=((b"x-env", b"prod"),))
    (found,) = await listed(make_route(policy={"allow": {"and": [rule]}}), page_request=page_request)
    assert found.is_partially_accessible is is_partial
    (quiet,) = await listed(make_route(policy=[{"mode": "shadow", "deny": rule}, {"allow": {"and": [{"domain": "corp.com"}]}}]))
    assert not quiet.is_partially_accessible


async def test_mcp_server_with_limited_tools_is_listed() -> None:
    (found,) = await listed(make_route(mcp={}, policy=[{"deny": {"mcp_tool": {"not_in": ["a"]}}}, {"allow": {"domain": "corp.com"}}]))
    assert found.is_partially_accessible


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"policy": {"allow": {"domain": "corp.com"}}}, (True, True)),
        ({"policy": {"allow": {"domain": "else.com"}}}, None),
        # Only clients, only some of them, only with a scope, only some messages.
        ({"policy": {"allow": {"and": [{"domain": "corp.com"}, {"client": "claude.ai"}]}}}, (False, True)),
        ({"policy": {"allow": {"and": [{"domain": "else.com"}, {"client": "claude.ai"}]}}}, None),
        ({"policy": {"allow": {"scope": "read"}}}, (False, True)),
        ({"policy": {"allow": {"scope": "write"}}}, None),
        ({"policy": {"allow": {"client": {"not_in": ["claude.ai"]}}}}, (False, True)),
        ({"policy": [{"allow": {"domain": "corp.com"}}, {"deny": {"client": {"not_in": ["claude.ai"]}}}]}, (True, True)),
        ({"policy": {"allow": {"mcp_method": ["tools/list", "tools/call"]}}}, (False, True)),
        ({"policy": {"allow": {"mcp_tool": "search"}}}, None),
        ({"policy": [{"allow": {"domain": "corp.com"}}, {"deny": {"mcp_method": {"matches": ".*"}}}]}, (True, False)),
        ({"policy": [{"allow": {"domain": "corp.com"}}, {"deny": {"http_method": "GET"}}]}, (False, True)),
        ({"policy": {"allow": {"domain": "corp.com"}}, "regex": "/m.*", "mcp": {"path": "/mcp"}}, (True, True)),
    ],
)
async def test_mcp_server_is_listed_if_a_client_may_connect(keys: dict[str, Any], expected: tuple[bool, bool] | None) -> None:
    route = make_route(**{"mcp": {"path": "/mcp", "scopes": {"read": "Read", "write": "Write"}}, **keys})
    assert [(each.opens_page, each.serves_mcp) for each in await listed(route)] == ([expected] if expected is not None else [])


async def test_mcp_server_that_needs_step_up_is_marked() -> None:
    keys = {"mcp": {}, "allowed_domains": ["corp.com"], "acr_values": ["mfa"]}
    assert [(each.needs_step_up, each.serves_mcp) for each in await listed(make_route(**keys))] == [(True, True)]


def test_request_specific_headers_are_not_reused() -> None:
    headers = ((b"host", b"auth.example.com"), (b"cookie", b"a=b"), (b"referer", b"x"), (b"user-agent", b"x"))
    page_request = PolicyRequest(
        "GET", AUTHENTICATE, None, "/.gate/", query="q=a", origin="https://x", source_ip="192.0.2.7", headers=headers
    )
    route = table(make_route("app.example.com:8443", allow_any_authenticated_user=True)).routes()[0]
    page = EntryPoint.for_route(route, HTTPS)
    assert page is not None
    start = page.build_request(page_request, ambient_headers(headers))
    assert (start.method, start.host_port, start.path, start.query, start.origin) == ("GET", "app.example.com:8443", "/", "", "")
    assert start.headers == ((b"host", b"app.example.com:8443"), (b"user-agent", b"x"))
    assert start.source_ip == "192.0.2.7"


async def test_yields_to_other_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("authorize.accessible_routes.YIELD_INTERVAL_SECONDS", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.ensure_future(count())
    routes = [make_route(f"r{number}.example.com", allow_any_authenticated_user=True) for number in range(50)]
    assert len(await listed(*routes)) == 50
    counting.cancel()
    assert turns >= 40
