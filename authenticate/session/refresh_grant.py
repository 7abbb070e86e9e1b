"""Session renewal: new tokens and claims of a session from the provider; nothing is written here."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import structlog

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.id_token import payload_of
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import AnotherPerson
from authenticate.provider.signed_token import WrongTime
from authorize.identity.identity_builder import linked_id_for
from databroker.records import SessionRecord, UserRecord
from databroker.session_reader import vouches

log = structlog.get_logger(__name__)

# How and when the person signed in: a refresh asks nobody, so it can't make a sign-in stronger or newer (OpenID Connect Core 12.2).
OF_THE_SIGN_IN = frozenset({"acr", "amr", "auth_time", "sid"})


async def with_new_tokens(client: ProviderClient, session: SessionRecord, now: float) -> SessionRecord:
    """The session with new tokens; uses up the refresh token where the provider rotates it.  GrantRefused: it is over; ProviderError:
    try again.

    A new ID token is kept as it came: `with_new_claims` verifies it, when the tokens can no longer be lost.
    """
    form = {"grant_type": "refresh_token", "refresh_token": session.refresh_token}
    discovery = await client.discovery()
    _check_origin(client, session)
    tokens = await client.tokens(form, discovery, needs_id_token=False)
    return replace(
        session,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or session.refresh_token,
        access_token_expires_at=tokens.expires,
        tokens_received_at=now,
        unverified_id_token=tokens.id_token,
    )


async def with_new_claims(client: ProviderClient, session: SessionRecord, now: float) -> tuple[SessionRecord, UserRecord]:
    """The session with new claims; AnotherPerson, WrongToken, AccessRefused (the access token is no longer good), ProviderError (try
    again).
    """
    discovery = await client.discovery()
    _check_origin(client, session)
    newer = await _refreshed_payload(client, session, discovery)
    id_token, payload = (session.unverified_id_token, newer) if newer else (session.id_token, payload_of(session.id_token))
    payload = {name: value for name, value in payload.items() if name not in OF_THE_SIGN_IN}
    payload |= {name: session.claims[name] for name in OF_THE_SIGN_IN & session.claims.keys()}
    told_before = () if newer else session.userinfo_claims
    claims, told = await client.claims(payload, session.access_token, discovery, told_before=told_before)
    user = client.provider.user(claims, session.issued_at)
    if user.id != session.user_id:
        raise AnotherPerson("the provider now returns another user")
    if _becomes_another(client, session, user, claims):
        raise AnotherPerson("the address that links the accounts has changed")
    return replace(session, claims=claims, userinfo_claims=told, id_token=id_token, unverified_id_token=""), user


def _becomes_another(client: ProviderClient, session: SessionRecord, user: UserRecord, claims: Mapping[str, Any]) -> bool:
    """Whether the account would become another person's, or nobody's in particular: who sits there signs in anew."""
    configured = client.configured
    if not configured.links_by_email:
        return False
    before = client.provider.user(session.claims, session.issued_at)
    return linked_id_for(before, session.claims, configured) != linked_id_for(user, claims, configured)


async def _refreshed_payload(client: ProviderClient, session: SessionRecord, discovery: DiscoveryDocument) -> dict[str, Any]:
    """Claims of the ID token that came with the last refresh, {} where none came: then the provider says nothing new in one.

    WrongToken: the answer is wrong, not late, and nothing of it may count.
    """
    if not session.unverified_id_token:
        return {}
    before = payload_of(session.id_token)
    try:
        refreshed = await client.verified(
            session.unverified_id_token,
            discovery,
            nonce=str(before.get("nonce", "")),
            access_token=session.access_token,
            refreshed=session.tokens_received_at,
        )
    except WrongTime as error:
        # Some providers send the sign-in's own token once more; or this machine's clock is wrong, which must sign nobody out.
        log.warning("refreshed ID token ignored", session_id=session.id, reason=str(error))
        return {}
    # OpenID Connect Core 12.2: a refreshed ID token is of the same issuer, about the same person.
    if (refreshed["iss"], refreshed["sub"]) != (before.get("iss"), before.get("sub")):
        raise AnotherPerson("the refreshed ID token is for another user")
    return refreshed


def _check_origin(client: ProviderClient, session: SessionRecord) -> None:
    """Check that the session is of the configured provider: a token must not be sent to another."""
    if not vouches(client.configured, session):
        raise AnotherPerson("the provider of the session is no longer configured")


def is_withdrawn(client: ProviderClient, session: SessionRecord, now: float) -> bool:
    """Whether a refused access token was withdrawn; of one without an expiry that is known of some providers only."""
    if session.access_token_expires_at is None:
        return client.provider.tokens_last
    return now < session.access_token_expires_at - 5
