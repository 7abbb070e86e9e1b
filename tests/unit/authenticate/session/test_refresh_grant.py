"""Data that a refresh may return: newer tokens and claims of the same user, and of no other."""

from dataclasses import replace

import pytest

from authenticate.provider.provider_errors import InvalidAccessToken, SubjectMismatch
from authenticate.provider.tokens.signed_token import InvalidSignedToken
from authenticate.provider.tokens.token_response import InvalidGrant
from authenticate.session.refresh_grant import exchange_refresh_token, reload_claims, was_revoked
from foundation.errors import ProviderError
from tests.support.fake_idp import ABSENT, OTHER_RSA_KEY, PEOPLE, signed
from tests.support.session_refresh import RefreshEnvironment


async def test_new_tokens_replace_the_old(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    one.clock.ahead = 3550
    renewed = await exchange_refresh_token(one.client, session, one.clock())
    assert renewed.access_token not in ("", session.access_token)
    assert renewed.refresh_token not in ("", session.refresh_token)
    assert renewed.access_token_expires_at == pytest.approx(one.clock() + 3600, abs=2)
    assert (renewed.id_token, bool(renewed.unverified_id_token)) == (session.id_token, True)
    assert "secret" not in repr(replace(renewed, unverified_id_token="secret"))


async def test_refresh_token_that_is_not_replaced_is_retained(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    one.idp.bend.tokens = {"refresh_token": ABSENT, "id_token": ABSENT}
    renewed = await exchange_refresh_token(one.client, session, 1.0)
    assert renewed.refresh_token == session.refresh_token
    assert (await reload_claims(one.client, renewed, 1.0))[0].id_token == session.id_token


async def test_refused_grant_is_distinguished_from_outage(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    with pytest.raises(InvalidGrant):
        await exchange_refresh_token(one.client, replace(session, refresh_token="unknown"), 1.0)


async def test_claims_that_the_provider_dropped_are_gone(one: RefreshEnvironment) -> None:
    one.idp.bend.claims = {"groups": ABSENT}
    session = await one.signed_in()
    assert session.claims["groups"] == ["engineering"]
    one.idp.bend.userinfo = {"groups": ABSENT, "name": "Alice Brown"}
    renewed, user = await reload_claims(one.client, session, one.clock())
    assert "groups" not in renewed.claims
    assert (user.name, renewed.claims["nonce"]) == ("Alice Brown", "nonce")


async def test_refreshed_id_token_is_for_the_same_user(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    for bend in ({"sub": "bob"}, {"nonce": "another"}, {"aud": "another"}, {"iss": "https://evil.example"}):
        one.idp.bend.claims = bend
        with pytest.raises((SubjectMismatch, InvalidSignedToken)):
            await reload_claims(one.client, await exchange_refresh_token(one.client, session, 1.0), 1.0)
        one.idp.bend.claims = {}
        session = await one.signed_in()


async def test_claim_dropped_by_userinfo_is_removed_though_old_id_token_has_it(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    assert session.claims["groups"] == ["engineering"]
    one.idp.bend.userinfo = {"groups": ABSENT, "email": ABSENT, "email_verified": ABSENT}
    renewed, user = await reload_claims(one.client, session, one.clock())
    assert {"groups", "email", "email_verified"}.isdisjoint(renewed.claims)
    assert (user.email, user.email_verified, user.claims) == ("", None, renewed.claims)
    # Once more, from what was written: it does not come back by itself, but when the provider says it again.
    again, _ = await reload_claims(one.client, renewed, one.clock())
    assert "groups" not in again.claims
    one.idp.bend.userinfo = {}
    assert (await reload_claims(one.client, again, one.clock()))[0].claims["groups"] == ["engineering"]


async def test_claim_of_id_token_alone_stays_until_new_id_token_omits_it(one: RefreshEnvironment) -> None:
    one.idp.bend.userinfo = {"groups": ABSENT}
    session = await one.signed_in()
    one.idp.bend.tokens = {"id_token": ABSENT}
    session, _ = await reload_claims(one.client, await exchange_refresh_token(one.client, session, 1.0), 1.0)
    assert session.claims["groups"] == ["engineering"]
    one.idp.bend.tokens, one.idp.bend.claims = {}, {"groups": ABSENT}
    session, _ = await reload_claims(one.client, await exchange_refresh_token(one.client, session, 1.0), 1.0)
    assert "groups" not in session.claims


async def test_missing_userinfo_removes_no_claims(one: RefreshEnvironment) -> None:
    one.idp.bend.discovery = {"userinfo_endpoint": ABSENT}
    session = await one.signed_in(userinfo_claims=("groups",))
    assert (await reload_claims(one.client, session, 1.0))[0].claims["groups"] == ["engineering"]


async def test_a_refreshed_id_token_that_is_not_of_now_is_passed_over(one: RefreshEnvironment) -> None:
    """Some providers send the first one again, and this machine's clock may be wrong: neither concerns the user."""
    session = await one.signed_in()
    for bend in ({"exp": 1}, {"iat": 3_000_000_000}):
        one.idp.bend.claims = {**bend, "groups": ["admins"]}
        one.idp.bend.userinfo = {"groups": ["sales"]}
        renewed, _ = await reload_claims(one.client, await exchange_refresh_token(one.client, session, 1.0), 1.0)
        assert (renewed.id_token, renewed.unverified_id_token, renewed.claims["groups"]) == (session.id_token, "", ["sales"])
        session = renewed


async def test_refresh_cannot_change_the_user(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    one.idp.bend.claims = one.idp.bend.userinfo = {"sub": "bob"}
    with pytest.raises(SubjectMismatch, match="refreshed ID token"):
        await reload_claims(one.client, await exchange_refresh_token(one.client, session, 1.0), 1.0)
    one.idp.bend.claims, one.idp.bend.userinfo = {}, {}
    with pytest.raises(SubjectMismatch, match="now returns"):
        await reload_claims(one.client, replace(await one.signed_in(), user_id="oidc/bob"), 1.0)


async def test_a_refreshed_id_token_is_verified_before_it_is_believed(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    one.idp.bend.token = lambda header, claims: signed(header, claims, OTHER_RSA_KEY, "RS256")
    with pytest.raises(ProviderError):
        await reload_claims(one.client, await exchange_refresh_token(one.client, session, 1.0), 1.0)


async def test_userinfo_of_another_user_ends_session(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    one.idp.bend.userinfo = {"sub": "bob", **PEOPLE["bob"]}
    with pytest.raises(SubjectMismatch):
        await reload_claims(one.client, session, 1.0)


async def test_a_token_goes_to_no_other_provider(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    one.idp.requests.clear()
    with pytest.raises(SubjectMismatch, match="no longer configured"):
        await exchange_refresh_token(one.client, replace(session, provider="okta"), 1.0)
    for changed in (
        replace(session, issuer="https://other.example"),
        replace(session, claims={**session.claims, "iss": "https://other.example"}),
    ):
        with pytest.raises(SubjectMismatch, match="no longer configured"):
            await reload_claims(one.client, changed, 1.0)
    assert one.idp.requests == []


async def test_a_refused_access_token_was_withdrawn_only_before_its_time(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    now = one.clock()
    with pytest.raises(InvalidAccessToken):
        await reload_claims(one.client, replace(session, access_token="unknown"), now)
    assert was_revoked(one.client, session, now)
    assert not was_revoked(one.client, session, now + 3600)
    assert not was_revoked(one.client, replace(session, access_token_expires_at=None), now)


async def test_a_refresh_makes_no_sign_in_stronger_or_newer(one: RefreshEnvironment) -> None:
    one.idp.bend.claims = {"acr": "pwd", "auth_time": 1000, "sid": "s1"}
    session = await one.signed_in()
    assert {name: session.claims.get(name) for name in ("acr", "auth_time", "sid")} == {"acr": "pwd", "auth_time": 1000, "sid": "s1"}
    one.idp.bend.claims = {"acr": "mfa", "auth_time": 9_999_999, "sid": "s2", "amr": ["otp"]}
    for _ in range(2):  # the second starts from what the first has kept
        renewed = await exchange_refresh_token(one.client, session, one.clock())
        session, user = await reload_claims(one.client, renewed, one.clock())
        for claims in (session.claims, user.claims):
            assert {name: claims.get(name) for name in ("acr", "auth_time", "sid")} == {"acr": "pwd", "auth_time": 1000, "sid": "s1"}
            assert "amr" not in claims
