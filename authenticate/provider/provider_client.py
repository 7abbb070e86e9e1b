"""Identity provider client: endpoints, token requests, token verification, claims and revocation."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from typing import Any
from urllib.parse import quote, urlencode

import structlog

from authenticate.provider.address_scope import AddressScope
from authenticate.provider.claim_limits import check_claims
from authenticate.provider.discovery import DiscoveryDocument, cached_discovery
from authenticate.provider.email_verification import email_verified, merge_claims
from authenticate.provider.kinds.kind_registry import build_provider
from authenticate.provider.provider_errors import SubjectMismatch
from authenticate.provider.provider_http import ProviderHttp, ProviderResponse
from authenticate.provider.single_flight_cache import Slot
from authenticate.provider.tokens import id_token, logout_token, token_response
from authenticate.provider.tokens.key_set import Keys, KeySet
from authenticate.provider.tokens.signed_token import InvalidSignedToken, verify_with_keys
from authenticate.provider.tokens.token_response import Tokens
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from foundation.readiness import HealthTracker
from foundation.values import parse_url

# Claims about the token, not the user. They are never taken from userinfo.
TOKEN_CLAIMS = frozenset({"iss", "aud", "azp", "exp", "iat", "nbf", "nonce", "at_hash", "c_hash", "auth_time", "acr", "amr", "jti", "sid"})

# Seconds that a sign-out waits for the discovery document, which is usually cached.
DISCOVERY_TIMEOUT = 3.0
REVOCATION_TIMEOUT = 30.0
MAX_ID_TOKEN_HINT = 6000


log = structlog.get_logger(__name__)


class ProviderClient:
    """Client of one provider, with caches of its discovery document and keys."""

    def __init__(self, options: Options, configured: ProviderConfig, clock: Callable[[], float]):
        self.configured = configured
        self.provider = provider = build_provider(configured)
        self.client_id = provider.client_id
        self._client_secret = provider.client_secret
        self._clock = clock
        # Requests caused by browsers have separate connections, so that they can't block session refreshes and key fetches.
        self.health = HealthTracker(clock)
        scope = AddressScope(provider.url)
        self.http = ProviderHttp(options, scope, health=self.health)
        self._background_http = background_http = ProviderHttp(options, scope, health=self.health)
        self._discovery = cached_discovery(lambda: provider.discovery(background_http), clock)
        self.key_set = KeySet(background_http, clock)

    def for_background_work(self) -> "ProviderClient":
        """Return this client with the connections for background work, such as refreshes and revocations."""
        client = copy(self)
        client.http = self._background_http
        return client

    async def discovery(self, *, slot: Slot = nullcontext) -> DiscoveryDocument:
        return await self._discovery.get(slot=slot)

    async def request_tokens(self, form: dict[str, str], discovery: DiscoveryDocument, *, needs_id_token: bool) -> Tokens:
        """Request the tokens for this grant. Raises InvalidGrant or ProviderError."""
        answer = await self.post_as_client(discovery.token_endpoint, form, discovery)
        return token_response.parse(answer, self._clock(), needs_id_token=needs_id_token)

    async def verify_id_token(
        self, token: str, discovery: DiscoveryDocument, *, nonce: str, access_token: str, refreshed_at: float | None = None
    ) -> dict[str, Any]:
        """Verify an ID token and return its claims.

        `refreshed_at` is the arrival of a token from a refresh, in Unix seconds; None for a token from a sign-in.
        Raises InvalidSignedToken or TokenNotCurrent; ProviderError if the keys are unavailable.
        """
        expected = id_token.ExpectedIdToken(
            discovery.issuer, self.client_id, nonce, access_token, discovery.algorithms, is_refreshed=refreshed_at is not None
        )

        def verify(keys: Keys) -> dict[str, Any]:
            return id_token.verify(token, keys, expected, self._clock())

        return await verify_with_keys(self.key_set, discovery.jwks_uri, verify, fetched_after=refreshed_at or float("-inf"))

    async def verify_userinfo(self, token: str, discovery: DiscoveryDocument) -> dict[str, Any]:
        """Verify a signed userinfo response and return its claims about the user. Raises the same errors as `verify_id_token`."""
        issuer, algorithms = discovery.issuer, discovery.algorithms | discovery.userinfo_algorithms

        def verify(keys: Keys) -> dict[str, Any]:
            return id_token.verify_userinfo(token, keys, issuer, self.client_id, algorithms, self._clock())

        return user_claims_in(await verify_with_keys(self.key_set, discovery.jwks_uri, verify))

    async def verify_logout_token(self, token: str) -> logout_token.LogoutRequest:
        """Verify a logout token except for replay. Raises InvalidSignedToken, TokenNotCurrent or ProviderError."""
        discovery = await self.discovery()

        def verify(keys: Keys) -> logout_token.LogoutRequest:
            return logout_token.verify(token, keys, discovery.issuer, self.client_id, discovery.algorithms, self._clock())

        if not discovery.jwks_uri:
            raise InvalidSignedToken("this provider sends no logout tokens")
        return await verify_with_keys(self.key_set, discovery.jwks_uri, verify)

    async def fetch_claims(
        self, payload: dict[str, Any], access_token: str, discovery: DiscoveryDocument, *, previous_userinfo_claims: Iterable[str] = ()
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return the user's claims, and the names of those that userinfo has returned since the ID token was issued.

        The claims are the ID token's `payload` ({} without one), overlaid with userinfo. A claim in `previous_userinfo_claims` that
        userinfo no longer returns is removed, even if the older token has it.

        Raises:
            ClaimsTooLarge: see there.
            SubjectMismatch: userinfo describes another user. Without this check a substituted access token would bring that user's
                claims (OpenID Connect Core 5.3.2).
        """
        userinfo = await self.provider.userinfo(self, discovery, access_token)
        if not payload:
            return self.check_limits(userinfo, discovery), ()
        if not discovery.userinfo_endpoint:
            return self.check_limits(payload, discovery), tuple(previous_userinfo_claims)
        if userinfo.get("sub") != payload["sub"]:
            raise SubjectMismatch("the provider's userinfo endpoint described another user than its ID token")
        user_claims = user_claims_in(userinfo)
        gone = frozenset(previous_userinfo_claims) - user_claims.keys()
        id_token_claims = {name: value for name, value in payload.items() if name not in gone}
        return self.check_limits(merge_claims(id_token_claims, user_claims), discovery), tuple(
            sorted({*previous_userinfo_claims, *user_claims})
        )

    def check_limits(self, claims: dict[str, Any], discovery: DiscoveryDocument) -> dict[str, Any]:
        """Return the claims as `with_email_verified_default` does. Raises ClaimsTooLarge."""
        return self.with_email_verified_default(check_claims(claims, f"the identity provider {self.provider.id}"), discovery)

    def with_email_verified_default(self, claims: dict[str, Any], discovery: DiscoveryDocument) -> dict[str, Any]:
        """Return the claims, with `email_verified` false if the provider left it out for this address but returns it for others.

        The user can request the address without the mark, because the request passes through the browser.
        """
        if (
            email_verified(claims) is not None
            or not claims.keys() & {"email", "mail"}
            or not self.provider.may_return_email_verified(discovery)
        ):
            return claims
        return {**claims, "email_verified": False}

    async def post_as_client(self, url: str, form: dict[str, str], discovery: DiscoveryDocument) -> ProviderResponse:
        """Send a form with client authentication, by the method that the provider accepts (OpenID Connect Core 1.0, section 9)."""
        methods = discovery.token_auth_methods
        if "client_secret_basic" in methods or "client_secret_post" not in methods:
            return await self.http.post(url, form, self.basic_credentials())
        return await self.http.post(url, {**form, "client_id": self.client_id, "client_secret": self._client_secret.reveal()})

    def basic_credentials(self) -> dict[str, str]:
        # RFC 6749 2.3.1: both are form-encoded before they become Basic credentials; %20, because some servers do not decode + as a space.
        credentials = ":".join(quote(part, safe="") for part in (self.client_id, self._client_secret.reveal())).encode()
        return {"Authorization": "Basic " + b64encode(credentials).decode()}

    async def revoke(self, session: SessionRecord) -> None:
        """Revoke the session's tokens (RFC 7009). A failure is only logged, because the session has already ended."""
        try:
            async with asyncio.timeout(REVOCATION_TIMEOUT):
                is_revoked = await self.provider.revoke(self, await self.discovery(), session)
        except (ProviderError, TimeoutError) as error:
            log.warning("token revocation failed", session_id=session.id, error=str(error) or "the provider timed out")
            return
        if not is_revoked:
            log.info(
                "token revocation skipped",
                session_id=session.id,
                provider=self.provider.id,
            )

    async def end_session_url(self, session: SessionRecord, extra_params: Mapping[str, str], *, timeout: float = DISCOVERY_TIMEOUT) -> str:
        """Return the RP-initiated logout URL (OpenID Connect RP-Initiated Logout 1.0), "" if the provider has none or times out.

        `extra_params` are additional parameters of the request.
        """
        try:
            async with asyncio.timeout(timeout):
                endpoint = (await self.discovery()).end_session_endpoint
        except (ProviderError, TimeoutError):
            return ""
        if not endpoint:
            return ""
        # The hint is recommended, not required: a token with hundreds of groups would make the URL too long.
        hint = {"id_token_hint": session.id_token} if 0 < len(session.id_token) <= MAX_ID_TOKEN_HINT else {}
        return with_query(endpoint, {**hint, "client_id": self.client_id, **extra_params})

    async def origins(self) -> str:
        """Return the origins of the provider's pages as a source list of Content-Security-Policy. Raises ProviderError."""
        discovery = await self.discovery()
        urls = (discovery.authorization_endpoint, discovery.end_session_endpoint)
        return " ".join(dict.fromkeys(parse_url(url).origin for url in urls if url))

    async def close(self) -> None:
        await self.http.close()
        await self._background_http.close()


def user_claims_in(userinfo: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in userinfo.items() if name not in TOKEN_CLAIMS}


def with_query(url: str, params: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
