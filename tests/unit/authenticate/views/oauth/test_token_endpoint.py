"""Endpoints for programs: metadata, client authentication, CORS, and where parameters are accepted."""

import base64
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from django.core.handlers.asgi import ASGIHandler

from authenticate.oauth.server_metadata import REGISTER_PATH
from authenticate.provider.tokens.key_set import ALGORITHMS
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from tests.support.agents import (
    CLIENT,
    REDIRECT_URI,
    REVOKE,
    ROUTES,
    SECRET,
    SECRET_CLIENT,
    START_DEVICE,
    TOKEN,
    allow,
    allow_device,
    answer_of,
    authorized,
    device_form,
    poll_form,
    post,
    refresh_form,
    sign_in_browser,
    token_form,
)
from tests.support.authenticate_site import ORIGIN, Response, Site
from tests.support.client_keys import CLIENT_KEY, OTHER_KEY, public_jwk, sign
from tests.support.fake_idp import FakeIdP

METHODS = ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
METADATA = "/.well-known/oauth-authorization-server"
FORM = (b"content-type", b"application/x-www-form-urlencoded")


async def send(site: Site, method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes]) -> tuple[Response, dict[str, Any]]:
    response = await site.answer(method, f"{ORIGIN}{path}", list(headers), body)
    return response, json.loads(response.text) if response.text.startswith("{") else {}


async def test_metadata(agent_site: Site) -> None:
    response, document = await send(agent_site, "GET", METADATA)
    assert (response.status, response.headers["access-control-allow-origin"]) == (200, "*")
    assert document == {
        "issuer": ORIGIN,
        "authorization_endpoint": f"{ORIGIN}/.gate/oauth/authorize",
        "token_endpoint": f"{ORIGIN}{TOKEN}",
        "revocation_endpoint": f"{ORIGIN}{REVOKE}",
        "device_authorization_endpoint": f"{ORIGIN}{START_DEVICE}",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "urn:ietf:params:oauth:grant-type:device_code",
            "client_credentials",
        ],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": METHODS,
        "token_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "revocation_endpoint_auth_methods_supported": METHODS,
        "revocation_endpoint_auth_signing_alg_values_supported": list(ALGORITHMS),
        "authorization_response_iss_parameter_supported": True,
        "client_id_metadata_document_supported": True,
    }


@pytest.mark.parametrize("path", [METADATA, TOKEN, REVOKE, REGISTER_PATH, START_DEVICE])
async def test_preflight(agent_site: Site, path: str) -> None:
    response, _ = await send(agent_site, "OPTIONS", path, b"", (b"origin", b"http://localhost:6274"))
    assert response.status == 204
    assert response.headers["access-control-allow-origin"] == "*"
    assert "Authorization" in response.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(("method", "path"), [("GET", TOKEN), ("PUT", TOKEN), ("GET", REVOKE), ("GET", START_DEVICE), ("POST", METADATA)])
async def test_other_methods(agent_site: Site, method: str, path: str) -> None:
    response, body = await send(agent_site, method, path)
    assert (response.status, body["error"]) == (405, "invalid_request")
    assert response.headers["allow"]


async def test_parameters_in_the_query_are_refused(agent_site: Site) -> None:
    code = answer_of(await allow(agent_site, agent_site.browser()))["code"]
    response, body = await send(agent_site, "POST", f"{TOKEN}?{urlencode(token_form(code))}", b"", FORM)
    assert (response.status, body["error"]) == (400, "invalid_request")
    response, body = await send(agent_site, "POST", f"{TOKEN}?x=y", urlencode(token_form(code)).encode(), FORM)
    assert (response.status, body["error"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("body", "media_type"),
    [
        (b'{"grant_type": "authorization_code"}', b"application/json"),
        (b"grant_type=authorization_code", b"text/plain"),
        (b"grant_type=authorization_code&grant_type=refresh_token", FORM[1]),
        (b"resource=a&resource=b&grant_type=authorization_code", FORM[1]),
        (b"grant_type=%ff", FORM[1]),
        (b"grant_type=\xff", FORM[1]),
        (b"&".join(b"p%d=x" % number for number in range(60)), FORM[1]),
        (b"", b""),
    ],
)
async def test_unreadable_forms(agent_site: Site, body: bytes, media_type: bytes) -> None:
    for path in (TOKEN, REVOKE):
        response, error = await send(agent_site, "POST", path, body, (b"content-type", media_type))
        assert (response.status, error["error"], response.headers["cache-control"]) == (400, "invalid_request", "no-store")


def basic(client: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()


@pytest.mark.parametrize(
    ("form", "authorization", "is_accepted"),
    [
        ({}, basic(SECRET_CLIENT, SECRET), True),
        ({}, basic(quote(SECRET_CLIENT), quote(SECRET, safe="")), True),
        ({"client_id": SECRET_CLIENT}, basic(SECRET_CLIENT, SECRET), True),
        ({"client_id": SECRET_CLIENT, "client_secret": SECRET}, "", True),
        ({}, basic(SECRET_CLIENT, SECRET[:-1]), False),
        ({}, basic(CLIENT, SECRET), False),
        ({}, "Basic !!!", False),
        ({}, "Basic /w==", False),
        ({}, "Bearer x", False),
        ({"client_id": SECRET_CLIENT}, "", False),
        ({"client_id": SECRET_CLIENT, "client_secret": "wrong"}, "", False),
    ],
)
async def test_client_authentication(agent_site: Site, form: dict[str, str], authorization: str, is_accepted: bool) -> None:
    code = answer_of(await allow(agent_site, agent_site.browser(), client_id=SECRET_CLIENT))["code"]
    headers = {"authorization": authorization} if authorization else {}
    response, body = await post(agent_site, TOKEN, {**token_form(code, client_id=""), **form}, **headers)
    assert (response.status == 200, body.get("error")) == ((True, None) if is_accepted else (False, "invalid_client"))
    if not is_accepted:
        assert response.status == 401
        assert response.headers["www-authenticate"].startswith("Basic ")


async def test_endpoints_ignore_cookies(agent_site: Site) -> None:
    browser = agent_site.browser()
    tokens = await authorized(agent_site, browser)
    response = await browser.post(f"{ORIGIN}{REVOKE}", {"token": tokens["access_token"]})
    assert response.status == 401
    assert response.set_cookies == []


async def test_consent_and_revocation_are_in_the_audit_log(agent_site: Site) -> None:
    tokens = await authorized(agent_site)
    await post(agent_site, REVOKE, {"client_id": CLIENT, "token": tokens["refresh_token"]})
    await agent_site.service.audit_writer.stop()
    actions = {entry.action async for entry in AuditEntry.objects.all()}
    assert {AuditAction.AUTHORIZE_AGENT, AuditAction.REVOKE_AGENT} <= actions


KEY_CLIENT, PUBLISHED = "key-agent", "https://published.example.com/client.json"


@pytest.fixture
async def key_site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    """The authenticate host with a client that has registered a key, and one whose metadata document has one."""
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [public_jwk()]}))
    entry = {"id": KEY_CLIENT, "name": "Key agent", "redirect_uris": [REDIRECT_URI], "jwks_file": "keys.json", "device_authorization": True}
    site = Site(tmp_path, idp, django_pages, policy=ROUTES, oauth_clients=[entry])
    document = {"client_id": PUBLISHED, "client_name": "Published", "redirect_uris": [REDIRECT_URI]}
    document |= {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [public_jwk()]}}

    async def fetch(url: str) -> tuple[bytes, float]:
        return json.dumps(document).encode(), 60.0

    site.service.agents.clients.documents._fetch = fetch  # type: ignore[method-assign]
    await site.service.start()
    yield site
    await site.service.stop()


def asserted(site: Site, client_id: str = KEY_CLIENT, key: Any = CLIENT_KEY, **claims: Any) -> dict[str, str]:
    """Return the parameters of a new assertion."""
    payload = {"iss": client_id, "sub": client_id, "aud": ORIGIN, "exp": site.clock() + 60, "jti": secrets.token_hex(8), **claims}
    return {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": sign(payload, key)}


@pytest.mark.parametrize("client_id", [KEY_CLIENT, PUBLISHED])
async def test_client_with_a_key_authenticates_by_assertions(key_site: Site, client_id: str) -> None:
    code = answer_of(await allow(key_site, key_site.browser(), client_id=client_id))["code"]
    form = token_form(code, client_id="")  # RFC 7521 4.2: the assertion names the client
    response, tokens = await post(key_site, TOKEN, {**form, **asserted(key_site, client_id)})
    assert response.status == 200, response.text
    refresh = refresh_form(tokens["refresh_token"], client_id=client_id)
    response, _ = await post(key_site, TOKEN, refresh)
    assert response.status == 401
    used = asserted(key_site, client_id)
    response, tokens = await post(key_site, TOKEN, {**refresh, **used})
    assert response.status == 200, response.text
    for proof in ({}, used):
        response, body = await post(key_site, REVOKE, {"client_id": client_id, "token": tokens["access_token"], **proof})
        assert (response.status, body["error"]) == (401, "invalid_client")
    assert len(await key_site.sessions()) == 2
    response, _ = await post(key_site, REVOKE, {"token": tokens["access_token"], **asserted(key_site, client_id)})
    assert response.status == 200
    assert len(await key_site.sessions()) == 1


@pytest.mark.parametrize("client_id", [KEY_CLIENT, PUBLISHED])
@pytest.mark.parametrize("forgets", [False, True])
async def test_client_with_a_key_has_no_other_way(key_site: Site, client_id: str, forgets: bool) -> None:
    code = answer_of(await allow(key_site, key_site.browser(), client_id=client_id))["code"]
    if forgets:  # of a metadata document
        key_site.service.agents.clients.documents._cache.clear()
    attempts: list[tuple[dict[str, str], str]] = [
        ({}, ""),
        ({"client_secret": SECRET}, ""),
        ({}, basic(client_id, SECRET)),
        (asserted(key_site, client_id, OTHER_KEY), ""),
        (asserted(key_site, client_id, aud="https://evil.example"), ""),
        (asserted(key_site, "other"), ""),
        ({**asserted(key_site, client_id), "client_assertion_type": "x"}, ""),
    ]
    for proof, authorization in attempts:
        headers = {"authorization": authorization} if authorization else {}
        response, body = await post(key_site, TOKEN, {**token_form(code, client_id=client_id), **proof}, **headers)
        assert (response.status, body["error"]) == (401, "invalid_client"), proof
    response, _ = await post(key_site, TOKEN, {**token_form(code, client_id=client_id), **asserted(key_site, client_id)})
    assert response.status == 200, "no attempt has used the code up"


async def test_device_with_a_key(key_site: Site) -> None:
    form = device_form(client_id=KEY_CLIENT)
    response, body = await post(key_site, START_DEVICE, form)
    assert (response.status, body["error"]) == (401, "invalid_client")
    response, started = await post(key_site, START_DEVICE, {**form, **asserted(key_site)})
    assert response.status == 200, response.text
    await allow_device(key_site, await sign_in_browser(key_site), started["user_code"])
    poll = poll_form(started["device_code"], client_id=KEY_CLIENT)
    assert (await post(key_site, TOKEN, poll))[0].status == 401
    response, _ = await post(key_site, TOKEN, {**poll, **asserted(key_site)})
    assert response.status == 200, response.text


async def test_client_without_a_key_sends_no_assertion(agent_site: Site) -> None:
    code = answer_of(await allow(agent_site, agent_site.browser()))["code"]
    response, body = await post(agent_site, TOKEN, {**token_form(code), **asserted(agent_site, CLIENT)})
    assert (response.status, body["error"]) == (401, "invalid_client")
