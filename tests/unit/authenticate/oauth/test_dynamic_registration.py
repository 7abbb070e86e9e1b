"""Dynamic registration: off by default, public clients only, bounded in number and per network, and expiring."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

from authenticate.oauth import dynamic_registration
from authenticate.oauth.dynamic_registration import (
    MAX_PER_NETWORK,
    UNUSED_LIFETIME,
    USED_LIFETIME,
    DynamicRegistration,
    RegistrationRefused,
)
from authenticate.oauth.oauth_client import Registration
from databroker.records import OAUTH_CLIENT
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.agents import REDIRECT_URI, REVOKE, SETTINGS, TOKEN, allow, answer_of, authorize_url, post, refresh_form, token_form
from tests.support.authenticate_site import ORIGIN, Site
from tests.support.fake_idp import FakeIdP
from tests.support.options import make_options

REGISTER = "/.gate/oauth/register"
METADATA = {"redirect_uris": [REDIRECT_URI, "http://localhost/cb"], "client_name": "Self-made agent", "token_endpoint_auth_method": "none"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registration(tmp_path: Path, clock: Clock) -> DynamicRegistration:
    return DynamicRegistration(make_options(tmp_path, oauth_dynamic_registration=True), MemoryStore(clock), clock)


def body(**changed: Any) -> bytes:
    return json.dumps({**METADATA, **changed}).encode()


async def test_registered_client(registration: DynamicRegistration, clock: Clock) -> None:
    made = await registration.register(
        body(token_endpoint_auth_method="client_secret_basic", logo_uri="https://evil.example/x"), "192.0.2.1"
    )
    assert made == {
        "client_id": made["client_id"],
        "client_id_issued_at": 1000,
        "client_name": "Self-made agent",
        "redirect_uris": METADATA["redirect_uris"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    client = await registration.find(made["client_id"])
    assert client is not None
    assert (client.name, client.registration, client.remembers_consent, client.secret) == (
        "Self-made agent",
        Registration.DYNAMIC,
        False,
        None,
    )
    assert await registration.find("dynamic-unknown") is None
    assert await registration.find("ticket-agent") is None
    clock.now += UNUSED_LIFETIME
    assert await registration.find(made["client_id"]) is None


async def test_client_that_a_user_allowed_is_retained(registration: DynamicRegistration, clock: Clock) -> None:
    made = await registration.register(body(client_name=""), "192.0.2.1")
    client = await registration.find(made["client_id"])
    assert client is not None
    assert client.name == "client.example.com"
    await registration.renew(client)
    clock.now += USED_LIFETIME - 1
    assert await registration.find(made["client_id"]) is not None
    clock.now += 1
    assert await registration.find(made["client_id"]) is None


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "invalid_client_metadata"),
        (b"[]", "invalid_client_metadata"),
        (b'{"redirect_uris": [], "redirect_uris": []}', "invalid_client_metadata"),
        (body(redirect_uris=[]), "invalid_redirect_uri"),
        (body(redirect_uris="https://client.example.com/cb"), "invalid_redirect_uri"),
        (body(redirect_uris=["http://client.example.com/cb"]), "invalid_redirect_uri"),
        (body(redirect_uris=["app://cb"]), "invalid_redirect_uri"),
        (body(redirect_uris=[1]), "invalid_redirect_uri"),
        (body(redirect_uris=["https://client.example.com/cb#x"]), "invalid_redirect_uri"),
        (body(redirect_uris=[REDIRECT_URI] * 21), "invalid_redirect_uri"),
        (body(client_name="x" * 101), "invalid_client_metadata"),
        (body(client_name="gate\u202eetag"), "invalid_client_metadata"),
        (body(client_name=None), "invalid_client_metadata"),
    ],
)
async def test_refused_metadata(registration: DynamicRegistration, content: bytes, error: str) -> None:
    with pytest.raises(RegistrationRefused) as refused:
        await registration.register(content, "192.0.2.1")
    assert (refused.value.status, refused.value.error) == (400, error)


async def test_registrations_of_a_network_are_limited(registration: DynamicRegistration, clock: Clock) -> None:
    for number in range(MAX_PER_NETWORK):
        await registration.register(body(), f"2001:db8::{number:x}")
    with pytest.raises(RegistrationRefused) as refused:
        await registration.register(body(), "2001:db8::ffff")
    assert refused.value.status == 429
    await registration.register(body(), "192.0.2.1")
    clock.now += 3600
    await registration.register(body(), "2001:db8::ffff")


async def test_number_is_limited_until_unused_ones_expire(
    registration: DynamicRegistration, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dynamic_registration, "MAX_CLIENTS", 3)
    for _ in range(3):
        await registration.register(body(), "192.0.2.1")
    with pytest.raises(RegistrationRefused) as refused:
        await registration.register(body(), "192.0.2.1")
    assert refused.value.status == 503
    clock.now += UNUSED_LIFETIME
    await registration.register(body(), "192.0.2.1")


@pytest.fixture
async def open_site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> AsyncIterator[Site]:
    site = Site(tmp_path, idp, django_pages, **SETTINGS, oauth_dynamic_registration=True)
    await site.service.start()
    yield site
    await site.service.stop()


async def send(site: Site, content: bytes) -> tuple[int, dict[str, Any]]:
    response = await site.answer("POST", f"{ORIGIN}{REGISTER}", [(b"content-type", b"application/json")], content)
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["cache-control"] == "no-store"
    return response.status, json.loads(response.text)


async def test_disabled_by_default(agent_site: Site) -> None:
    assert (await send(agent_site, body()))[0] == 404
    assert await agent_site.broker.page(OAUTH_CLIENT, "", 10) == []


async def test_flow(open_site: Site) -> None:
    status, client = await send(open_site, body())
    assert status == 201
    named = {"client_id": client["client_id"]}
    browser = open_site.browser()
    for _ in range(2):  # the consent is asked for each time
        code = answer_of(await allow(open_site, browser, **named))["code"]
        assert (await browser.get(authorize_url(**named))).status == 200
    _, tokens = await post(open_site, TOKEN, token_form(code, **named))
    response, tokens = await post(open_site, TOKEN, refresh_form(tokens["refresh_token"], **named))
    assert response.status == 200
    response, _ = await post(open_site, REVOKE, {**named, "token": tokens["access_token"]})
    assert response.status == 200
    _, error = await post(open_site, TOKEN, refresh_form(tokens["refresh_token"], **named))
    assert error["error"] == "invalid_client"  # known from its session only, which has ended


async def test_page_marks_the_name_as_unverified(open_site: Site) -> None:
    _, client = await send(open_site, body(client_name="Company <b>helper</b>"))
    browser = open_site.browser()
    await browser.sign_in()
    page = await browser.get(authorize_url(client_id=client["client_id"]))
    assert "registered itself" in page.text
    assert "Company &lt;b&gt;helper" in page.text
    assert "registered itself" not in (await browser.get(authorize_url())).text


async def test_metadata_has_the_endpoint(open_site: Site, agent_site: Site) -> None:
    for site, expected in ((open_site, f"{ORIGIN}{REGISTER}"), (agent_site, None)):
        response = await site.answer("GET", f"{ORIGIN}/.well-known/oauth-authorization-server", [], b"")
        assert json.loads(response.text).get("registration_endpoint") == expected


async def test_refusals_and_store_trouble_are_json(open_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    status, error = await send(open_site, b"{}")
    assert (status, error["error"]) == (400, "invalid_redirect_uri")

    async def fail(*_: Any, **__: Any) -> Any:
        raise BrokerError("away")

    monkeypatch.setattr(open_site.broker, "put", fail)
    status, error = await send(open_site, body())
    assert (status, error["error"]) == (503, "temporarily_unavailable")
