"""Access request page: request, approve, deny, revoke, and protection against forged forms."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.db import OperationalError

from authorize.route_settings import RouteLinks
from databroker.grants.grant_store import GrantStore
from databroker.models import AuditEntry
from databroker.records import ACCESS_GRANT, USER
from tests.support.authenticate_site import Browser, Response, Site
from tests.support.database import in_database
from tests.support.fake_idp import PEOPLE, FakeIdP

PAGE = "/.gate/access"
UPSTREAM = "http://127.0.0.1:1"
KEYS: dict[str, Any] = {"approvers": [{"groups": "leads"}], "max_duration": "2h"}
WAGES = {"from": "https://wages.example.com", "to": UPSTREAM, "name": "wages", "title": "Wages", "allowed_groups": ["payroll"]}
HIDDEN = {"from": "https://vault.example.com", "to": UPSTREAM, "allowed_groups": ["none"], "portal": "hide", "access_requests": KEYS}
OPEN = {"from": "https://app.example.com", "to": UPSTREAM, "allow_any_authenticated_user": True}

TOOLS = {
    "from": "https://tools.example.com",
    "to": UPSTREAM,
    "title": "Repositories",
    "allow_any_authenticated_user": True,
    "mcp": {"path": "/mcp"},
    "access_requests": {**KEYS, "tools": ["delete_repo", "merge_*"]},
}


@pytest.fixture
async def site(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setitem(PEOPLE, "carol", {"name": "Carol", "email": "carol@corp.example", "email_verified": True, "groups": ["leads"]})
    site = Site(tmp_path, idp, django_pages, policy=[{**WAGES, "access_requests": KEYS}, HIDDEN, OPEN, TOOLS])
    await site.service.start()
    yield site
    await site.service.stop()


async def signed_in(site: Site, username: str = "alice") -> Browser:
    browser = site.browser()
    await browser.get(site.idp.pick(await browser.to_provider(), username))
    return browser


async def text(browser: Browser, query: str = "") -> str:
    page = await browser.get(f"{PAGE}{query}")
    assert page.status == 200, page.text
    return page.text


def route_id(site: Site, name: str = "wages") -> str:
    return next(RouteLinks(site.options).link_id(route) for route in site.options.policy if name in str(route.from_))


async def press(browser: Browser, do: str, **fields: str) -> Response:
    (token, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', await text(browser, f"?route={route_id(browser.site)}"))
    return await browser.post(PAGE, {"_gate_csrf": token, "do": do, **fields})


async def ask(browser: Browser, **fields: str) -> Response:
    return await press(browser, "ask", **{"route": route_id(browser.site), "why": "the year's end", "duration": "3600", **fields})


def waiting(page: str, name: str = "request") -> list[str]:
    return re.findall(rf'name="{name}" value="([^"]+)"', page)


async def audited() -> list[tuple[str, str, str]]:
    return await in_database(lambda: list(AuditEntry.objects.order_by("pk").values_list("actor_id", "action", "object_id")))


async def granted(site: Site) -> list[str]:
    return [record.user_id async for record, _ in GrantStore(site.broker, site.clock).iter_grants()]


async def test_request_approve_and_revoke(site: Site) -> None:
    alice, carol = await signed_in(site), await signed_in(site, "carol")
    page = await text(alice)
    assert f'href="/.gate/access?route={route_id(site)}"' in page
    assert not any(route.id in page for route in site.options.policy), "an unkeyed id lets users test guesses of upstreams"
    assert "vault" not in page, "what the portal hides is hidden here, too"
    form = await text(alice, f"?route={route_id(site)}")
    assert "Request access to <bdi>Wages</bdi>" in form
    assert re.findall(r"<option[^>]*>([^<]+)", form) == ["15 minutes", "30 minutes", "1 hour", "2 hours"]
    sent_page = await ask(alice)
    assert (sent_page.status, sent_page.headers["location"]) == (303, f"{PAGE}?sent=1")
    form = await text(alice, "?sent=1")
    assert "Your request was sent" in form
    assert "Your requests" in form
    assert "Your request was sent" not in await text(alice)
    seen = await text(carol)
    assert "<bdi>alice@corp.example</bdi></b> requests <b><bdi>Wages</bdi></b> for 1 hour" in seen
    assert "the year&#39;s end" in seen
    (value,) = waiting(seen)
    assert (await press(carol, "approve", request=value)).status == 303
    assert await granted(site) == ["oidc/alice"]
    mine = await text(alice)
    assert "Granted by <bdi>carol@corp.example</bdi>" in mine
    (access,) = waiting(mine, "access")
    assert (await press(alice, "end", access=access)).status == 303
    assert await granted(site) == []
    names = ["requests access", "approves an access request", "grants temporary access", "revokes temporary access"]
    assert await audited() == [
        (f"oidc/{username}", name, "oidc/alice") for username, name in zip(("alice", "carol", "carol", "alice"), names, strict=True)
    ]


async def test_request_and_grant_of_a_tool(site: Site) -> None:
    alice, carol = await signed_in(site), await signed_in(site, "carol")
    link = f"?route={route_id(site, 'tools.')}"
    assert f'href="/.gate/access{link}"' in await text(alice)
    form = await text(alice, f"{link}&tool=delete_repo")
    assert "Request access to the tool <bdi>delete_repo</bdi> of <bdi>Repositories</bdi>" in form
    assert '<input type="hidden" name="tool" value="delete_repo">' in form
    for other in ("", "&tool=read_file", "&tool=%3Cb%3E", "&tool=" + "x" * 300):
        form = await text(alice, f"{link}{other}")
        assert '<option value="delete_repo">' in form, "the tool is entered"
        assert "merge_" not in form
        assert "<b>" not in form.replace("<b><bdi>", "")
    route = route_id(site, "tools.")
    for tool in ("", "read_file", "merge_"):
        assert (await ask(alice, route=route, tool=tool)).status == 400
    assert (await ask(alice, tool="delete_repo")).status == 400, "of a route without tools"
    assert (await ask(alice, route=route, tool=" merge_now ")).status == 303
    seen = await text(carol)
    assert "requests <b><bdi>Repositories: merge_now</bdi></b> for 1 hour" in seen
    (value,) = waiting(seen)
    assert (await press(carol, "approve", request=value)).status == 303
    ((_, access),) = [each async for each in GrantStore(site.broker, site.clock).iter_grants()]
    assert (access.tool, access.route_name, access.route) == ("merge_now", "Repositories: merge_now", site.options.policy[3].grant_key)
    mine = await text(alice)
    assert "Repositories: merge_now" in mine
    assert (await press(alice, "end", access=waiting(mine, "access")[0])).status == 303
    assert await granted(site) == []


async def test_sign_in_leads_back_to_the_tool(site: Site) -> None:
    browser = site.browser()
    page = f"{PAGE}?route={route_id(site, 'tools.')}&tool=delete_repo"
    provider = (await browser.get((await browser.get(page)).location)).location
    assert (await browser.get(site.idp.pick(provider, "alice"))).location.endswith(page)


@pytest.mark.parametrize("page", ["/.gate/", "/.gate/sessions", "/.gate/why", PAGE])
async def test_approvers_see_how_many_requests_wait_for_them(site: Site, page: str) -> None:
    alice, carol = await signed_in(site), await signed_in(site, "carol")

    async def entry(browser: Browser) -> list[str]:
        return re.findall(r'<a href="/.gate/access"[^>]*>(Access requests[^<]*)</a>', (await browser.get(page)).text)

    assert await entry(carol) == ["Access requests"]
    await ask(alice)
    assert (await entry(carol), await entry(alice)) == (["Access requests (1 waiting)"], ["Access requests"])
    (value,) = waiting(await text(carol))
    await press(carol, "refuse", request=value)
    assert await entry(carol) == ["Access requests"]


async def test_a_link_alone_confirms_nothing(site: Site) -> None:
    assert "Your request was sent" not in await text(await signed_in(site), "?sent=1")


async def test_unverified_address_is_not_displayed_as_name(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, username in {
        "mallory": {"name": "Boss", "email": "boss@corp.example", "email_verified": False, "groups": []},
        "nameless": {"email": "boss@corp.example", "email_verified": False, "groups": []},
    }.items():
        monkeypatch.setitem(PEOPLE, name, username)
        assert (await ask(await signed_in(site, name))).status == 303
    seen = await text(await signed_in(site, "carol"))
    assert "<bdi>Boss (oidc/mallory)</bdi></b> requests" in seen
    assert "<bdi>oidc/nameless</bdi></b> requests" in seen
    assert "boss@corp.example" not in seen


async def test_hidden_route_is_requestable_by_link(site: Site) -> None:
    alice = await signed_in(site)
    assert "vault.example.com" in await text(alice, f"?route={route_id(site, 'vault')}")
    assert (await ask(alice, route=route_id(site, "vault"))).status == 303


@pytest.mark.parametrize("route", ["0" * 16, "", "../x", "\x00", "<b>"])
async def test_unknown_and_forbidden_routes_look_the_same(site: Site, route: str) -> None:
    alice = await signed_in(site)
    for wanted in (route, route_id(site, "app")):
        assert "does not accept" in (await alice.get(f"{PAGE}?route={wanted.replace(chr(0), '%00')}")).text
        assert (await ask(alice, route=wanted)).status == 400
    assert await audited() == []


async def test_redirects_to_sign_in_and_back(site: Site) -> None:
    answer = await site.browser().get(f"{PAGE}?route={route_id(site)}")
    assert answer.location.startswith("https://auth.example.com/.gate/sign_in?")
    assert route_id(site) in answer.location
    assert route_id(site) not in (await site.browser().get(f"{PAGE}?route=evil")).location
    assert (await site.browser().post(PAGE, {"do": "ask"})).status == 401


async def test_forms_need_a_csrf_token(site: Site) -> None:
    alice, carol = await signed_in(site), await signed_in(site, "carol")
    await ask(alice)
    (value,) = waiting(await text(carol))
    (of_alice, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', await text(alice))
    for token in ("", "x", of_alice):
        for do in ("approve", "refuse", "withdraw", "ask", "end"):
            assert (await carol.post(PAGE, {"_gate_csrf": token, "do": do, "request": value, "route": route_id(site)})).status == 400
        assert (await carol.get(f"{PAGE}?do=approve&request={value.replace(' ', '%20')}&_gate_csrf={token}")).status == 200
    assert (await carol.get(PAGE, method="DELETE")).status == 405
    assert await granted(site) == []


async def test_the_page_can_not_be_framed(site: Site) -> None:
    page = await (await signed_in(site)).get(PAGE)
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-frame-options"] == "DENY"
    assert "unsafe-inline" not in page.headers["content-security-policy"]


async def test_non_approver_sees_and_decides_nothing(site: Site) -> None:
    alice, bob, carol = await signed_in(site), await signed_in(site, "bob"), await signed_in(site, "carol")
    await ask(alice)
    (value,) = waiting(await text(carol))
    assert "alice" not in await text(bob)
    for do, status in (("approve", 403), ("refuse", 403), ("withdraw", 404)):
        assert (await press(bob, do, request=value)).status == status
    assert (await press(alice, "approve", request=value)).status == 403
    assert await granted(site) == []
    await ask(carol)
    (own,) = waiting(await text(carol))[-1:]
    assert (await press(carol, "approve", request=own)).status == 403


@pytest.mark.parametrize("value", ["", " ", "x", "x y", "\x00 \x00", "a" * 5000])
@pytest.mark.parametrize("do", ["approve", "refuse", "withdraw", "end"])
async def test_a_button_that_names_nothing_does_nothing(site: Site, do: str, value: str) -> None:
    assert (await press(await signed_in(site, "carol"), do, request=value, access=value)).status == 404
    assert (await press(await signed_in(site, "carol"), "grant", request=value)).status == 400
    assert await granted(site) == []


async def test_markup_and_controls_in_reasons_and_names_are_harmless(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEOPLE, "alice", {**PEOPLE["alice"], "email": "a\u202e<i>@corp.example"})
    alice, carol = await signed_in(site), await signed_in(site, "carol")
    assert (await ask(alice, why="a\u202eb")).status == 400
    assert (await ask(alice, why="a\x1bb")).status == 400
    assert (await ask(alice, why="x" * 501)).status == 400
    assert (await ask(alice, why="<script>alert(1)</script>\r\n<b>")).status == 303
    seen = await text(carol)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &lt;b&gt;" in seen
    assert "<script>alert" not in seen
    assert "\u202e" not in seen
    assert "<i>@" not in seen


async def test_limits_requests_per_user(site: Site) -> None:
    alice = await signed_in(site)
    assert [(await ask(alice)).status for _ in range(7)] == [303] * 5 + [429] * 2


@pytest.mark.parametrize("duration", ["", "0", "7201", "-1", "1e3", "nan", "9" * 30, "١"])
async def test_refuses_unoffered_duration(site: Site, duration: str) -> None:
    assert (await ask(await signed_in(site), duration=duration)).status == 400


async def test_of_two_approvers_the_second_reads_that_it_is_answered(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PEOPLE, "dave", {**PEOPLE["carol"], "email": "dave@corp.example"})
    alice, carol, dave = await signed_in(site), await signed_in(site, "carol"), await signed_in(site, "dave")
    await ask(alice)
    (value,) = waiting(await text(dave))
    assert (await press(carol, "approve", request=value)).status == 303
    for do in ("approve", "refuse"):
        answer = await press(dave, do, request=value)
        assert (answer.status, "request is already" in answer.text) == (404, True)
    assert await granted(site) == ["oidc/alice"]


async def test_broker_failure_shows_a_page(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, carol = await signed_in(site), await signed_in(site, "carol")
    await ask(alice)
    (value,) = waiting(await text(carol))
    put = site.broker.put

    async def away(type: str, *arguments: Any, **more: Any) -> Any:
        from foundation.errors import BrokerError

        if type != ACCESS_GRANT and type != USER:
            return await put(type, *arguments, **more)
        raise BrokerError("away")

    monkeypatch.setattr(site.broker, "put", away)
    answer = await press(carol, "approve", request=value)
    assert answer.status == 503
    assert "The data broker is unavailable" in answer.text
    monkeypatch.undo()
    monkeypatch.setitem(PEOPLE, "carol", PEOPLE.get("carol", {}))
    assert await granted(site) == []
    assert (await press(carol, "approve", request=value)).status == 303
    assert await granted(site) == ["oidc/alice"]
    site.broker.cut()
    assert (await alice.get(PAGE)).status == 503
    assert (await alice.post(PAGE, {"do": "ask"})).status == 503
    site.broker.mend()


async def test_without_the_audit_log_nothing_is_done(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    alice = await signed_in(site)

    def broken(*args: Any, **more: Any) -> None:
        raise OperationalError("the disk is full")

    monkeypatch.setattr(type(AuditEntry.objects), "bulk_create", broken)
    answer = await ask(alice)
    assert (answer.status, "audit log" in answer.text) == (503, True)
    assert "Your requests" not in await text(alice)


async def test_page_is_404_without_requestable_routes(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> None:
    site = Site(tmp_path, idp, django_pages)
    browser = await signed_in(site)
    assert (await browser.get(PAGE)).status == 404
    assert "/.gate/access" not in (await browser.get("/.gate/")).text


async def test_the_portal_leads_to_it(site: Site) -> None:
    assert 'href="/.gate/access"' in (await (await signed_in(site)).get("/.gate/")).text
