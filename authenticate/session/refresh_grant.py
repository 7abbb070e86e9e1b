"""Refresh grant (RFC 6749 section 6): new tokens and claims of a session. Nothing is written here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import SubjectMismatch
from authenticate.provider.tokens.id_token import unverified_claims
from authenticate.provider.tokens.signed_token import TokenNotCurrent
from authorize.identity.identity_builder import linked_id_for
from databroker.records import SessionRecord, UserRecord
from databroker.session_reader import is_session_issuer

log = structlog.get_logger(__name__)

# How and when the user signed in. A refresh involves no user, so it can't make a sign-in stronger or newer (OpenID Connect Core 12.2).
AUTHENTICATION_CLAIMS = frozenset({"acr", "amr", "auth_time", "sid"})


async def exchange_refresh_token(client: ProviderClient, session: SessionRecord, now: float) -> SessionRecord:
    """Return the session with new tokens. This consumes the refresh token if the provider rotates it.

    A new ID token is stored unverified: `reload_claims` verifies it once the tokens are saved.

    Raises:
        InvalidGrant: the session has ended at the provider.
        ProviderError: try again.
    """
    form = {"grant_type": "refresh_token", "refresh_token": session.refresh_token}
    discovery = await client.discovery()
    _check_issuer(client, session)
    tokens = await client.request_tokens(form, discovery, needs_id_token=False)
    return replace(
        session,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or session.refresh_token,
        access_token_expires_at=tokens.expires_at,
        tokens_received_at=now,
        unverified_id_token=tokens.id_token,
    )


async def reload_claims(client: ProviderClient, session: SessionRecord, now: float) -> tuple[SessionRecord, UserRecord]:
    """Return the session with new claims, and its user.

    Raises:
        SubjectMismatch: the claims describe another user.
        InvalidSignedToken: the refreshed ID token is invalid.
        InvalidAccessToken: the provider no longer accepts the access token.
        ProviderError: try again.
    """
    discovery = await client.discovery()
    _check_issuer(client, session)
    newer = await _verify_refreshed_id_token(client, session, discovery)
    id_token, payload = (session.unverified_id_token, newer) if newer else (session.id_token, unverified_claims(session.id_token))
    payload = {name: value for name, value in payload.items() if name not in AUTHENTICATION_CLAIMS}
    payload |= {name: session.claims[name] for name in AUTHENTICATION_CLAIMS & session.claims.keys()}
    previous = () if newer else session.userinfo_claims
    claims, userinfo_claims = await client.fetch_claims(payload, session.access_token, discovery, previous_userinfo_claims=previous)
    user = client.provider.user(claims, session.issued_at)
    if user.id != session.user_id:
        raise SubjectMismatch("the provider now returns another user")
    if _linked_identity_changed(client, session, user, claims):
        raise SubjectMismatch("the address that links the accounts has changed")
    return replace(session, claims=claims, userinfo_claims=userinfo_claims, id_token=id_token, unverified_id_token=""), user


def _linked_identity_changed(client: ProviderClient, session: SessionRecord, user: UserRecord, claims: Mapping[str, Any]) -> bool:
    """Return whether the new claims would change the linked identity. The session then ends, and the user signs in again."""
    configured = client.configured
    if not configured.links_by_email:
        return False
    before = client.provider.user(session.claims, session.issued_at)
    return linked_id_for(before, session.claims, configured) != linked_id_for(user, claims, configured)


async def _verify_refreshed_id_token(client: ProviderClient, session: SessionRecord, discovery: DiscoveryDocument) -> dict[str, Any]:
    """Return the claims of the ID token that the last refresh returned, {} if it returned none or one that is not current.

    Raises InvalidSignedToken or SubjectMismatch if the token is invalid: then nothing of the response is used.
    """
    if not session.unverified_id_token:
        return {}
    before = unverified_claims(session.id_token)
    try:
        refreshed = await client.verify_id_token(
            session.unverified_id_token,
            discovery,
            nonce=str(before.get("nonce", "")),
            access_token=session.access_token,
            refreshed_at=session.tokens_received_at,
        )
    except TokenNotCurrent as error:
        # Some providers return the ID token of the sign-in again. A wrong clock on this machine must not sign users out either.
        log.warning("refreshed ID token ignored", session_id=session.id, reason=str(error))
        return {}
    # OpenID Connect Core 12.2: a refreshed ID token has the same issuer and subject.
    if (refreshed["iss"], refreshed["sub"]) != (before.get("iss"), before.get("sub")):
        raise SubjectMismatch("the refreshed ID token is for another user")
    return refreshed


def _check_issuer(client: ProviderClient, session: SessionRecord) -> None:
    """Check that the configured provider issued the session, because its tokens must not be sent to another provider."""
    if not is_session_issuer(client.configured, session):
        raise SubjectMismatch("the provider of the session is no longer configured")


def was_revoked(client: ProviderClient, session: SessionRecord, now: float) -> bool:
    """Return whether a rejected access token was revoked. Without an expiry, only some providers make this known."""
    if session.access_token_expires_at is None:
        return client.provider.access_tokens_never_expire
    return now < session.access_token_expires_at - 5
