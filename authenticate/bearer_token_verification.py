"""Bearer tokens (RFC 6750): tokens of our provider, or of another issuer whom a route trusts, turned into the person that they name.

Every refusal says why; ProviderError only where the provider, which alone could tell, can't be asked.
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

from authenticate.provider import key_set, strict_json
from authenticate.provider.address_scope import AddressScope
from authenticate.provider.claim_limits import ClaimsTooLarge, check_claims
from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.discovery import PATH, is_safe
from authenticate.provider.email_verification import is_verified
from authenticate.provider.issuer import issuer_for, signs_for
from authenticate.provider.key_set import ALGORITHMS, Keys, KeySet
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_errors import AccessRefused, ScopeMissing
from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.signed_token import MAX_TOKEN, TokenKind, UnknownKey, WrongToken, verified_by_keys
from authenticate.provider.single_flight_cache import Place, SingleFlightCache
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

KEPT = 60.0  # seconds for which a good token is not judged again: so late at most is it noticed that the provider withdrew it
REFUSED_KEPT = 10.0
LONGEST_REASON = 255
MOST_KEPT = 10_000  # good ones, and as many others
MOST_BYTES = 64 * MIB  # of each: what a token claims may be as large as the token
# Tokens that were never good in one queue, in all and of one network: of a flood of made-up ones a provider sees no more than that.
# A token that is verified with cached keys waits in no queue.
MOST_AT_ONCE, MOST_OF_ONE = 32, 16
FULL_QUEUES = 32  # with more queues each is shorter
ATTESTED = 3600.0  # what is attested of a token's owner is good for no longer
DISCOVERY_LIFETIME = 3600.0
SHORTEST = 8

KINDS = {
    ACCESS_TOKEN: TokenKind("access token", frozenset({"at+jwt", "jwt"})),
    ID_TOKEN: TokenKind("ID token", frozenset({"jwt"})),
    JWT: TokenKind("bearer token", frozenset({"at+jwt", "jwt"})),
}
# What tells tokens of one issuer apart that have the same `typ`, or none.
OF_ID_TOKENS = ("nonce", "at_hash", "c_hash")
OF_ACCESS_TOKENS = ("scope", "scp")
OF_LOGOUT_TOKENS = "events"

ByKeys = Callable[[Callable[[Keys], dict[str, Any]]], Awaitable[dict[str, Any]]]  # the claims that are verified with keys
_Key = tuple["TokenPolicy", bytes]  # and the hash of a token


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """The issuer and audience whose tokens a route accepts; `provider` is the id of whose they are, "" for another issuer's."""

    kind: str
    issuer: str = ""
    audience: tuple[str, ...] = ()
    provider: str = ""
    jwks_url: str = ""
    jwks: bytes = field(default=b"", repr=False)

    @classmethod
    def of_route(cls, route: Route, provider: str) -> "TokenPolicy":
        return cls(
            route.bearer_token or "",
            route.bearer_token_issuer or "",
            route.bearer_token_audience,
            provider if route.bearer_token != JWT else "",
            str(route.bearer_token_jwks_url or ""),
            route.bearer_token_jwks_file.content if route.bearer_token_jwks_file else b"",
        )

    @property
    def asks_userinfo(self) -> bool:
        return self.kind == ACCESS_TOKEN and self.audience == (ANY_CLIENT,)

    @property
    def queue(self) -> Hashable:
        """Tokens of one queue wait for the same: the keys of a provider or issuer, or a provider's userinfo."""
        return (self.provider, self.issuer, self.asks_userinfo)


@dataclass(frozen=True, slots=True)
class BearerSession:
    """The person whom a valid token names; `session` has no record, and ends with the token."""

    session: SessionRecord
    user: UserRecord


@dataclass(frozen=True, slots=True)
class _CachedResult:
    bearer: BearerSession | InvalidToken
    until: float


class BearerTokens:
    """Verifier of the bearer tokens of all routes, with a cache of verdicts: accepted ones until they expire, refused ones for a while."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self._clock = clock
        self._providers = ProviderClients(options, clock)
        self._trusts: dict[str, TokenPolicy] = {}
        for route in options.policy:
            if route.bearer_token:
                self._trusts.setdefault(route.id, TokenPolicy.of_route(route, _provider_of(route, options)))
        self._issuers = {trust: _Issuer(trust, options, clock) for trust in self._trusts.values() if trust.kind == JWT}
        # Apart, so that made-up tokens push out no good one.  What was good is remembered as such also when it must be judged again.
        self._good: BoundedCache[_Key, _CachedResult] = BoundedCache(MOST_KEPT, MOST_BYTES)
        self._refused: BoundedCache[_Key, _CachedResult] = BoundedCache(MOST_KEPT, MOST_BYTES)
        self._verifications: SingleFlight[_Key, _CachedResult] = SingleFlight("bearer token verification")
        queues = {trust.queue for trust in self._trusts.values()}
        among = options.process_count * math.ceil(len(queues) / FULL_QUEUES)
        self._places = {queue: ConcurrencyLimit(MOST_AT_ONCE, MOST_OF_ONE, among) for queue in queues}

    def __repr__(self) -> str:
        return f"<BearerTokens {len(self._trusts)} routes, {len(self._good) + len(self._refused)} tokens>"

    @classmethod
    def of(cls, options: Options, clock: Callable[[], float]) -> "BearerTokens | None":
        is_needed = any(route.bearer_token for route in options.policy)
        return cls(options, clock) if is_needed else None

    async def verify(self, route_id: str, token: str, asker: str = "") -> BearerSession | InvalidToken:
        """The person, or a InvalidToken for a token that this route does not accept; ProviderError where that can't be told now. `asker`
        is the client's address, or "".
        """
        trust = self._trusts.get(route_id)
        if trust is None:
            return InvalidToken("the route does not accept bearer tokens")
        if not SHORTEST <= len(token) <= MAX_TOKEN:
            return InvalidToken(f"{trust.kind}: the token is too large")
        key = (trust, hashlib.sha256(token.encode()).digest())
        verdict = self._good.get(key) or self._refused.get(key)
        if verdict is not None and self._clock() < verdict.until:
            return verdict.bearer
        verdict = await self._verifications.run(key, partial(self._judge, key, trust, token, asker))
        return verdict.bearer

    async def close(self, grace: float = 0.0) -> None:
        await asyncio.sleep(grace)
        await self._providers.close()
        for issuer in self._issuers.values():
            await issuer.close()

    @contextmanager
    def _place(self, trust: TokenPolicy, network: str) -> Iterator[None]:
        """A place in the policy's queue; _NoPlace where it is full."""
        places = self._places[trust.queue]
        if not places.acquire(network):
            raise _NoPlace("too many tokens are waiting for the provider")
        try:
            yield
        finally:
            places.release(network)

    async def _judge(self, key: _Key, trust: TokenPolicy, token: str, asker: str) -> _CachedResult:
        # Else who floods us could put off the judgement of what a token of theirs has opened.
        place = nullcontext if key in self._good else partial(self._place, trust, client_network(asker))
        try:
            claims = await self._claims(trust, token, place)
            now = self._clock()
            bearer = self._bearer(trust, claims, key[1].hex()[:32], now)
            verdict = _CachedResult(bearer, min(now + KEPT, bearer.session.expires_at))
        except (_TokenRefused, AccessRefused, ClaimsTooLarge, ScopeMissing) as refusal:
            verdict = _CachedResult(InvalidToken(f"{trust.kind}: {refusal}"[:LONGEST_REASON]), self._clock() + REFUSED_KEPT)
        except _NoPlace:
            raise
        except ProviderError as error:
            log.warning("bearer token verification failed", kind=trust.kind, issuer=trust.issuer, reason=str(error))
            raise
        kept, other = (self._refused, self._good) if isinstance(verdict.bearer, InvalidToken) else (self._good, self._refused)
        other.pop(key)
        kept.put(key, verdict, estimate_size(verdict))
        return verdict

    async def _claims(self, trust: TokenPolicy, token: str, place: Place) -> dict[str, Any]:
        """The claims of a verified token; _TokenRefused, AccessRefused, ClaimsTooLarge, ScopeMissing;
        ProviderError where the keys or the provider are away.
        """
        if trust.kind == JWT:
            by_keys: ByKeys = partial(self._issuers[trust].by_keys, place)
            claims = await verified(token, trust, trust.issuer, frozenset(ALGORITHMS), by_keys, self._clock)
            return check_claims(claims, f"the issuer {trust.issuer}")
        client = self._client(trust)
        discovery = await client.discovery(place=place)
        if trust.asks_userinfo:
            with place():
                claims = await client.provider.userinfo(client, discovery, token)
            if not isinstance(claims.get("sub"), str) or not claims["sub"]:
                raise _TokenRefused("the provider does not identify the token's user")
            return client.bounded(claims, discovery)
        expected = trust if trust.kind == ACCESS_TOKEN else TokenPolicy(ID_TOKEN, audience=(client.client_id,))
        by_keys = partial(verified_by_keys, client.key_set, discovery.jwks_uri, place=place)
        claims = await verified(token, expected, discovery.issuer, discovery.algorithms, by_keys, self._clock)
        return client.bounded(claims, discovery)

    def _client(self, trust: TokenPolicy) -> ProviderClient:
        client = self._providers.of(trust.provider)
        if client is None:
            raise _TokenRefused("its provider is not configured")
        return client

    def _bearer(self, trust: TokenPolicy, claims: dict[str, Any], id: str, now: float) -> BearerSession:
        expires = min(float(claims.get("exp", now + KEPT)), now + ATTESTED)
        issued = float(claims.get("iat", now))
        if trust.kind == JWT:
            # Of another issuer: its subjects, addresses and groups are none of our provider's people's.
            issuer, user_id, provider, subject = trust.issuer, f"{trust.issuer}{ISSUER_SEPARATOR}{claims['sub']}", JWT, claims["sub"]
            user = UserRecord(user_id, "", is_verified(claims) is True, "", claims)
        else:
            of = self._client(trust).provider
            user = of.user(claims, now)
            user_id, provider, subject = user.id, of.id, of.subject(claims)
            # What userinfo says is the provider's, whatever it says of itself.
            issuer = of.issuer if trust.asks_userinfo else issuer_in(claims)
        return BearerSession(SessionRecord(f"bearer/{id}", user_id, subject, provider, issued, expires, claims, issuer=issuer), user)


def _provider_of(route: Route, options: Options) -> str:
    """The id of the provider whose tokens a route takes; with several it names one (config/settings/identity_providers.py)."""
    return route.identity_providers[0] if len(route.identity_providers) == 1 else options.first_provider.id


class _TokenRefused(Exception):
    """An invalid token; the text says why, for the log."""


class _NoPlace(ProviderError):
    """The queue is full."""


class _Issuer:
    """The keys of another issuer: from a file, from `bearer_token_jwks_url`, or from its discovery document."""

    def __init__(self, trust: TokenPolicy, options: Options, clock: Callable[[], float]):
        self._trust = trust
        self._http = http = ProviderHttp(options, AddressScope(trust.jwks_url or trust.issuer))
        self._fixed = key_set.parse(strict_json.parse_object(trust.jwks)) if trust.jwks else None
        self._key_set = KeySet(http, clock)
        self._uri = SingleFlightCache(self._discovered, lifetime=DISCOVERY_LIFETIME, stale=DISCOVERY_LIFETIME, clock=clock)

    async def by_keys(self, place: Place, verify: Callable[[Keys], dict[str, Any]]) -> dict[str, Any]:
        if self._fixed is not None:
            return verify(self._fixed)
        return await verified_by_keys(self._key_set, await self._jwks_uri(place), verify, place=place)

    async def close(self) -> None:
        await self._http.close()

    async def _jwks_uri(self, place: Place) -> str:
        return self._trust.jwks_url or await self._uri.get(place=place)

    async def _discovered(self) -> str:
        answer = await self._http.get(self._trust.issuer.rstrip("/") + PATH)
        if answer.status != 200:
            raise ProviderError(f"the issuer's discovery document returned status {answer.status}")
        document = answer.json()
        uri = document.get("jwks_uri")
        if document.get("issuer") != self._trust.issuer or not isinstance(uri, str) or not is_safe(uri, self._trust.issuer):
            raise ProviderError("the discovery document has another issuer or no https jwks_uri. Check bearer_token_issuer")
        return uri


# enforcement-point: Identity: Bearer token verification
async def verified(
    token: str,
    trust: TokenPolicy,
    issuer: str,
    algorithms: frozenset[str],
    by_keys: ByKeys,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """The claims of a token that passes every check; _TokenRefused, or ProviderError where the keys can't be had."""
    kind = KINDS[trust.kind]
    try:
        header, payload = kind.parts(token)
        algorithm = kind.algorithm(header, algorithms)
        named = issuer_for(issuer, payload)
        _check_claims(kind, trust, header, payload, named, clock())
    except ProviderError as error:
        raise _TokenRefused(str(error)) from error

    def verify(known: Keys) -> dict[str, Any]:
        kind.check_signature(token, tuple(key for key in known if signs_for(key, issuer, named)), algorithm, header.get("kid"))
        return payload

    try:
        return await by_keys(verify)
    except (UnknownKey, WrongToken) as error:
        raise _TokenRefused(str(error)) from error


def _check_claims(
    kind: TokenKind, trust: TokenPolicy, header: Mapping[str, Any], payload: Mapping[str, Any], issuer: str, now: float
) -> None:
    """Checks before the signature: what can't be for us is no reason to fetch keys."""
    if payload.get("iss") != issuer:
        raise ProviderError("it has another issuer")
    audience = payload.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or not any(isinstance(name, str) and name in trust.audience for name in audiences):
        raise ProviderError("it is for another audience")
    kind.text(payload, "sub")
    kind.check_times(payload, now)
    if OF_LOGOUT_TOKENS in payload:
        raise ProviderError("it is a logout token")
    is_access_token = str(header.get("typ", "")).lower().removeprefix("application/") == "at+jwt"
    says = payload.get("typ")  # as Keycloak names the kind
    has_scope, has_nonce = (any(name in payload for name in names) for names in (OF_ACCESS_TOKENS, OF_ID_TOKENS))
    if trust.kind == ACCESS_TOKEN and not is_access_token and (has_nonce or says == "ID" or not has_scope):
        raise ProviderError("it is not an access token")
    if trust.kind == ID_TOKEN:
        if has_scope or says not in (None, "ID", "JWT"):
            raise ProviderError("it is not an ID token")
        if payload.get("azp", trust.audience[0] if len(audiences) == 1 else None) != trust.audience[0]:
            raise ProviderError("it was issued to another client")
