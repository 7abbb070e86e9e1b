"""What does the provider say of a session today?  New tokens and new claims of it; nothing is written here."""

from dataclasses import replace

from authenticate.discovery import Discovery
from authenticate.id_token import payload_of
from authenticate.issuer import is_issuer
from authenticate.provider_client import ProviderClient
from authenticate.providers.base import AnotherPerson
from databroker.records import Session, User

# How and when the person signed in: a refresh asks nobody, so it can't make a sign-in stronger or newer (OpenID Connect Core 12.2).
OF_THE_SIGN_IN = frozenset({"acr", "amr", "auth_time", "sid"})


async def with_new_tokens(client: ProviderClient, session: Session, now: float) -> Session:
    """Uses up the refresh token where the provider rotates it.  GrantRefused: it is over; ProviderError: try again.

    A new ID token is kept as it came: `with_new_claims` verifies it, when the tokens can no longer be lost.
    """
    form = {"grant_type": "refresh_token", "refresh_token": session.refresh_token}
    discovery = await client.discovery()
    _check_origin(client, session, discovery)
    tokens = await client.tokens(form, discovery, needs_id_token=False)
    return replace(
        session,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or session.refresh_token,
        access_token_expires=tokens.expires,
        tokens_received=now,
        unverified_id_token=tokens.id_token,
    )


async def with_new_claims(client: ProviderClient, session: Session, now: float) -> tuple[Session, User]:
    """AnotherPerson, AccessRefused (the access token is no longer good), ProviderError (try again)."""
    discovery = await client.discovery()
    _check_origin(client, session, discovery)
    payload = payload_of(session.id_token)
    nonce = str(payload.get("nonce", ""))
    id_token = session.id_token
    if session.unverified_id_token:
        id_token = session.unverified_id_token
        refreshed = await client.verified(id_token, discovery, nonce=nonce, access_token=session.access_token, is_refreshed=True)
        # OpenID Connect Core 12.2: a refreshed ID token is of the same issuer, about the same person.
        if (refreshed["iss"], refreshed["sub"]) != (payload.get("iss"), payload.get("sub")):
            raise AnotherPerson("the refreshed ID token is about another person")
        payload = refreshed
    payload = {name: value for name, value in payload.items() if name not in OF_THE_SIGN_IN}
    payload |= {name: session.claims[name] for name in OF_THE_SIGN_IN & session.claims.keys()}
    claims = await client.claims(payload, session.access_token, discovery)
    user = client.provider.user(claims, session.issued)
    if user.id != session.user_id:
        raise AnotherPerson("the provider now describes another person")
    return replace(session, claims=claims, id_token=id_token, unverified_id_token=""), user


def _check_origin(client: ProviderClient, session: Session, discovery: Discovery) -> None:
    """A token of a provider that is no longer the configured one must not be sent to its successor."""
    issuer = payload_of(session.id_token).get("iss", discovery.issuer)
    if session.provider != client.provider.name or not is_issuer(discovery.issuer, issuer):
        raise AnotherPerson("the session is of a provider that is no longer configured")


def is_withdrawn(client: ProviderClient, session: Session, now: float) -> bool:
    """A refused access token that should still be good was withdrawn; of one without an expiry that is known of some providers only."""
    if session.access_token_expires is None:
        return client.provider.tokens_last
    return now < session.access_token_expires - 5
