"""Session cookie: its content, the hosts it is valid for, and how it is set and cleared."""

import hmac
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import structlog

from foundation.bounded_cache import MIB, BoundedCache, total_length
from foundation.crypto import cookies
from foundation.crypto.sealing import CryptoConfig, SealedValueExpired, Sealer, derive_keys, to_text
from foundation.errors import SealError

log = structlog.get_logger(__name__)
T = TypeVar("T")

# Length below which a value cannot be a sealed session; skipping it bounds the work when a sibling domain plants cookies.
MIN_SEALED_LENGTH = 60
# Opened cookies in the cache, about 16 MB.
MAX_CACHED = 20_000
# Complete Cookie headers in the cache, because most requests of a browser repeat the header of the one before.
MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES = 8_000, 8 * MIB


@dataclass(frozen=True, slots=True)
class SessionToken:
    """Content of a session cookie; times are Unix seconds. The user is stored in the data broker only."""

    session_id: str
    issued_at: float
    expires_at: float


# enforcement-point: Identity: Session cookie
class SessionCookies:
    """Seals, opens, sets and clears session cookies (docs/decisions/cookies.md).

    A cookie is bound to the host it was issued for, or to `cookie_domain` if that covers the host. It is valid only together with its
    binding cookie: a MAC over session and host in a `__Host-` cookie, which no other host can set. A session cookie whose name has the
    `__Host-` prefix needs none, and without `cookie_secure` there is none.
    """

    def __init__(self, options: CryptoConfig):
        self.name = options.cookie_name
        self._raw_name = options.cookie_name.encode()
        self._domain = options.cookie_domain.lstrip(".").lower() if options.cookie_domain else ""
        self._secure = options.cookie_secure
        self._http_only = options.cookie_http_only
        self._sealer = Sealer(options.cookie_secret, "session cookie")
        host_name = cookies.host_prefixed_name(self.name, secure=self._secure)
        self.binding_name = host_name if host_name != self.name else ""
        self._raw_binding_name = self.binding_name.encode()
        # The label predates the name "binding cookie"; another one would invalidate all cookies.
        self._binding_keys = derive_keys(options.cookie_secret, "companion of a session cookie")
        self._opened: OrderedDict[tuple[str, str], _OpenedCookie] = OrderedDict()
        self._sessions_by_headers: BoundedCache[tuple[tuple[bytes, ...], str], _ValidSessions] = BoundedCache(
            MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES
        )

    def __repr__(self) -> str:
        return f"<SessionCookies {self.name}>"

    def audience(self, host_port: str) -> str:
        return f"domain:{self._domain}" if self.covers(host_port) else f"host:{host_port}"

    def covers(self, host_port: str) -> bool:
        """Return whether `cookie_domain` covers this host; otherwise the cookie is host-only."""
        host = host_port.rsplit(":", 1)[0]
        return bool(self._domain) and (host == self._domain or host.endswith("." + self._domain))

    def seal(self, session_id: str, host_port: str, issued_at: float, expires_at: float) -> str:
        return self._sealer.seal(
            {"sid": session_id, "iat": issued_at, "exp": expires_at}, audience=self.audience(host_port), expires_at=expires_at
        )

    def open(self, value: str, host_port: str, now: float) -> SessionToken:
        """Return the token. Raise SealError if the value is forged, for another host, or expired."""
        return self._open_cached(value, host_port, now).token

    async def find_only_session(
        self, cookie_headers: Iterable[bytes], host_port: str, now: float, find: Callable[[str, float], Awaitable[T | None]]
    ) -> T | None:
        """Return the result of `find(session_id, now)` for the only valid session; None if there is none, or more than one.

        `find` returns the live session or a value derived from it, such as an identity, and None if it has ended.
        Two live sessions are rejected, because without binding cookies either may be planted.
        """
        found = []
        for session_id in dict.fromkeys([token.session_id for token in self.valid_sessions(cookie_headers, host_port, now)]):
            if (live := await find(session_id, now)) is not None:
                found.append(live)
        if len(found) > 1:
            log.warning("ambiguous session cookies ignored", host=host_port)
        return found[0] if len(found) == 1 else None

    def valid_sessions(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Sequence[SessionToken]:
        """Return the sessions of all cookies that open at this host and have their binding cookie.

        Cached by the exact headers and the host. Requests without a valid session are not cached, so they cannot fill the cache.
        """
        cache_key = (tuple(cookie_headers), host_port)
        cached = self._sessions_by_headers.get(cache_key)
        if cached is not None and now < cached.expires_at:
            return cached.tokens
        tokens = self._compute_valid(*cache_key, now)
        if tokens:
            expires_at = min(token.expires_at for token in tokens)
            self._sessions_by_headers.put(
                cache_key,
                _ValidSessions(tokens, expires_at),
                total_length(*cache_key) + total_length(*(token.session_id for token in tokens)),
            )
        return tokens

    def _compute_valid(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Sequence[SessionToken]:
        pairs = cookies.parse(cookie_headers)
        opened = self._open_all(pairs, host_port, now)
        if not self.binding_name or not opened:
            return [each.token for each in opened]
        bindings = [value for name, value in pairs if name == self._raw_binding_name]
        return [each.token for each in opened if any(each.is_bound_by(value) for value in bindings)]

    def all_session_ids(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> list[str]:
        """Return the ids of all sessions whose cookies open here, even without binding cookie. Only sign-out uses them."""
        opened = self._open_all(cookies.parse(cookie_headers), host_port, now)
        return list(dict.fromkeys(each.token.session_id for each in opened))

    def set_cookies(self, session_id: str, host_port: str, *, issued_at: float, expires_at: float, now: float) -> list[str]:
        """Return the Set-Cookie values of the session and its binding."""
        value, max_age = self.seal(session_id, host_port, issued_at, expires_at), max(0, int(expires_at - now))
        return [
            self._cookie(value, host_port, max_age),
            *self._binding_cookie(self._binding_values(session_id, host_port)[0].decode(), max_age),
        ]

    def clear_cookies(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        """Return Set-Cookie values that delete the cookies of `set_cookies` (RFC 6265 5.3) and conflicting ones of other hosts."""
        return [self._cookie("", host_port, 0), *self._binding_cookie("", 0), *self.clear_conflicting(cookie_headers, host_port, path)]

    def clear_conflicting(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        """Return Set-Cookie values that delete all session cookies if the request for `path` has several, else an empty list.

        Without binding cookies, two valid session cookies would lock the browser out until one expires.
        """
        if cookies.is_host_prefixed(self.name) or sum(name == self._raw_name for name, _ in cookies.parse(cookie_headers)) < 2:
            return []
        return cookies.expire_all_paths(self.name, host_port, path, secure=self._secure)

    def _open_all(self, pairs: Iterable[tuple[bytes, bytes]], host_port: str, now: float) -> list["_OpenedCookie"]:
        """Open all session cookies and return those that are valid.

        Browsers send cookies with longer paths first (RFC 6265 5.4), so a sibling domain can plant any number before the genuine one. The
        listener's header limit bounds the work.
        """
        found = []
        for name, value in pairs:
            if name == self._raw_name and len(value) >= MIN_SEALED_LENGTH and value.isascii():
                with suppress(SealError):
                    found.append(self._open_cached(value.decode("ascii"), host_port, now))
        return found

    def _open_cached(self, value: str, host_port: str, now: float) -> "_OpenedCookie":
        """Open a value through a cache keyed by value and host, so that each cookie is decrypted once.

        Only valid cookies are cached, so forged ones cannot fill the cache. A reload creates a new object with a new cache and keys.
        """
        opened = self._opened.get((value, host_port))
        if opened is None:
            return self._open(value, host_port, now)
        if now >= opened.token.expires_at:
            del self._opened[value, host_port]
            raise SealedValueExpired("this token has expired")
        self._opened.move_to_end((value, host_port))
        return opened

    def _open(self, value: str, host_port: str, now: float) -> "_OpenedCookie":
        claims = self._sealer.open(value, audience=self.audience(host_port), now=now)
        token = SessionToken(claims["sid"], claims["iat"], claims["exp"])
        opened = self._opened[value, host_port] = _OpenedCookie(token, self._binding_values(token.session_id, host_port))
        if len(self._opened) > MAX_CACHED:
            self._opened.popitem(last=False)
        return opened

    def _binding_values(self, session_id: str, host_port: str) -> tuple[bytes, ...]:
        """Return the binding value under each key; the first is for new cookies. It names this host even with `cookie_domain`."""
        bound = json.dumps([session_id, host_port]).encode()
        return tuple(to_text(hmac.digest(key, bound, "sha256")).encode() for key in self._binding_keys)

    def _cookie(self, value: str, host_port: str, max_age: int) -> str:
        domain = self._domain if self.covers(host_port) else ""
        return cookies.set_cookie(self.name, value, max_age=max_age, secure=self._secure, http_only=self._http_only, domain=domain)

    def _binding_cookie(self, value: str, max_age: int) -> list[str]:
        return [cookies.set_cookie(self.binding_name, value, max_age=max_age, secure=True)] if self.binding_name else []


@dataclass(frozen=True, slots=True)
class _ValidSessions:
    """Valid sessions of one Cookie header, until the first of them expires."""

    tokens: Sequence[SessionToken]
    expires_at: float


@dataclass(frozen=True, slots=True)
class _OpenedCookie:
    token: SessionToken
    binding_values: tuple[bytes, ...]

    def is_bound_by(self, value: bytes) -> bool:
        return any(hmac.compare_digest(value, binding) for binding in self.binding_values)
