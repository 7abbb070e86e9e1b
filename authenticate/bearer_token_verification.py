"""Verification of bearer tokens (RFC 6750) of an identity provider, or of another issuer that a route trusts.

A rejection has a reason. ProviderError is raised only if the provider is unavailable and the token can't be verified without it.
"""

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog

from authenticate.provider import strict_json
from authenticate.provider.address_scope import AddressScope
from authenticate.provider.claim_limits import ClaimsTooLarge, check_claims
from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.discovery import PATH, is_secure_url
from authenticate.provider.email_verification import email_verified
from authenticate.provider.issuer import expected_issuer, key_is_for_issuer
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import InsufficientScope, InvalidAccessToken
from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.single_flight_cache import SingleFlightCache, Slot
from authenticate.provider.tokens import key_set
from authenticate.provider.tokens.key_set import ALGORITHMS, Keys, KeySet
from authenticate.provider.tokens.signed_token import MAX_TOKEN, InvalidSignedToken, SigningKeyNotFound, TokenType, verify_with_keys
from config.options import Options
from config.routes.route import Route
from config.routes.route_bearer_tokens import ACCESS_TOKEN, ANY_CLIENT, ID_TOKEN, ISSUER_SEPARATOR, JWT
from databroker.records import SessionRecord, UserRecord, issuer_in
from foundation.auth_challenges import InvalidToken
from foundation.bounded_cache import MIB, BoundedCache, estimate_size
from foundation.client_network import ConcurrencyLimit, client_network
from foundation.errors import ProviderError
from foundation.single_flight import SingleFlight

log = structlog.get_logger(__name__)

CACHE_SECONDS = 60.0  # for accepted tokens: a revocation at the provider takes effect within this time
NEGATIVE_CACHE_SECONDS = 10.0
MAX_REASON = 255
MAX_CACHED = 10_000  # accepted tokens, and as many rejected ones
MAX_CACHED_BYTES = 64 * MIB  # of each cache, because claims can be as large as the token
# Concurrent verifications of unknown tokens per queue, in total and per client network. This bounds the calls that a flood of
# invalid tokens causes at a provider. A token that cached keys verify does not occupy a slot.
MAX_CONCURRENT, MAX_PER_NETWORK = 32, 16
FULL_QUEUES = 32  # with more queues, the limits of each are lower
MAX_IDENTITY_LIFETIME = 3600.0  # seconds, the limit of a token's lifetime here
DISCOVERY_LIFETIME = 3600.0
MIN_LENGTH = 8

TOKEN_TYPES = {
    ACCESS_TOKEN: TokenType("access token", frozenset({"at+jwt", "jwt"})),
    ID_TOKEN: TokenType("ID token", frozenset({"jwt"})),
    JWT: TokenType("bearer token", frozenset({"at+jwt", "jwt"})),
}
# Claims that distinguish tokens of one issuer with the same `typ`, or none.
ID_TOKEN_CLAIMS = ("nonce", "at_hash", "c_hash")
ACCESS_TOKEN_CLAIMS = ("scope", "scp")
LOGOUT_TOKEN_CLAIM = "events"  # noqa: S105 - a name

VerifyWithKeys = Callable[
    [Callable[[Keys], dict[str, Any]]], Awaitable[dict[str, Any]]
]  # returns the claims that its argument has verified with the issuer's keys
_Key = tuple["TokenPolicy", bytes]  # and the hash of a token


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """The issuer and audience that a route accepts. `provider` is the id of the identity provider, "" for another issuer."""

    kind: str
    issuer: str = ""
    audience: tuple[str, ...] = ()
    provider: str = ""
    jwks_url: str = ""
    jwks: bytes = field(default=b"", repr=False)

    @classmethod
    def from_route(cls, route: Route, provider: str) -> "TokenPolicy":
        return cls(
            route.bearer_token or "",
            route.bearer_token_issuer or "",
            route.bearer_token_audience,
            provider if route.bearer_token != JWT else "",
            str(route.bearer_token_jwks_url or ""),
            route.bearer_token_jwks_file.content if route.bearer_token_jwks_file else b"",
        )

    @property
    def uses_userinfo(self) -> bool:
        return self.kind == ACCESS_TOKEN and self.audience == (ANY_CLIENT,)

    @property
    def queue(self) -> Hashable:
        """Key of the queue: its tokens wait for the same keys, or for the same userinfo endpoint."""
        return (self.provider, self.issuer, self.uses_userinfo)


@dataclass(frozen=True, slots=True)
class BearerSession:
    """The user that a valid token names. `session` has no record, and ends with the token."""

    session: SessionRecord
    user: UserRecord


@dataclass(frozen=True, slots=True)
class _CachedResult:
    bearer: BearerSession | InvalidToken
    expires_at: float


class BearerTokens:
    """Verifier of the bearer tokens of all routes, with caches of accepted and rejected tokens."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self._clock = clock
        self._providers = ProviderClients(options, clock)
        self._policies: dict[str, TokenPolicy] = {}
        for route in options.policy:
            if route.bearer_token:
                self._policies.setdefault(route.id, TokenPolicy.from_route(route, _provider_id(route, options)))
        self._issuers = {trust: _IssuerKeys(trust, options, clock) for trust in self._policies.values() if trust.kind == JWT}
        # Separate caches, so that invalid tokens evict no accepted one. An expired entry of an accepted token still marks it as known.
        self._accepted: BoundedCache[_Key, _CachedResult] = BoundedCache(MAX_CACHED, MAX_CACHED_BYTES)
        self._refused: BoundedCache[_Key, _CachedResult] = BoundedCache(MAX_CACHED, MAX_CACHED_BYTES)
        self._verifications: SingleFlight[_Key, _CachedResult] = SingleFlight("bearer token verification")
        queues = {trust.queue for trust in self._policies.values()}
        among = options.process_count * math.ceil(len(queues) / FULL_QUEUES)
        self._slots = {queue: ConcurrencyLimit(MAX_CONCURRENT, MAX_PER_NETWORK, among) for queue in queues}

    def __repr__(self) -> str:
        return f"<BearerTokens {len(self._policies)} routes, {len(self._accepted) + len(self._refused)} tokens>"

    @classmethod
    def from_options(cls, options: Options, clock: Callable[[], float]) -> "BearerTokens | None":
        is_needed = any(route.bearer_token for route in options.policy)
        return cls(options, clock) if is_needed else None

    async def verify(self, route_id: str, token: str, client_address: str = "") -> BearerSession | InvalidToken:
        """Return the user's session, or an InvalidToken for a token that this route does not accept.

        `client_address` is "" if unknown.  Raises ProviderError if the token cannot be verified now.
        """
        policy = self._policies.get(route_id)
        if policy is None:
            return InvalidToken("the route does not accept bearer tokens")
        if not MIN_LENGTH <= len(token) <= MAX_TOKEN:
            return InvalidToken(f"{policy.kind}: the token is too large")
        key = (policy, hashlib.sha256(token.encode()).digest())
        verdict = self._accepted.get(key) or self._refused.get(key)
        if verdict is not None and self._clock() < verdict.expires_at:
            return verdict.bearer
        verdict = await self._verifications.run(key, partial(self._verify_once, key, policy, token, client_address))
        return verdict.bearer

    async def close(self, grace: float = 0.0) -> None:
        await asyncio.sleep(grace)
        await self._providers.close()
        for issuer in self._issuers.values():
            await issuer.close()

    @contextmanager
    def _slot(self, policy: TokenPolicy, network: str) -> Iterator[None]:
        """Occupy a slot of the policy's queue. Raises _QueueFull."""
        slots = self._slots[policy.queue]
        if not slots.acquire(network):
            raise _QueueFull("too many tokens are waiting for the provider")
        try:
            yield
        finally:
            slots.release(network)

    async def _verify_once(self, key: _Key, policy: TokenPolicy, token: str, client_address: str) -> _CachedResult:
        # A known token needs no slot: otherwise a flood by its holder could delay the re-verification that ends its connections.
        slot = nullcontext if key in self._accepted else partial(self._slot, policy, client_network(client_address))
        try:
            claims = await self._claims(policy, token, slot)
            now = self._clock()
            bearer = self._build_session(policy, claims, key[1].hex()[:32], now)
            verdict = _CachedResult(bearer, min(now + CACHE_SECONDS, bearer.session.expires_at))
        except (_RejectedToken, InvalidAccessToken, ClaimsTooLarge, InsufficientScope) as refusal:
            verdict = _CachedResult(InvalidToken(f"{policy.kind}: {refusal}"[:MAX_REASON]), self._clock() + NEGATIVE_CACHE_SECONDS)
        except _QueueFull:
            raise
        except ProviderError as error:
            log.warning("bearer token verification failed", kind=policy.kind, issuer=policy.issuer, reason=str(error))
            raise
        cache, other = (self._refused, self._accepted) if isinstance(verdict.bearer, InvalidToken) else (self._accepted, self._refused)
        other.pop(key)
        cache.put(key, verdict, estimate_size(verdict))
        return verdict

    async def _claims(self, policy: TokenPolicy, token: str, slot: Slot) -> dict[str, Any]:
        """Verify the token and return its claims.

        Raises _RejectedToken, InvalidAccessToken, ClaimsTooLarge or InsufficientScope; ProviderError if the provider is unavailable.
        """
        if policy.kind == JWT:
            by_keys: VerifyWithKeys = partial(self._issuers[policy].verify_with_keys, slot)
            claims = await verify_token(token, policy, policy.issuer, frozenset(ALGORITHMS), by_keys, self._clock)
            return check_claims(claims, f"the issuer {policy.issuer}")
        client = self._client(policy)
        discovery = await client.discovery(slot=slot)
        if policy.uses_userinfo:
            with slot():
                claims = await client.provider.userinfo(client, discovery, token)
            if not isinstance(claims.get("sub"), str) or not claims["sub"]:
                raise _RejectedToken("the provider does not identify the token's user")
            return client.check_limits(claims, discovery)
        expected = policy if policy.kind == ACCESS_TOKEN else TokenPolicy(ID_TOKEN, audience=(client.client_id,))
        by_keys = partial(verify_with_keys, client.key_set, discovery.jwks_uri, slot=slot)
        claims = await verify_token(token, expected, discovery.issuer, discovery.algorithms, by_keys, self._clock)
        return client.check_limits(claims, discovery)

    def _client(self, policy: TokenPolicy) -> ProviderClient:
        client = self._providers.get(policy.provider)
        if client is None:
            raise _RejectedToken("its provider is not configured")
        return client

    def _build_session(self, policy: TokenPolicy, claims: dict[str, Any], id: str, now: float) -> BearerSession:
        expires = min(float(claims.get("exp", now + CACHE_SECONDS)), now + MAX_IDENTITY_LIFETIME)
        issued = float(claims.get("iat", now))
        if policy.kind == JWT:
            # Subjects, addresses and groups of another issuer are not those of the identity provider's users.
            issuer, user_id, provider, subject = policy.issuer, f"{policy.issuer}{ISSUER_SEPARATOR}{claims['sub']}", JWT, claims["sub"]
            user = UserRecord(user_id, "", email_verified(claims) is True, "", claims)
        else:
            provider_kind = self._client(policy).provider
            user = provider_kind.user(claims, now)
            user_id, provider, subject = user.id, provider_kind.id, provider_kind.subject(claims)
            # Userinfo comes from the provider itself, so an `iss` in it is ignored.
            issuer = provider_kind.issuer if policy.uses_userinfo else issuer_in(claims)
        return BearerSession(SessionRecord(f"bearer/{id}", user_id, subject, provider, issued, expires, claims, issuer=issuer), user)


def _provider_id(route: Route, options: Options) -> str:
    """Return the id of the provider whose tokens a route accepts.

    With several providers, the route names one (config/settings/identity_providers.py).
    """
    return route.identity_providers[0] if len(route.identity_providers) == 1 else options.first_provider.id


class _RejectedToken(Exception):
    """The token is invalid; the message is the reason for the log."""


class _QueueFull(ProviderError):
    """The queue is full."""


class _IssuerKeys:
    """The keys of another issuer, from a file, `bearer_token_jwks_url` or its discovery document."""

    def __init__(self, policy: TokenPolicy, options: Options, clock: Callable[[], float]):
        self._policy = policy
        self._http = http = ProviderHttp(options, AddressScope(policy.jwks_url or policy.issuer))
        self._fixed = key_set.parse(strict_json.parse_object(policy.jwks)) if policy.jwks else None
        self._key_set = KeySet(http, clock)
        self._uri = SingleFlightCache(self._discover, lifetime=DISCOVERY_LIFETIME, stale=DISCOVERY_LIFETIME, clock=clock)

    async def verify_with_keys(self, slot: Slot, verify: Callable[[Keys], dict[str, Any]]) -> dict[str, Any]:
        if self._fixed is not None:
            return verify(self._fixed)
        return await verify_with_keys(self._key_set, await self._jwks_uri(slot), verify, slot=slot)

    async def close(self) -> None:
        await self._http.close()

    async def _jwks_uri(self, slot: Slot) -> str:
        return self._policy.jwks_url or await self._uri.get(slot=slot)

    async def _discover(self) -> str:
        answer = await self._http.get(self._policy.issuer.rstrip("/") + PATH)
        if answer.status != 200:
            raise ProviderError(f"the issuer's discovery document returned status {answer.status}")
        document = answer.json()
        uri = document.get("jwks_uri")
        if document.get("issuer") != self._policy.issuer or not isinstance(uri, str) or not is_secure_url(uri, self._policy.issuer):
            raise ProviderError("the discovery document has another issuer or no https jwks_uri. Check bearer_token_issuer")
        return uri


# enforcement-point: Identity: Bearer token verification
async def verify_token(
    token: str,
    policy: TokenPolicy,
    issuer: str,
    algorithms: frozenset[str],
    by_keys: VerifyWithKeys,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Verify a token and return its claims. Raises _RejectedToken, or ProviderError if the keys are unavailable."""
    kind = TOKEN_TYPES[policy.kind]
    try:
        header, payload = kind.split(token)
        algorithm = kind.algorithm(header, algorithms)
        named = expected_issuer(issuer, payload)
        _check_claims(kind, policy, header, payload, named, clock())
    except ProviderError as error:
        raise _RejectedToken(str(error)) from error

    def verify(known: Keys) -> dict[str, Any]:
        kind.check_signature(token, tuple(key for key in known if key_is_for_issuer(key, issuer, named)), algorithm, header.get("kid"))
        return payload

    try:
        return await by_keys(verify)
    except (SigningKeyNotFound, InvalidSignedToken) as error:
        raise _RejectedToken(str(error)) from error


def _check_claims(
    kind: TokenType, trust: TokenPolicy, header: Mapping[str, Any], payload: Mapping[str, Any], issuer: str, now: float
) -> None:
    """Check the claims before the signature, so that a token for another recipient causes no fetch of keys."""
    if payload.get("iss") != issuer:
        raise ProviderError("it has another issuer")
    audience = payload.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not any(isinstance(name, str) and name in trust.audience for name in audiences):
        raise ProviderError("it is for another audience")
    kind.string_claim(payload, "sub")
    kind.check_times(payload, now)
    if LOGOUT_TOKEN_CLAIM in payload:
        raise ProviderError("it is a logout token")
    is_access_token = str(header.get("typ", "")).lower().removeprefix("application/") == "at+jwt"
    declared_type = payload.get("typ")  # Keycloak's claim for the token type
    has_scope, has_nonce = (any(name in payload for name in names) for names in (ACCESS_TOKEN_CLAIMS, ID_TOKEN_CLAIMS))
    if trust.kind == ACCESS_TOKEN and not is_access_token and (has_nonce or declared_type == "ID" or not has_scope):
        raise ProviderError("it is not an access token")
    if trust.kind == ID_TOKEN:
        if has_scope or declared_type not in (None, "ID", "JWT"):
            raise ProviderError("it is not an ID token")
        if payload.get("azp", trust.audience[0] if len(audiences) == 1 else None) != trust.audience[0]:
            raise ProviderError("it was issued to another client")
