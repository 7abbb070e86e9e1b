"""Agents at a third-party MCP server: after the consent, the user connects an account there, and the agent's authorization goes on."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from structlog.testing import capture_logs

from databroker.records import UPSTREAM_CONNECTION
from tests.support.agents import (
    CLIENTS,
    DEVICE_CLIENT,
    START_DEVICE,
    TOKEN,
    allow,
    answer_of,
    authorize_url,
    device_form,
    enter_code,
    form_of,
    post,
    refresh_form,
    token_form,
)
from tests.support.authenticate_site import Browser, Response, Site
from tests.support.connections import RESOURCE, SESSIONS_PAGE, authorization_response, press, routes, stored_connection
from tests.support.fake_idp import FakeIdP


async def consented(site: Site, browser: Browser) -> str:
    """Sign in, allow the client, and return the URL of the redirect."""
    await browser.sign_in()
    action, fields = form_of(await browser.get(authorize_url(resource=RESOURCE)))
    response = await browser.post(action, {**fields, "decision": "allow"})
    assert response.status == 303, response.text
    return response.headers["location"]


async def finished(site: Site, browser: Browser, after_connection: Response) -> dict[str, str]:
    """Pass the provider, and return what the client receives."""
    return answer_of((await browser.get(site.idp.pick(after_connection.location, "alice"))).location)


async def test_authorization_leads_through_the_server(connection_site: Site, server: FakeIdP) -> None:
    site, browser = connection_site, connection_site.browser()
    to_server = await consented(site, browser)
    assert to_server.startswith(f"{server.issuer}/authorize?")
    after = await browser.get(server.pick(to_server, "alice"))
    assert after.location.startswith(f"{site.idp.issuer}/authorize?"), "the user is not asked again"
    code = (await finished(site, browser, after))["code"]
    _, tokens = await post(site, TOKEN, token_form(code, resource=RESOURCE))
    assert await stored_connection(site.broker) is not None
    # With a connection, the next authorization does not lead there.
    assert "code" in answer_of(await allow(site, browser, resource=RESOURCE))
    assert server.count("/token") == 1
    # Without one, a refresh fails, so that the client authorizes again; once connected, it does not.
    _, refreshed = await post(site, TOKEN, refresh_form(tokens["refresh_token"], resource=RESOURCE))
    await press(browser, "disconnect")
    _, refused = await post(site, TOKEN, refresh_form(refreshed["refresh_token"], resource=RESOURCE))
    assert refused["error"] == "invalid_grant"
    await browser.get(await authorization_response(browser, server))
    response, _ = await post(site, TOKEN, refresh_form(refreshed["refresh_token"], resource=RESOURCE))
    assert response.status == 200


async def test_denial_at_the_server_denies_the_client(connection_site: Site, server: FakeIdP) -> None:
    site, browser = connection_site, connection_site.browser()
    url = server.pick(await consented(site, browser), "alice").replace("code=", "error=access_denied&x=")
    answer = answer_of((await browser.get(url)).location)
    assert (answer["error"], answer["state"]) == ("access_denied", "the state")
    assert await site.broker.page(UPSTREAM_CONNECTION, "", 10) == []
    assert len(await site.sessions()) == 1


@pytest.mark.parametrize("change", [("code=", "error=server_error&x="), ("code=", "code=x")])
async def test_failure_at_the_server_issues_no_code(connection_site: Site, server: FakeIdP, change: tuple[str, str]) -> None:
    site, browser = connection_site, connection_site.browser()
    page = await browser.get(server.pick(await consented(site, browser), "alice").replace(*change))
    assert page.status == 400
    assert len(await site.sessions()) == 1


async def test_connection_of_another_user_does_not_count(connection_site: Site, server: FakeIdP) -> None:
    site, other = connection_site, connection_site.browser()
    await other.sign_in("bob")
    await other.get(await authorization_response(other, server, "bob"))
    assert (await consented(site, site.browser())).startswith(server.issuer)


async def test_response_in_another_users_browser_authorizes_nothing(connection_site: Site, server: FakeIdP) -> None:
    site, browser, other = connection_site, connection_site.browser(), connection_site.browser()
    url = server.pick(await consented(site, browser), "alice")
    await other.sign_in("bob")
    other.cookies |= {name: value for name, value in browser.cookies.items() if "_signin_" in name}
    page = await other.get(url)
    assert page.status == 400
    assert await site.broker.page(UPSTREAM_CONNECTION, "", 10) == []


async def test_device_leads_through_the_server(connection_site: Site, server: FakeIdP) -> None:
    site, browser = connection_site, connection_site.browser()
    await browser.sign_in()
    _, device = await post(site, START_DEVICE, device_form(client_id=DEVICE_CLIENT, resource=RESOURCE, scope=""))
    action, fields = form_of(await enter_code(browser, device["user_code"]))
    to_server: Any = (await browser.post(action, {**fields, "decision": "allow"})).headers["location"]
    assert to_server.startswith(f"{server.issuer}/authorize?")
    after = await browser.get(server.pick(to_server, "alice"))
    assert (await browser.get(site.idp.pick(after.location, "alice"))).status == 200
    assert len(await site.sessions()) == 2


@pytest.fixture
async def restricted_site(
    request: pytest.FixtureRequest, tmp_path: Path, idp: FakeIdP, server: FakeIdP, django_pages: ASGIHandler
) -> AsyncIterator[Site]:
    """The authenticate host with a route to a third-party server whose access rules are the fixture's parameter."""
    (route, *others) = routes(server)
    del route["allow_any_authenticated_user"]
    site = Site(tmp_path, idp, django_pages, policy=[{**route, **request.param}, *others], oauth_clients=CLIENTS)
    await site.service.start()
    yield site
    await site.service.stop()


DENIED = [
    {"allowed_users": ["somebody@corp.example"]},
    {"allow_any_authenticated_user": True, "policy": {"deny": {"or": [{"http_method": "POST"}]}}},  # pages, but no MCP message
]


@pytest.mark.parametrize("restricted_site", DENIED, indirect=True)
@pytest.mark.parametrize("start", ["client", "device", "sessions page"])
async def test_user_without_access_is_not_led_to_the_server(restricted_site: Site, server: FakeIdP, start: str) -> None:
    site, browser = restricted_site, restricted_site.browser()
    await browser.sign_in()
    with capture_logs() as logs:
        if start == "client":
            action, fields = form_of(await browser.get(authorize_url(resource=RESOURCE)))
            page = await browser.post(action, {**fields, "decision": "allow"})
        elif start == "device":
            _, device = await post(site, START_DEVICE, device_form(client_id=DEVICE_CLIENT, resource=RESOURCE, scope=""))
            action, fields = form_of(await enter_code(browser, device["user_code"]))
            page = await browser.post(action, {**fields, "decision": "allow"})
        else:
            page = await press(browser, "connect")
    assert (page.status, "location" in page.headers) == (403, False)
    assert [entry["event"] for entry in logs if entry["event"].startswith("upstream")] == ["upstream connection refused"]
    assert RESOURCE not in (await browser.get(SESSIONS_PAGE)).text
    assert server.requests == []
    assert len(await site.sessions()) == 1


@pytest.mark.parametrize("restricted_site", [{"allow_any_authenticated_user": True, "portal": "hide"}], indirect=True)
async def test_server_that_the_portal_hides_is_not_denied(restricted_site: Site, server: FakeIdP) -> None:
    site, browser = restricted_site, restricted_site.browser()
    assert (await consented(site, browser)).startswith(f"{server.issuer}/authorize?")
    assert not re.search(f'value="{RESOURCE}"', (await browser.get(SESSIONS_PAGE)).text)
    assert RESOURCE not in (await browser.get("/.gate/")).text
