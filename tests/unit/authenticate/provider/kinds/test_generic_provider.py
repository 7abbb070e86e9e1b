"""A provider of which only the discovery document is known: what it publishes is asked for, and what is known of a kind counts.

Keycloak with the defaults: a sign-out of one browser leaves the others, a session that ended there ends here, nothing outlives them.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.generic_provider import is_keycloak
from authenticate.provider.kinds.kind_registry import build_provider
from authenticate.session.session_refresh import RefreshStep, SessionEnded
from databroker.records import USER, SessionRecord, UserRecord
from tests.support.authenticate_site import Browser, Site
from tests.support.fake_idp import ABSENT
from tests.support.fake_keycloak import FakeKeycloak
from tests.support.options import make_options

REALM = "https://sso.example/realms/corp"
OLDER = "https://sso.example/auth/realms/corp"  # until 17
OIDC = f"{REALM}/protocol/openid-connect"
KNOWN = DiscoveryDocument(REALM, f"{OIDC}/auth", f"{OIDC}/token", f"{OIDC}/certs", frozenset({"RS256"}))
ANY = DiscoveryDocument("https://idp.example", "", "https://idp.example/token", "", frozenset())


def test_only_supported_scopes_are_requested_by_default(tmp_path: Path) -> None:
    published = DiscoveryDocument("", "", "", "", frozenset(), scopes=frozenset({"email", "phone"}))
    assert build_provider(make_options(tmp_path).first_provider).requested_scopes(published) == ("openid", "email")
    assert build_provider(make_options(tmp_path, idp_scopes=["openid", "x"]).first_provider).requested_scopes(published) == ("openid", "x")
    assert "offline_access" in build_provider(make_options(tmp_path).first_provider).requested_scopes(ANY)


@pytest.mark.parametrize(
    ("kind", "hints"),
    [
        ("oidc", ["refresh_token", "access_token"]),
        ("okta", ["refresh_token", "access_token"]),
        ("auth0", ["refresh_token", "access_token"]),
        ("gitlab", ["refresh_token", "access_token"]),
        ("google", []),
    ],
)
def test_only_tokens_bound_to_this_session_are_revoked(tmp_path: Path, kind: str, hints: list[str]) -> None:
    session = SessionRecord("s", "x/1", "1", kind, 1.0, 2.0, access_token="at", refresh_token="rt")
    provider = build_provider(make_options(tmp_path, idp_provider=kind).first_provider)
    assert [hint for _, hint in provider.revocable_tokens(session, ANY)] == hints


@pytest.fixture
async def idp() -> AsyncIterator[FakeKeycloak]:
    provider = await FakeKeycloak.started()
    assert isinstance(provider, FakeKeycloak)
    yield provider
    await provider.stop()


async def sign_out(browser: Browser) -> str:
    """Returns where the browser is sent at the provider."""
    found = re.search(r'name="_gate_csrf" value="([^"]+)"', (await browser.get("/.gate/")).text)
    assert found is not None
    return (await browser.post("/.gate/signout/", {"_gate_csrf": found[1]})).location


async def revocations_are_done(site: Site) -> None:
    for task in list(site.service._revocations):
        await task


async def test_a_sign_out_ends_this_browser_s_session_and_no_other(site: Site, idp: FakeKeycloak) -> None:
    desk, phone = site.browser(), site.browser()
    await desk.sign_in()
    (of_desk,) = await site.sessions()
    await phone.sign_in()
    (of_phone,) = [record for record in await site.sessions() if record.id != of_desk.id]
    at_provider = await sign_out(desk)
    await revocations_are_done(site)
    assert idp.revoked == ["access_token"]
    idp.sign_out(at_provider)
    assert (await site.service.refresh.renew(of_phone.id, RefreshStep.TOKENS, manual=True)).refresh_token
    assert [record.id for record in await site.sessions()] == [of_phone.id]
    # Nothing of the other is left at the provider, either.
    assert idp._refresh(of_desk.data["refresh_token"]).status == 400


async def test_a_session_that_ended_there_ends_here(site: Site, idp: FakeKeycloak) -> None:
    browser = site.browser()
    await browser.sign_in()
    (record,) = await site.sessions()
    idp.end_session(record.data["claims"]["sid"])
    with pytest.raises(SessionEnded):
        await site.service.refresh.renew(record.id, RefreshStep.TOKENS, manual=True)
    assert await site.sessions() == []


async def test_offline_access_is_requested_only_if_configured(site: Site) -> None:
    provider, discovery = site.client.provider, await site.client.discovery()
    assert provider.requested_scopes(discovery) == ("openid", "profile", "email")
    assert provider.requested_scopes(replace(discovery, scopes=frozenset())) == ("openid", "profile", "email")


async def test_an_address_without_its_mark_is_not_vouched_for(site: Site) -> None:
    site.idp.bend.claims = site.idp.bend.userinfo = {"email_verified": ABSENT}
    await site.browser().sign_in()
    assert UserRecord.from_record(await site.broker.get(USER, "oidc/alice")).email_verified is False


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({}, True),
        ({"token_endpoint": "http://keycloak.internal:8080/realms/corp/protocol/openid-connect/token"}, True),
        ({"issuer": OLDER, "token_endpoint": f"{OLDER}/protocol/openid-connect/token"}, True),
        ({"token_endpoint": f"{REALM}/token"}, False),
        ({"token_endpoint": "https://sso.example/realms/other/protocol/openid-connect/token"}, False),
        ({"issuer": "https://sso.example", "token_endpoint": "https://sso.example/protocol/openid-connect/token"}, False),
    ],
)
def test_it_is_known_by_its_endpoints(changes: dict[str, str], is_one: bool) -> None:
    assert is_keycloak(replace(KNOWN, **changes)) is is_one
