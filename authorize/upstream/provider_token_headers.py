"""Headers with the provider's tokens for a user.  A request is denied if no valid token is available.

The elected process of the provider refreshes tokens (`authenticate/session/refresh_requests.py`).  A record in the data broker requests
it.
"""

import asyncio
import math
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jwt
import structlog

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import Identity
from authorize.upstream.identity_header_templates import Headers, HeaderTemplates
from config.fields.header_template import ACCESS_TOKEN, ID_TOKEN, Variable
from config.options import Options
from config.routes.route_identity_headers import provider_token_templates
from databroker.broker_client import BrokerClient
from databroker.records import SESSION, TOKEN_REFRESH_REQUEST, SessionRecord, TokenRefreshRequest
from databroker.session_reader import SessionReader
from foundation.backoff import backoff_delays
from foundation.bounded_cache import MIB, BoundedCache, total_length
from foundation.errors import GateError, NoIdentity, UpstreamCredentialsUnavailable
from foundation.single_flight import SingleFlight
from foundation.web.message import Message

log = structlog.get_logger(__name__)

MAX_CACHED = 10_000
MAX_CACHE_BYTES = 64 * MIB
REFRESH_MARGIN_SECONDS = 30.0  # seconds, or a quarter of the lifetime if that is shorter, because the upstream needs time to use the token
MAX_WAIT_SECONDS = 8.0
FIRST_PAUSE, MAX_PAUSE_SECONDS = 0.02, 0.25
FAILURE_SECONDS = 2.0  # no retry in this time after a failure
_HEADER_SAFE = re.compile(r"[!-~]{1,16384}")
_TOKEN_NAMES = {ACCESS_TOKEN: Message("access token"), ID_TOKEN: Message("ID token")}
_UNUSABLE = Message("it requires your %(token)s, and your identity provider issued none that can be passed on")
_EXPIRED = Message("it requires your %(token)s, which has expired and can't be renewed; sign out and in again")


@dataclass(frozen=True, slots=True)
class SessionTokens:
    """Tokens of a session with their expiry in Unix seconds, None if unknown.  `received` is 0 for tokens of the sign-in."""

    values: dict[str, str] = field(repr=False)
    ends: dict[str, float | None]
    received: float
    begins: float
    is_renewable: bool
    has_unverified_id_token: bool  # a refresh returned an ID token that has not been verified yet

    @classmethod
    def from_session(cls, session: SessionRecord) -> "SessionTokens":
        values = {ACCESS_TOKEN: session.access_token, ID_TOKEN: session.id_token}
        ends = {ACCESS_TOKEN: session.access_token_expires_at, ID_TOKEN: _token_expiry(session.id_token)}
        begins = session.tokens_received_at or session.issued_at
        return cls(values, ends, session.tokens_received_at, begins, bool(session.refresh_token), bool(session.unverified_id_token))

    def due(self, kind: str) -> float:
        """Return the Unix seconds after which the token must be refreshed before use.  Without a refresh token, its expiry."""
        end = self.ends[kind]
        if end is None:
            return math.inf
        return end - (min(REFRESH_MARGIN_SECONDS, max(end - self.begins, 0.0) / 4) if self.is_renewable else 0.0)

    def is_due(self, kind: str, now: float) -> bool:
        return now >= self.due(kind)

    def cannot_be_refreshed(self, kind: str, now: float) -> bool:
        """Return whether a refresh cannot help.

        There is no refresh token, or the last refresh completed when the token was due and returned no other.
        """
        has_brought_none = self.received > 0 and self.is_due(kind, self.received) and not self.has_unverified_id_token
        return self.is_due(kind, now) and (not self.is_renewable or has_brought_none)


class TokenHeaders(NamedTuple):
    """Headers built from an identity's tokens, valid until `due`."""

    identity: Identity
    headers: Headers
    due: float


# enforcement-point: Upstream requests: Provider tokens for upstreams
class ProviderTokens:
    """Cache of headers by session and route.  Concurrent requests that need a refresh share one."""

    def __init__(
        self, options: Options, routes: Iterable[CompiledRoute], broker: BrokerClient | None, clock: Callable[[], float] = time.time
    ):
        self._broker = broker
        self._sessions = SessionReader(options)
        self._clock = clock
        self._templates: dict[str, HeaderTemplates] = {}
        for compiled in routes:
            if compiled.route.pass_provider_tokens:
                named = provider_token_templates(compiled.route).items()
                self._templates.setdefault(compiled.id, tuple((name.lower().encode("ascii"), parts) for name, parts in named))
        self._cached: BoundedCache[tuple[str, str], TokenHeaders] = BoundedCache(MAX_CACHED, MAX_CACHE_BYTES)
        self._refreshes: SingleFlight[tuple[str, frozenset[str]], SessionTokens] = SingleFlight("a fresh token")
        self._failed: BoundedCache[str, float] = BoundedCache(MAX_CACHED, MIB)

    def __repr__(self) -> str:
        return f"<ProviderTokens for {len(self._templates)} routes>"

    async def headers_for(self, route: CompiledRoute, identity: Identity | None) -> Headers:
        """Return headers with tokens.

        Raises UpstreamCredentialsUnavailable if a token is temporarily unavailable, NoIdentity if none can exist.
        """
        if (templates := self._templates.get(route.id)) is None:
            return ()
        if identity is None:
            if any(name == b"authorization" for name, _ in templates):
                raise NoIdentity(Message("it requires a token of a signed-in user"))
            return ()
        key = (identity.session_id, route.id)
        known = self._cached.get(key)
        # A refresh changes the session's record, which creates another Identity.
        if known is None or known.identity is not identity or self._clock() >= known.due:
            known = await self._made(identity, templates)
            self._cached.put(key, known, total_length(*key, known.headers))
        return known.headers

    async def _made(self, identity: Identity, templates: HeaderTemplates) -> TokenHeaders:
        kinds = frozenset(part.name for _, parts in templates for part in parts if isinstance(part, Variable))
        held = await self._fresh(identity.session_id, kinds)
        filled = ((name, "".join(held.values[p.name] if isinstance(p, Variable) else p for p in parts)) for name, parts in templates)
        headers = tuple((name, value.encode("latin-1")) for name, value in filled)
        return TokenHeaders(identity, headers, min(held.due(kind) for kind in kinds))

    async def _fresh(self, session_id: str, kinds: frozenset[str]) -> SessionTokens:
        held, now = self._checked(await self._read(session_id), kinds), self._clock()
        if any(held.is_due(kind, now) for kind in kinds):
            return self._checked(await self._refreshed(session_id, held, kinds), kinds)
        return held

    def _checked(self, held: SessionTokens, kinds: Iterable[str]) -> SessionTokens:
        now = self._clock()
        for kind in kinds:
            if not _HEADER_SAFE.fullmatch(held.values[kind]):
                raise NoIdentity(_UNUSABLE.with_params(token=_TOKEN_NAMES[kind]))
            if held.cannot_be_refreshed(kind, now):
                raise NoIdentity(_EXPIRED.with_params(token=_TOKEN_NAMES[kind]))
        return held

    async def _read(self, session_id: str) -> SessionTokens:
        if self._broker is None:
            raise UpstreamCredentialsUnavailable("this process has no data broker")
        record = await self._broker.get(SESSION, session_id)
        session = self._sessions.read_valid(record) if record is not None else None
        if session is None:
            raise NoIdentity(Message("it requires a token of an identity provider at which you are not signed in"))
        return SessionTokens.from_session(session)

    async def _refreshed(self, session_id: str, held: SessionTokens, kinds: frozenset[str]) -> SessionTokens:
        if self._clock() < (self._failed.get(session_id) or 0.0) + FAILURE_SECONDS:
            raise UpstreamCredentialsUnavailable("the provider returned no new token")
        return await self._refreshes.run((session_id, kinds), lambda: self._request_refresh(session_id, held, kinds))

    async def _request_refresh(self, session_id: str, held: SessionTokens, kinds: frozenset[str]) -> SessionTokens:
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                return await self._awaited(session_id, held, kinds)
        except TimeoutError:
            log.warning("upstream token refresh timed out", session_id=session_id)
        except NoIdentity:
            raise
        except GateError as error:
            log.warning("upstream token refresh failed", session_id=session_id, reason=str(error))
        self._failed.put(session_id, self._clock(), total_length(session_id))
        raise UpstreamCredentialsUnavailable("the provider returned no new token")

    async def _awaited(self, session_id: str, held: SessionTokens, kinds: frozenset[str]) -> SessionTokens:
        if self._broker is None:
            raise UpstreamCredentialsUnavailable("this process has no data broker")
        wish = TokenRefreshRequest(held.received).to_data()
        await self._broker.put(TOKEN_REFRESH_REQUEST, session_id, wish, expires=self._clock() + MAX_WAIT_SECONDS)
        for wait in backoff_delays(FIRST_PAUSE, MAX_PAUSE_SECONDS):
            await asyncio.sleep(wait)
            is_pending = await self._broker.get(TOKEN_REFRESH_REQUEST, session_id) is not None
            found, now = await self._read(session_id), self._clock()
            due = [kind for kind in kinds if found.is_due(kind, now)]
            if not due or all(found.cannot_be_refreshed(kind, now) for kind in due):
                return found
            if not is_pending:
                break
        raise UpstreamCredentialsUnavailable("the provider is unavailable or sent an invalid response")


def _token_expiry(id_token: str) -> float | None:
    """Return `exp` of an ID token, which was verified when it was received."""
    try:
        claims: dict[str, Any] = jwt.decode(id_token, options={"verify_signature": False}) if id_token else {}
    except jwt.PyJWTError:
        return None
    ends = claims.get("exp")
    return float(ends) if isinstance(ends, int | float) else None
