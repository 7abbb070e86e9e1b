"""Identity provider client: endpoints, token requests, verified tokens, claims, revocation, in the name of our registration."""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from typing import Any
from urllib.parse import quote, urlencode

import structlog

from authenticate.provider import id_token, logout_token, token_response
from authenticate.provider.address_scope import AddressScope
from authenticate.provider.claim_limits import check_claims
from authenticate.provider.discovery import DiscoveryDocument, remembered_discovery
from authenticate.provider.email_verification import is_verified, merged
from authenticate.provider.key_set import Keys, KeySet
from authenticate.provider.kinds.kind_registry import provider_of
from authenticate.provider.provider_errors import AnotherPerson
from authenticate.provider.provider_http import ProviderHttp, ProviderResponse
from authenticate.provider.signed_token import WrongToken, verified_by_keys
from authenticate.provider.single_flight_cache import Place
from authenticate.provider.token_response import Tokens
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from foundation.readiness import HealthTracker
from foundation.values import parse_url

# Claims about the token and not about the person: userinfo has no say in them.
TOKEN_CLAIMS = frozenset({"iss", "aud", "azp", "exp", "iat", "nbf", "nonce", "at_hash", "c_hash", "auth_time", "acr", "amr", "jti", "sid"})

# Seconds that a person who signs out waits for the discovery document, mostly known already.
DISCOVERY_TIMEOUT = 3.0
REVOCATION = 30.0
LONGEST_HINT = 6000


log = structlog.get_logger(__name__)


class ProviderClient:
    """Client of one provider, with caches of its discovery document and its keys."""

    def __init__(self, options: Options, configured: ProviderConfig, clock: Callable[[], float]):
        self.configured = configured
        self.provider = provider = provider_of(configured)
        self.client_id = provider.client_id
        self._client_secret = provider.client_secret
        self._clock = clock
        # What browsers cause has connections of its own: however many wait there, sessions are refreshed and keys are read.
        self.health = HealthTracker(clock)
        scope = AddressScope(provider.url)
        self.http = ProviderHttp(options, scope, health=self.health)
        self._own_http = own_http = ProviderHttp(options, scope, health=self.health)
        self._discovery = remembered_discovery(lambda: provider.discovery(own_http), clock)
        self.key_set = KeySet(own_http, clock)

    def for_our_own_work(self) -> "ProviderClient":
        """A client whose connections no browser waits for: for refreshes and revocations."""
        client = copy(self)
        client.http = self._own_http
        return client

    async def discovery(self, *, place: Place = nullcontext) -> DiscoveryDocument:
        return await self._discovery.get(place=place)

    async def tokens(self, form: dict[str, str], discovery: DiscoveryDocument, *, needs_id_token: bool) -> Tokens:
        """The tokens for this grant; GrantRefused, ProviderError."""
        answer = await self.post_as_client(discovery.token_endpoint, form, discovery)
        return token_response.parse(answer, self._clock(), needs_id_token=needs_id_token)

    async def verified(
        self, token: str, discovery: DiscoveryDocument, *, nonce: str, access_token: str, refreshed: float | None = None
    ) -> dict[str, Any]:
        """The claims of an ID token that passed every check; WrongToken, WrongTime, ProviderError where the keys can't be had.

        `refreshed` is when it came with a refresh, in Unix seconds; None: with a sign-in.
        """
        expected = id_token.ExpectedIdToken(
            discovery.issuer, self.client_id, nonce, access_token, discovery.algorithms, is_refreshed=refreshed is not None
        )

        def verify(keys: Keys) -> dict[str, Any]:
            return id_token.verify(token, keys, expected, self._clock())

        return await verified_by_keys(self.key_set, discovery.jwks_uri, verify, than=refreshed or float("-inf"))

    async def verified_userinfo(self, token: str, discovery: DiscoveryDocument) -> dict[str, Any]:
        """Return the claims about the user in a signed userinfo response; WrongToken, WrongTime, ProviderError."""
        issuer, algorithms = discovery.issuer, discovery.algorithms | discovery.userinfo_algorithms

        def verify(keys: Keys) -> dict[str, Any]:
            return id_token.verify_userinfo(token, keys, issuer, self.client_id, algorithms, self._clock())

        return about_user(await verified_by_keys(self.key_set, discovery.jwks_uri, verify))

    async def verified_logout(self, token: str) -> logout_token.SignedOut:
        """The content of a logout token that passed every check but the one for use; WrongToken, WrongTime, ProviderError."""
        discovery = await self.discovery()

        def verify(keys: Keys) -> logout_token.SignedOut:
            return logout_token.verify(token, keys, discovery.issuer, self.client_id, discovery.algorithms, self._clock())

        if not discovery.jwks_uri:
            raise WrongToken("this provider sends no logout tokens")
        return await verified_by_keys(self.key_set, discovery.jwks_uri, verify)

    async def claims(
        self, payload: dict[str, Any], access_token: str, discovery: DiscoveryDocument, *, told_before: Iterable[str] = ()
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The person's claims: the ID token's `payload` ({} where there is none), overlaid with userinfo; and the names of those that
        userinfo has told since that token came.

        `told_before` are those that it told earlier: what it no longer tells is gone, whatever the older token has.
        ClaimsTooLarge; ProviderError where userinfo tells of another person: else a substituted access token would bring that one's claims
        (OpenID Connect Core 5.3.2).
        """
        userinfo = await self.provider.userinfo(self, discovery, access_token)
        if not payload:
            return self.bounded(userinfo, discovery), ()
        if not discovery.userinfo_endpoint:
            return self.bounded(payload, discovery), tuple(told_before)
        if userinfo.get("sub") != payload["sub"]:
            raise AnotherPerson("the provider's userinfo endpoint described another user than its ID token")
        about_person = about_user(userinfo)
        gone = frozenset(told_before) - about_person.keys()
        still_said = {name: value for name, value in payload.items() if name not in gone}
        return self.bounded(merged(still_said, about_person), discovery), tuple(sorted({*told_before, *about_person}))

    def bounded(self, claims: dict[str, Any], discovery: DiscoveryDocument) -> dict[str, Any]:
        """The claims as `doubted`, within the limits; ClaimsTooLarge."""
        return self.doubted(check_claims(claims, f"the identity provider {self.provider.id}"), discovery)

    def doubted(self, claims: dict[str, Any], discovery: DiscoveryDocument) -> dict[str, Any]:
        """The claims, with `email_verified` false where the provider left it out for this address but tells it of others.

        The person may have asked for one without the other: the request goes through their browser.
        """
        if is_verified(claims) is not None or not claims.keys() & {"email", "mail"} or not self.provider.tells_email_verified(discovery):
            return claims
        return {**claims, "email_verified": False}

    async def post_as_client(self, url: str, form: dict[str, str], discovery: DiscoveryDocument) -> ProviderResponse:
        """Send a form with client authentication, by the method that the provider accepts (OpenID Connect Core 1.0, section 9)."""
        methods = discovery.token_auth_methods
        if "client_secret_basic" in methods or "client_secret_post" not in methods:
            return await self.http.post(url, form, self.basic_credentials())
        return await self.http.post(url, {**form, "client_id": self.client_id, "client_secret": self._client_secret.reveal()})

    def basic_credentials(self) -> dict[str, str]:
        # RFC 6749 2.3.1: both are form-encoded before they become Basic credentials; %20, because not everybody reads + as a space.
        credentials = ":".join(quote(part, safe="") for part in (self.client_id, self._client_secret.reveal())).encode()
        return {"Authorization": "Basic " + b64encode(credentials).decode()}

    async def revoke(self, session: SessionRecord) -> None:
        """Revoke the session's tokens (RFC 7009); a failure is only logged, the session is over anyway."""
        try:
            async with asyncio.timeout(REVOCATION):
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

    async def end_session_url(self, session: SessionRecord, more: Mapping[str, str], *, timeout: float = DISCOVERY_TIMEOUT) -> str:
        """The RP-initiated logout URL (OpenID Connect RP-Initiated Logout 1.0), "" where the provider has none or is silent.

        `more` are further parameters of the request.
        """
        try:
            async with asyncio.timeout(timeout):
                endpoint = (await self.discovery()).end_session_endpoint
        except (ProviderError, TimeoutError):
            return ""
        if not endpoint:
            return ""
        # Recommended, not required: a token that holds hundreds of groups would make a URL that nobody takes.
        hint = {"id_token_hint": session.id_token} if 0 < len(session.id_token) <= LONGEST_HINT else {}
        return with_query(endpoint, {**hint, "client_id": self.client_id, **more})

    async def origins(self) -> str:
        """The origins of the provider's own pages, as a source list of Content-Security-Policy; ProviderError."""
        discovery = await self.discovery()
        urls = (discovery.authorization_endpoint, discovery.end_session_endpoint)
        return " ".join(dict.fromkeys(parse_url(url).origin for url in urls if url))

    async def close(self) -> None:
        await self.http.close()
        await self._own_http.close()


def about_user(userinfo: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in userinfo.items() if name not in TOKEN_CLAIMS}


def with_query(url: str, params: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
