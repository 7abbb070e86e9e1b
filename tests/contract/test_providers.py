"""One sign-in at each provider: real servers or emulators where they exist, else `FakeIdP` in the provider's configuration."""

import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from authenticate.provider.kinds.kind_registry import PROVIDERS
from authenticate.session.session_refresh import RefreshStep, SessionEnded
from databroker.records import SessionRecord
from tests.support import fake_idp
from tests.support.authenticate_site import Browser, Site
from tests.support.fake_idp import FakeIdP
from tests.support.vendors import CLIENT_ID, CLIENT_SECRET, Vendor, pick_in_form

TENANT = "9188040d-6c67-4c5b-b112-36a304b66dad"
REAL = ("oidc", "google", "azure", "github", "okta")
BENDABLE = ("gitlab", "onelogin", "auth0", "azure, any tenant", "oidc, bendable")


def of_certified(request: pytest.FixtureRequest) -> Vendor:
    url = request.getfixturevalue("certified").url
    # offline_access is granted with a new consent only (OpenID Connect Core 11).
    return Vendor(
        "oidc",
        {"idp_provider_url": url, "idp_request_params": {"prompt": "consent"}, "idp_client_secret": "not a secret"},
        "oidc/alice",
        pick_in_form,
    )


def of_emulator(name: str, request: pytest.FixtureRequest) -> Vendor:
    emulated = request.getfixturevalue("emulated")
    match name:
        case "google":
            return Vendor(
                name,
                {"idp_provider_url": emulated.url("google")},
                r"google/goog_[\w-]+",
                pick_in_form,
                can_revoke=False,
                rejects_foreign_tokens=False,
            )
        case "azure":
            url = emulated.url("microsoft", f"/{TENANT}/v2.0")
            return Vendor(
                name, {"idp_provider_url": url}, r"azure/[0-9a-f-]{36}", pick_in_form, can_revoke=False, rejects_foreign_tokens=False
            )
        case "github":
            url = emulated.url("github_server")
            return Vendor(
                name,
                {"idp_provider_url": url},
                "github/alice",
                pick_in_form,
                can_refresh=False,
                can_revoke=False,
                rejects_foreign_tokens=False,
            )
        case _:
            return Vendor(name, {"idp_provider_url": emulated.url("okta", "/oauth2/default")}, r"okta/00u\w+", pick_in_form)


def of_bendable(name: str, idp: FakeIdP) -> Vendor:
    provider = name.partition(",")[0]
    settings: dict[str, Any] = {"idp_provider_url": idp.issuer}
    user_id = f"{provider}/alice"
    if provider == "auth0":
        idp.bend.discovery = {"issuer": idp.issuer + "/"}
        idp.bend.claims = {"iss": idp.issuer + "/"}
    if provider == "azure":
        settings["idp_provider_url"] = f"{idp.issuer}/common/v2.0"
        idp.serve_discovery_from(f"/common/v2.0{fake_idp.DISCOVERY}", f"{idp.issuer}/{{tenantid}}/v2.0")
        idp.bend.claims = {"iss": f"{idp.issuer}/{TENANT}/v2.0", "tid": TENANT, "oid": "the-oid"}
        user_id = "azure/the-oid"

    async def pick(authorization_url: str) -> str:
        return idp.pick(authorization_url, "alice", iss=idp.bend.claims.get("iss", idp.issuer))

    return Vendor(name, settings, user_id, pick)


@pytest.fixture(params=[*REAL, *BENDABLE])
def vendor(request: pytest.FixtureRequest, idp: FakeIdP) -> Vendor:
    if request.param in BENDABLE:
        return of_bendable(request.param, idp)
    return of_certified(request) if request.param == "oidc" else of_emulator(request.param, request)


@pytest.fixture
async def site(vendor: Vendor, idp: FakeIdP, tmp_path: Path, django_pages: Any) -> AsyncIterator[Site]:
    """Without the background work: a test says when something is refreshed."""
    provider = idp if vendor.name in BENDABLE else SimpleNamespace(issuer="http://localhost", clock=None)
    client = (fake_idp.CLIENT_ID, fake_idp.CLIENT_SECRET) if provider is idp else (CLIENT_ID, CLIENT_SECRET)
    settings = {
        "idp_provider": vendor.name.partition(",")[0],
        "idp_client_id": client[0],
        "idp_client_secret": client[1],
        "groups_claim": None,
        **vendor.settings,
    }
    site = Site(tmp_path, provider, django_pages, **settings)  # type: ignore[arg-type]
    yield site
    await site.service.stop()


async def signed_in(site: Site, vendor: Vendor) -> tuple[Browser, SessionRecord]:
    browser = site.browser()
    response = await browser.get(await vendor.pick(await browser.to_provider()))
    assert response.status == 302
    (record,) = await site.sessions()
    return browser, SessionRecord.from_record(record)


def test_every_provider_is_here() -> None:
    assert {name.partition(",")[0] for name in (*REAL, *BENDABLE)} == set(PROVIDERS)


async def test_user_signs_in(site: Site, vendor: Vendor) -> None:
    browser, session = await signed_in(site, vendor)
    assert re.fullmatch(vendor.user_id, session.user_id)
    assert session.user_id == f"{session.provider}/{session.subject}"
    assert session.access_token
    assert bool(session.refresh_token) is vendor.can_refresh
    page = await browser.get("/.gate/", accept="application/json")
    assert f'"email": "{vendor.email}"' in page.text
    assert "Alice" in page.text


async def test_authorization_request_has_its_protections(site: Site, vendor: Vendor) -> None:
    url = urlsplit(await site.browser().to_provider())
    params = parse_qs(url.query)
    assert all(len(values) == 1 for values in params.values())
    if "request_uri" in params:  # pushed: the browser carries nothing that could be changed
        assert params.keys() == {"client_id", "request_uri"}
        return
    assert (params["response_type"], params["code_challenge_method"], params["access_type"]) == (["code"], ["S256"], ["offline"])
    assert min(len(params[name][0]) for name in ("state", "nonce", "code_challenge")) >= 22
    assert params["redirect_uri"] == ["https://auth.example.com/oauth2/callback"]


async def test_invented_code_creates_no_session(site: Site, vendor: Vendor) -> None:
    browser = site.browser()
    callback = await vendor.pick(await browser.to_provider())
    code = parse_qs(urlsplit(callback).query)["code"][0]
    response = await browser.get(callback.replace(code, "invented"))
    assert response.status in (400, 503)
    assert await site.sessions() == []


async def test_a_callback_works_once(site: Site, vendor: Vendor) -> None:
    browser = site.browser()
    callback = await vendor.pick(await browser.to_provider())
    thief = site.browser()
    assert (await thief.get(callback)).status == 400
    assert (await browser.get(callback)).status == 302
    thief.cookies = dict(browser.cookies)
    thief.cookies.pop("_gate", None)
    assert (await thief.get(callback)).status == 400
    assert len(await site.sessions()) == 1


async def test_the_session_is_refreshed_while_the_provider_agrees(site: Site, vendor: Vendor) -> None:
    _, session = await signed_in(site, vendor)
    renewed = await site.service.refresh.renew(session.id, RefreshStep.TOKENS, manual=True)
    assert (renewed.access_token != session.access_token) is vendor.can_refresh
    assert renewed.user_id == session.user_id
    assert renewed.claims["sub"] == session.claims["sub"]
    again = await site.service.refresh.renew(session.id, RefreshStep.TOKENS, manual=True)
    assert again.access_token


async def test_revoked_token_is_refused_from_then_on(site: Site, vendor: Vendor) -> None:
    _, session = await signed_in(site, vendor)
    await site.client.revoke(session)
    if vendor.can_refresh and vendor.can_revoke:
        with pytest.raises(SessionEnded):
            await site.service.refresh.renew(session.id, RefreshStep.TOKENS, manual=True)
        assert await site.sessions() == []


async def test_an_access_token_that_the_provider_does_not_know_ends_the_session(site: Site, vendor: Vendor) -> None:
    _, session = await signed_in(site, vendor)
    forged = replace(session, id="forged", access_token="invented", refresh_token="", access_token_expires_at=time.time() + 600)
    await site.broker.put("session", "forged", forged.to_data(), expires=forged.expires_at)
    if vendor.rejects_foreign_tokens:
        with pytest.raises(SessionEnded):
            await site.service.refresh.renew("forged", RefreshStep.CLAIMS)
    remaining = [record.id for record in await site.sessions()]
    assert ("forged" in remaining) is not vendor.rejects_foreign_tokens
