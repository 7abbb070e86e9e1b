"""OAuth clients and protected resources for tests, and the steps of an authorization on the authenticate host."""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.authenticate_site import ORIGIN, Browser, Response, Site

RESOURCE = "https://mcp.example.com/mcp"
OTHER_RESOURCE = "https://tools.example.com"
REDIRECT_URI = "https://client.example.com/callback"
LOOPBACK_URI = "http://127.0.0.1:49152/callback"
SECRET = "a-client-secret-of-more-than-32-characters"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
CLIENT, SECRET_CLIENT, DEVICE_CLIENT = "ticket-agent", "build-agent", "build-box"

CLIENTS = [
    {"id": CLIENT, "name": "Ticket agent", "redirect_uris": [REDIRECT_URI, "http://127.0.0.1/callback"]},
    {"id": SECRET_CLIENT, "name": "Build agent", "redirect_uris": [REDIRECT_URI], "secret": SECRET, "agent_session_expire": "30m"},
    {"id": DEVICE_CLIENT, "name": "Build box", "device_authorization": True},
]
SCOPES = {"tickets:read": "Read tickets", "tickets:write": "Change tickets"}
ROUTES: list[dict[str, Any]] = [
    {
        "from": "https://mcp.example.com",
        "to": "http://127.0.0.1:1",
        "allow_any_authenticated_user": True,
        "mcp": {"path": "/mcp", "name": "Ticket tools", "scopes": SCOPES},
    },
    {"from": "https://tools.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True, "mcp": {}},
    {"from": "https://app.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True},
]
SETTINGS: dict[str, Any] = {"policy": ROUTES, "oauth_clients": CLIENTS}


def authorize_params(**changed: str) -> dict[str, str]:
    """Return the parameters of a valid authorization request; a parameter that is changed to "" is left out."""
    params = {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": REDIRECT_URI,
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "resource": RESOURCE,
        "state": "the state",
    }
    return {name: value for name, value in {**params, **changed}.items() if value}


def authorize_url(**changed: str) -> str:
    return f"{ORIGIN}/.gate/oauth/authorize?{urlencode(authorize_params(**changed))}"


def form_of(page: Response) -> tuple[str, dict[str, str]]:
    """Return (action, fields) of the consent page."""
    found = re.search(r'<form method="post" action="([^"]+)"', page.text)
    assert found, page.text
    return ORIGIN + html.unescape(found[1]), dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text))


def answer_of(location: str) -> dict[str, str]:
    """Return the parameters of a redirect to the client."""
    return {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}


async def allow(site: Site, browser: Browser, sub: str = "alice", **changed: str) -> str:
    """Sign in if necessary, allow the client, and return the Location of the client."""
    response = await browser.get(authorize_url(**changed))
    if response.status == 302 and response.location.startswith(f"{ORIGIN}/.gate/sign_in"):
        back = await browser.get(site.idp.pick((await browser.get(response.location)).location, sub))
        response = await browser.get(back.location)
    if response.status == 200:
        action, fields = form_of(response)
        response = await browser.post(action, {**fields, "decision": "allow"})
        assert response.status == 303, response.text
    callback = await browser.get(site.idp.pick(response.headers["location"], sub))
    return callback.location


async def post(site: Site, path: str, form: Mapping[str, str], **headers: str) -> tuple[Response, dict[str, Any]]:
    """Send a form without cookies, and return the response with its JSON."""
    raw = [(b"content-type", b"application/x-www-form-urlencoded"), *((name.encode(), value.encode()) for name, value in headers.items())]
    response = await site.answer("POST", f"{ORIGIN}{path}", raw, urlencode(form).encode())
    return response, json.loads(response.text) if response.text.strip() else {}


def token_form(code: str, /, **changed: str) -> dict[str, str]:
    form = {
        "grant_type": "authorization_code",
        "client_id": CLIENT,
        "code": code,
        "redirect_uri": REDIRECT_URI,
        "code_verifier": VERIFIER,
        "resource": RESOURCE,
    }
    return {name: value for name, value in {**form, **changed}.items() if value}


def refresh_form(refresh_token: str, /, **changed: str) -> dict[str, str]:
    form = {"grant_type": "refresh_token", "client_id": CLIENT, "refresh_token": refresh_token, "resource": RESOURCE}
    return {name: value for name, value in {**form, **changed}.items() if value}


TOKEN, REVOKE = "/.gate/oauth/token", "/.gate/oauth/revoke"
START_DEVICE, DEVICE_PAGE = "/.gate/oauth/device_authorization", f"{ORIGIN}/.gate/device"


def device_form(**changed: str) -> dict[str, str]:
    """Return a valid device authorization request; a parameter that is changed to "" is left out."""
    form = {"client_id": DEVICE_CLIENT, "resource": RESOURCE, "scope": "tickets:read"}
    return {name: value for name, value in {**form, **changed}.items() if value}


def poll_form(device_code: str, /, **changed: str) -> dict[str, str]:
    form = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "client_id": DEVICE_CLIENT, "device_code": device_code}
    return {name: value for name, value in {**form, **changed}.items() if value}


async def enter_code(browser: Browser, user_code: str) -> Response:
    """Enter the code on the verification page, as the signed-in user."""
    action, fields = form_of(await browser.get(DEVICE_PAGE))
    return await browser.post(action, {**fields, "user_code": user_code})


async def allow_device(site: Site, browser: Browser, user_code: str, sub: str = "alice") -> Response:
    """Enter the code, allow the device, pass the provider, and return the result page."""
    action, fields = form_of(await enter_code(browser, user_code))
    response = await browser.post(action, {**fields, "decision": "allow"})
    assert response.status == 303, response.text
    return await browser.get(site.idp.pick(response.headers["location"], sub))


async def authorized(site: Site, browser: Browser | None = None, **changed: str) -> dict[str, Any]:
    """Return the token response of a completed authorization."""
    code = answer_of(await allow(site, browser or site.browser(), **changed))["code"]
    named = {name: changed[name] for name in ("client_id", "redirect_uri", "resource") if name in changed}
    response, tokens = await post(site, TOKEN, token_form(code, **named))
    assert response.status == 200, response.text
    return tokens


async def start_device(site: Site, **changed: str) -> dict[str, Any]:
    """Request a device authorization, and return the response."""
    response, body = await post(site, START_DEVICE, device_form(**changed))
    assert response.status == 200, response.text
    return body


async def sign_in_browser(site: Site, sub: str = "alice") -> Browser:
    browser = site.browser()
    await browser.sign_in(sub)
    return browser
