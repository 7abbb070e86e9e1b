"""gate's command line as an OAuth client: hosts and tunnels are its resources, and those of no other client."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

from authenticate.oauth.client_documents import parse_document
from authenticate.oauth.oauth_client import COMMAND_LINE
from databroker.records import SESSION, SessionRecord
from databroker.service_account_store import ServiceAccounts
from tests.support.agents import (
    CLIENT,
    DEVICE_CLIENT,
    OTHER_RESOURCE,
    REDIRECT_URI,
    RESOURCE,
    REVOKE,
    ROUTES,
    SETTINGS,
    START_DEVICE,
    TOKEN,
    allow,
    allow_device,
    answer_of,
    authorize_url,
    authorized,
    device_form,
    enter_code,
    poll_form,
    post,
    refresh_form,
    sign_in_browser,
    start_device,
    token_form,
)
from tests.support.authenticate_site import Site
from tests.support.connections import OTHER_RESOURCE as SERVER_RESOURCE
from tests.support.connections import routes as server_routes
from tests.support.fake_idp import FakeIdP

GATE = COMMAND_LINE.client_id
URI = "http://127.0.0.1:49152/callback"
HOST, TUNNEL = "https://app.example.com", "tcp+https://db.example.com:5432"
DOCUMENT_URL = "https://published.example.com/client.json"
TCP_ROUTE = {"from": TUNNEL, "to": "tcp://127.0.0.1:1", "title": "Orders", "allow_any_authenticated_user": True}
# (resource, is one of the command line)
RESOURCES = {
    HOST: True,
    "https://mcp.example.com": True,
    TUNNEL: True,
    "tcp+https://a.db.example.com:5432": True,
    RESOURCE: False,
    OTHER_RESOURCE: False,
    "https://unknown.example.com": None,
    "tcp+https://db.example.com:22": None,
    f"{HOST}/": True,
    f"{HOST}/x": None,
}
WILDCARD = {**TCP_ROUTE, "from": "tcp+https://*.db.example.com:5432"}


@pytest.fixture
async def site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    settings = {**SETTINGS, "policy": [*ROUTES, TCP_ROUTE, WILDCARD], "oauth_dynamic_registration": True}
    site = Site(tmp_path, idp, django_pages, **settings)
    await site.service.start()
    yield site
    await site.service.stop()


async def client_of(kind: str, site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the id and the redirect URI of a client of this kind."""
    clients = site.service.agents.clients
    match kind:
        case "command line":
            return {"client_id": GATE, "redirect_uri": URI}
        case "metadata document":
            text = f'{{"client_id": "{DOCUMENT_URL}", "client_name": "Gate", "redirect_uris": ["{REDIRECT_URI}"]}}'

            async def get(url: str) -> Any:
                return parse_document(url, text.encode())

            monkeypatch.setattr(clients.documents, "get", get)
            return {"client_id": DOCUMENT_URL, "redirect_uri": REDIRECT_URI}
        case "dynamic":
            metadata = await clients.dynamic.register(
                f'{{"client_name": "gate", "redirect_uris": ["{REDIRECT_URI}"]}}'.encode(), "192.0.2.7"
            )
            return {"client_id": str(metadata["client_id"]), "redirect_uri": REDIRECT_URI}
    return {"client_id": CLIENT, "redirect_uri": REDIRECT_URI}


@pytest.mark.parametrize("kind", ["command line", "configured", "metadata document", "dynamic"])
async def test_authorization_requests(site: Site, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    named, browser = await client_of(kind, site, monkeypatch), await sign_in_browser(site)
    for resource, is_of_command_line in RESOURCES.items():
        response = await browser.get(authorize_url(**named, resource=resource))
        if is_of_command_line is (kind == "command line"):
            assert response.status == 200, resource
        else:
            assert answer_of(response.location)["error"] == "invalid_target", resource


@pytest.mark.parametrize("client", [GATE, DEVICE_CLIENT])
async def test_device_requests(site: Site, client: str) -> None:
    for resource, is_of_command_line in RESOURCES.items():
        response, body = await post(site, START_DEVICE, device_form(client_id=client, resource=resource, scope=""))
        if is_of_command_line is (client == GATE):
            assert response.status == 200, resource
        else:
            assert body["error"] == "invalid_target", resource


async def test_device_requests_can_be_disabled(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> None:
    site = Site(tmp_path, idp, django_pages, **{**SETTINGS, "policy": ROUTES, "command_line_device_authorization": False})
    await site.service.start()
    response, body = await post(site, START_DEVICE, device_form(client_id=GATE, resource=HOST, scope=""))
    assert (response.status, body["error"]) == (400, "unauthorized_client")
    _, body = await post(site, START_DEVICE, device_form(client_id=DEVICE_CLIENT))
    assert "device_code" in body
    await site.service.stop()


@pytest.mark.parametrize("client_id", [GATE, "service_account/gate"])
async def test_service_account_of_the_same_name(site: Site, client_id: str) -> None:
    secret = await ServiceAccounts(site.broker, site.clock).create("gate", [], 86400.0, "admin")
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    for resource, is_of_command_line in RESOURCES.items():
        response, body = await post(site, TOKEN, {**form, "resource": resource})
        if is_of_command_line is False:
            assert response.status == 200, resource
        else:
            assert body["error"] == "invalid_target", resource


@pytest.mark.parametrize("resource", [HOST, TUNNEL])
async def test_code_becomes_tokens(site: Site, resource: str) -> None:
    named = {"client_id": GATE, "redirect_uri": URI, "resource": resource}
    tokens = await authorized(site, **named)
    assert (tokens["token_type"], tokens["expires_in"], "scope" in tokens) == ("Bearer", 3600, False)
    (session,) = [SessionRecord.from_record(record) for record in await site.sessions() if "agent" in record.data]
    assert session.agent is not None
    assert (session.agent.client_id, session.agent.client_name, session.agent.resource) == (GATE, "gate command line", resource)
    assert session.agent.lifetime_seconds == 14 * 3600
    for other in (RESOURCE, OTHER_RESOURCE, TUNNEL if resource == HOST else HOST, "https://unknown.example.com"):
        _, body = await post(site, TOKEN, refresh_form(tokens["refresh_token"], client_id=GATE, resource=other))
        assert body["error"] == "invalid_target"
    for other_client in (CLIENT, DEVICE_CLIENT):
        _, body = await post(site, TOKEN, refresh_form(tokens["refresh_token"], client_id=other_client, resource=""))
        assert body["error"] == "invalid_grant"
    response, renewed = await post(site, TOKEN, refresh_form(tokens["refresh_token"], client_id=GATE, resource=resource))
    assert response.status == 200
    response, _ = await post(site, REVOKE, {"client_id": GATE, "token": renewed["access_token"]})
    assert response.status == 200
    assert await site.broker.get(SESSION, session.id) is None


async def test_code_of_one_resource_is_not_redeemed_for_another(site: Site) -> None:
    code = answer_of(await allow(site, site.browser(), client_id=GATE, redirect_uri=URI, resource=HOST))["code"]
    _, body = await post(site, TOKEN, token_form(code, client_id=GATE, redirect_uri=URI, resource=TUNNEL))
    assert body["error"] == "invalid_target"


@pytest.mark.parametrize(
    ("uri", "is_accepted"),
    [
        ("http://127.0.0.1:1/callback", True),
        ("http://127.0.0.1/callback", True),
        ("http://[::1]:65535/callback", True),
        ("http://localhost:8080/callback", True),
        ("http://127.0.0.1:1/", False),
        ("http://127.0.0.1:1/callback/x", False),
        ("http://127.0.0.1:1/callback?x", False),
        ("https://127.0.0.1:1/callback", False),
        ("http://127.0.0.2:1/callback", False),
        ("http://app.example.com/callback", False),
        ("https://app.example.com/callback", False),
    ],
)
async def test_redirect_uris_are_loopback_only(site: Site, uri: str, is_accepted: bool) -> None:
    response = await (await sign_in_browser(site)).get(authorize_url(client_id=GATE, redirect_uri=uri, resource=HOST))
    assert response.status == (200 if is_accepted else 400)
    assert "location" not in response.headers


async def test_consent_page_warns_each_time(site: Site) -> None:
    browser = site.browser()
    for _ in range(2):
        await allow(site, browser, client_id=GATE, redirect_uri=URI, resource=TUNNEL)
        page = await browser.get(authorize_url(client_id=GATE, redirect_uri=URI, resource=TUNNEL))
        assert page.status == 200
        assert all(text in page.text for text in ("gate command line", "Orders", TUNNEL, "127.0.0.1:49152", "this computer"))


@pytest.mark.parametrize("resource", [HOST, TUNNEL])
async def test_device_becomes_tokens(site: Site, resource: str) -> None:
    device = await start_device(site, client_id=GATE, resource=resource, scope="")
    assert (await allow_device(site, await sign_in_browser(site), device["user_code"])).status == 200
    response, tokens = await post(site, TOKEN, poll_form(device["device_code"], client_id=GATE))
    assert (response.status, "access_token" in tokens) == (200, True)


async def test_device_of_a_tunnel_that_is_gone(site: Site, tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> None:
    device = await start_device(site, client_id=GATE, resource=TUNNEL, scope="")
    changed = Site(tmp_path, idp, django_pages, **SETTINGS)
    changed.service.agents.devices._broker = site.broker
    page = await enter_code(await sign_in_browser(changed), device["user_code"])
    assert (page.status, "no longer configured" in page.text) == (400, True)
    await changed.service.stop()


@pytest.mark.parametrize("device", [False, True])
@pytest.mark.parametrize(
    ("keys", "required"),
    [
        ({"acr_values": ["mfa"]}, {"gate_acr_values": "mfa"}),
        ({"max_age": "1m"}, {"gate_max_age": "60"}),
    ],
)
async def test_sign_in_requirements_of_the_tunnel(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, keys: dict[str, Any], required: dict[str, str], device: bool
) -> None:
    site = Site(tmp_path, idp, django_pages, **{**SETTINGS, "policy": [{**TCP_ROUTE, **keys}, *ROUTES]})
    browser = await sign_in_browser(site)
    site.clock.ahead += 90
    if device:
        started = await start_device(site, client_id=GATE, resource=TUNNEL, scope="")
        location = (await enter_code(browser, started["user_code"])).headers["location"]
    else:
        location = (await browser.get(authorize_url(client_id=GATE, redirect_uri=URI, resource=TUNNEL))).location
    assert required.items() <= answer_of(location).items()
    await site.service.stop()


async def test_host_with_a_third_party_server_needs_no_connection(
    tmp_path: Path, idp: FakeIdP, server: FakeIdP, django_pages: ASGIHandler
) -> None:
    """The server is the MCP server of the whole host, with the same URI."""
    application = {"from": SERVER_RESOURCE, "to": "https://127.0.0.1:1", "prefix": "/app", "allow_any_authenticated_user": True}
    site = Site(tmp_path, idp, django_pages, policy=[application, *server_routes(server)])
    await site.service.start()
    tokens = await authorized(site, client_id=GATE, redirect_uri=URI, resource=SERVER_RESOURCE)
    response, _ = await post(site, TOKEN, refresh_form(tokens["refresh_token"], client_id=GATE, resource=SERVER_RESOURCE))
    assert response.status == 200
    await site.service.stop()
