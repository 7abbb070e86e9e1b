"""Verification page of devices: only the signed-in user allows a device, on this page, and a link with the code decides nothing."""

import html
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from authenticate.oauth.device_authorizations import MAX_INVALID_CODES
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from databroker.records import DEVICE_AUTHORIZATION
from tests.support.agents import (
    CLIENTS,
    DEVICE_PAGE,
    RESOURCE,
    SETTINGS,
    TOKEN,
    allow_device,
    enter_code,
    form_of,
    poll_form,
    post,
    sign_in_browser,
    start_device,
)
from tests.support.authenticate_site import ORIGIN, Site


async def states(site: Site) -> list[str]:
    return [record.data["state"] for record in await site.broker.page(DEVICE_AUTHORIZATION, "", 10)]


async def test_confirmation_page_names_everything(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    page = await enter_code(browser, device["user_code"].lower().replace("-", " "))
    assert page.status == 200
    text = html.unescape(page.text)
    named = ("Build box", "Ticket tools", RESOURCE, "Read tickets", "tickets:read", "alice@corp.example", device["user_code"], "192.0.2.7")
    for each in named:
        assert each in text
    assert "Change tickets" not in text
    assert "Did somebody send" in text
    policy = page.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in policy
    assert "script-src" not in policy
    assert (page.headers["x-frame-options"], page.headers["cache-control"]) == ("DENY", "no-store")
    assert await states(agent_site) == ["pending"]


async def test_link_with_the_code_only_fills_in_the_form(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    for query in ("", "&decision=allow", "&decision=allow&_gate_csrf=x"):
        page = await browser.get(f"{device['verification_uri_complete']}{query}")
        assert page.status == 200
        assert f'value="{device["user_code"]}"' in page.text
        assert "Build box" not in page.text
    assert await states(agent_site) == ["pending"]


async def test_sign_in_returns_to_the_code(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), agent_site.browser()
    for method in ("GET", "POST"):
        form = {"user_code": device["user_code"], "decision": "allow"} if method == "POST" else None
        response = await browser.get(device["verification_uri_complete"], method=method, form=form)
        assert response.status == (302 if method == "GET" else 303)
        assert response.headers["location"].startswith(f"{ORIGIN}/.gate/sign_in")
    back = await browser.get(agent_site.idp.pick((await browser.get(response.headers["location"])).location, "alice"))
    assert back.location == device["verification_uri_complete"]
    assert await states(agent_site) == ["pending"]


async def test_decision_needs_the_csrf_token_of_the_session(agent_site: Site) -> None:
    device, browser, other = await start_device(agent_site), await sign_in_browser(agent_site), await sign_in_browser(agent_site, "bob")
    _, stolen = form_of(await other.get(DEVICE_PAGE))
    for form in ({}, {"_gate_csrf": "x"}, stolen):
        page = await browser.post(DEVICE_PAGE, {**form, "user_code": device["user_code"], "decision": "allow"})
        assert (page.status, "Build box" in page.text) == (200, False)
    assert await states(agent_site) == ["pending"]


@pytest.mark.parametrize("decision", ["", "ALLOW", "allow "])
async def test_only_the_button_allows(agent_site: Site, decision: str) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    action, fields = form_of(await enter_code(browser, device["user_code"]))
    page = await browser.post(action, {**fields, "decision": decision})
    assert (page.status, "Build box" in page.text) == (200, True)


async def test_invalid_codes(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    for code in ("BBBB-BBBB", '"><script>', "", "x" * 5000):
        page = await enter_code(browser, code)
        assert (page.status, "not valid" in page.text, "<script>" in page.text) == (400, True, False)
    for _ in range(MAX_INVALID_CODES - 4):
        await enter_code(browser, "BBBB-BBBB")
    page = await enter_code(browser, device["user_code"])
    assert (page.status, "Too many codes" in page.text) == (429, True)
    assert (await enter_code(await sign_in_browser(agent_site, "bob"), device["user_code"])).status == 429, "of the same network"
    agent_site.clock.ahead += 599
    assert await states(agent_site) == ["pending"]


async def test_approval_is_in_audit_log_and_sessions_page(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    page = await allow_device(agent_site, browser, device["user_code"])
    assert (page.status, "The device is connected" in page.text) == (200, True)
    assert await states(agent_site) == ["approved"]
    await agent_site.service.audit_writer.stop()
    assert await AuditEntry.objects.filter(action=AuditAction.AUTHORIZE_AGENT).acount() == 1
    await post(agent_site, TOKEN, poll_form(device["device_code"]))
    assert "Build box" in (await browser.get(f"{ORIGIN}/.gate/sessions")).text


async def test_other_account_at_the_provider_gets_nothing(agent_site: Site) -> None:
    device, browser = await start_device(agent_site), await sign_in_browser(agent_site)
    page = await allow_device(agent_site, browser, device["user_code"], sub="bob")
    assert (page.status, "another user" in page.text) == (403, True)
    assert await states(agent_site) == ["pending"]


async def test_decision_in_another_tab_ends_the_session(agent_site: Site) -> None:
    device, browser, other = await start_device(agent_site), await sign_in_browser(agent_site), await sign_in_browser(agent_site, "bob")
    action, fields = form_of(await enter_code(browser, device["user_code"]))
    to_provider = await browser.post(action, {**fields, "decision": "allow"})
    action, fields = form_of(await enter_code(other, device["user_code"]))
    assert (await other.post(action, {**fields, "decision": "deny"})).status == 200
    page = await browser.get(agent_site.idp.pick(to_provider.headers["location"], "alice"))
    assert (page.status, "not valid" in page.text) == (400, True)
    assert len(await agent_site.sessions()) == 2, "those of the browsers"
    assert (await other.post(action, {**fields, "decision": "deny"})).status == 400


@pytest.mark.parametrize("settings", [{"policy": SETTINGS["policy"][1:]}, {"oauth_clients": CLIENTS[:2]}])
async def test_configuration_changed(agent_site: Site, tmp_path: Path, idp: Any, django_pages: Any, settings: dict[str, Any]) -> None:
    """The code was issued by the configuration before; the same store and key."""
    device = await start_device(agent_site)
    changed = Site(tmp_path, idp, django_pages, **{**SETTINGS, **settings})
    changed.service.agents.devices._broker = agent_site.broker
    page = await enter_code(await sign_in_browser(changed), device["user_code"])
    assert (page.status, "no longer configured" in page.text) == (400, True)
    await changed.service.stop()


async def test_step_up_of_the_route_is_required(tmp_path: Path, idp: Any, django_pages: Any) -> None:
    routes = [{**SETTINGS["policy"][0], "acr_values": ["mfa"]}, *SETTINGS["policy"][1:]]
    site = Site(tmp_path, idp, django_pages, **{**SETTINGS, "policy": routes})
    device, browser = await start_device(site), await sign_in_browser(site)
    response = await enter_code(browser, device["user_code"])
    assert response.status == 303
    query = parse_qs(urlsplit(response.headers["location"]).query)
    assert query["gate_acr_values"] == ["mfa"]
    assert query["gate_redirect_uri"] == [device["verification_uri_complete"]]
    await site.service.stop()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD"])
async def test_other_methods(agent_site: Site, method: str) -> None:
    assert (await agent_site.browser().get(DEVICE_PAGE, method=method)).status == 405
