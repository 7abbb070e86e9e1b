"""Session cookie: what it holds, for whom it is valid, and how it is set and cleared."""

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

# Nothing shorter is a sealed session; skipping it keeps the work small when a sibling domain plants cookies of our name.
MIN_SEALED_LENGTH = 60
# Opened cookies that are remembered: about 16 MB.
MAX_CACHED = 20_000
# Whole Cookie headers whose sessions are known: nearly every request of a browser carries the same as the one before.
MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES = 8_000, 8 * MIB


@dataclass(frozen=True, slots=True)
class SessionToken:
    """The content of a session cookie; times are Unix seconds.  Who the session belongs to stays in the data broker."""

    session_id: str
    issued_at: float
    expires_at: float


# enforcement-point: Identity: Session cookie
class SessionCookies:
    """Seals, opens, sets and clears session cookies.  One is bound to the host it was issued for, or to `cookie_domain` where that
    covers it, and counts beside its companion only (docs/decisions/cookies.md).

    The companion names the session and the host, under a key of ours, in a cookie that no other host can set.  Where the name of the
    session cookie itself has the prefix of those, it needs none; without `cookie_secure` there can be none.
    """

    def __init__(self, options: CryptoConfig):
        self.name = options.cookie_name
        self._raw_name = options.cookie_name.encode()
        self._domain = options.cookie_domain.lstrip(".").lower() if options.cookie_domain else ""
        self._secure = options.cookie_secure
        self._http_only = options.cookie_http_only
        self._sealer = Sealer(options.cookie_secret, "session cookie")
        companion = cookies.host_prefixed_name(self.name, secure=self._secure)
        self.binding_name = companion if companion != self.name else ""
        self._raw_companion_name = self.binding_name.encode()
        self._companion_keys = derive_keys(options.cookie_secret, "companion of a session cookie")
        self._opened: OrderedDict[tuple[str, str], _OpenedCookie] = OrderedDict()
        self._known: BoundedCache[tuple[tuple[bytes, ...], str], _ValidSessions] = BoundedCache(MAX_CACHED_HEADERS, MAX_CACHED_HEADER_BYTES)

    def __repr__(self) -> str:
        return f"<SessionCookies {self.name}>"

    def audience(self, host_port: str) -> str:
        return f"domain:{self._domain}" if self.covers(host_port) else f"host:{host_port}"

    def covers(self, host_port: str) -> bool:
        """Whether `cookie_domain` covers this host; elsewhere the cookie is host-only."""
        host = host_port.rsplit(":", 1)[0]
        return bool(self._domain) and (host == self._domain or host.endswith("." + self._domain))

    def seal(self, session_id: str, host_port: str, issued: float, expires: float) -> str:
        return self._sealer.seal({"sid": session_id, "iat": issued, "exp": expires}, audience=self.audience(host_port), expires_at=expires)

    def open(self, value: str, host_port: str, now: float) -> SessionToken:
        """The token; SealError where the value is not one of ours for this host, or has expired."""
        return self._open_cached(value, host_port, now).token

    async def active_session(
        self, cookie_headers: Iterable[bytes], host_port: str, now: float, find: Callable[[str, float], Awaitable[T | None]]
    ) -> T | None:
        """The result of `find`, of an id and `now`, for the one live session that counts here; it says None of a session that has ended.

        Two that differ count as none: without companions nobody can tell which of them was planted.
        """
        found = []
        for session_id in dict.fromkeys([token.session_id for token in self.valid_sessions(cookie_headers, host_port, now)]):
            if (live := await find(session_id, now)) is not None:
                found.append(live)
        if len(found) > 1:
            log.warning("ambiguous session cookies ignored", host=host_port)
        return found[0] if len(found) == 1 else None

    def valid_sessions(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Sequence[SessionToken]:
        """The sessions of the cookies that open here and have their companion.

        Remembered by the exact headers and the host, which it follows from; only where some count, so nobody else's fill the memory.
        """
        browser = (tuple(cookie_headers), host_port)
        known = self._known.get(browser)
        if known is not None and now < known.until:
            return known.tokens
        tokens = self._compute_valid(*browser, now)
        if tokens:
            until = min(token.expires_at for token in tokens)
            self._known.put(
                browser, _ValidSessions(tokens, until), total_length(*browser) + total_length(*(token.session_id for token in tokens))
            )
        return tokens

    def _compute_valid(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> Sequence[SessionToken]:
        pairs = cookies.parse(cookie_headers)
        opened = self._open_all(pairs, host_port, now)
        if not self.binding_name or not opened:
            return [each.token for each in opened]
        companions = [value for name, value in pairs if name == self._raw_companion_name]
        return [each.token for each in opened if any(each.has_companion(value) for value in companions)]

    def all_session_ids(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> list[str]:
        """The ids of all sessions whose cookies open here, companion or not: nobody acts by them, but who signs out ends them."""
        opened = self._open_all(cookies.parse(cookie_headers), host_port, now)
        return list(dict.fromkeys(each.token.session_id for each in opened))

    def set_cookies(self, session_id: str, host_port: str, *, issued_at: float, expires_at: float, now: float) -> list[str]:
        """Set-Cookie values: the session, and its companion."""
        value, max_age = self.seal(session_id, host_port, issued_at, expires_at), max(0, int(expires_at - now))
        return [
            self._cookie(value, host_port, max_age),
            *self._binding_cookie(self._binding_values(session_id, host_port)[0].decode(), max_age),
        ]

    def clear_cookies(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        """Set-Cookie values that delete the cookies that `set_cookies` made, by the same name, path and domain (RFC 6265 5.3), and those
        that others have set."""
        return [self._cookie("", host_port, 0), *self._binding_cookie("", 0), *self.clear_conflicting(cookie_headers, host_port, path)]

    def clear_conflicting(self, cookie_headers: Iterable[bytes], host_port: str, path: str) -> list[str]:
        """Set-Cookie values for who is not signed in: none, or where the request for `path` carried several cookies of our name, the end
        of all of them.  Without companions two good ones would lock a browser out until one expires."""
        if cookies.is_host_prefixed(self.name) or sum(name == self._raw_name for name, _ in cookies.parse(cookie_headers)) < 2:
            return []
        return cookies.expire_all_paths(self.name, host_port, path, secure=self._secure)

    def _open_all(self, pairs: Iterable[tuple[bytes, bytes]], host_port: str, now: float) -> list["_OpenedCookie"]:
        """Tokens of all cookies that open: browsers send cookies with longer paths first (RFC 6265 5.4), so a sibling domain can plant
        any number in front of the real one.  The listener's limit on headers bounds the work.
        """
        found = []
        for name, value in pairs:
            if name == self._raw_name and len(value) >= MIN_SEALED_LENGTH and value.isascii():
                with suppress(SealError):
                    found.append(self._open_cached(value.decode("ascii"), host_port, now))
        return found

    def _open_cached(self, value: str, host_port: str, now: float) -> "_OpenedCookie":
        """Token by the exact value and its host, so that one browser's cookie is decrypted once; only what opened is remembered, so
        nobody else's values fill the memory.  A reload makes another object, which trusts only the keys of its own.
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
        """The companion's value under each key; the first is for what is made now.  The host is this one, `cookie_domain` or not."""
        told = json.dumps([session_id, host_port]).encode()
        return tuple(to_text(hmac.digest(key, told, "sha256")).encode() for key in self._companion_keys)

    def _cookie(self, value: str, host_port: str, max_age: int) -> str:
        domain = self._domain if self.covers(host_port) else ""
        return cookies.set_cookie(self.name, value, max_age=max_age, secure=self._secure, http_only=self._http_only, domain=domain)

    def _binding_cookie(self, value: str, max_age: int) -> list[str]:
        return [cookies.set_cookie(self.binding_name, value, max_age=max_age, secure=True)] if self.binding_name else []


@dataclass(frozen=True, slots=True)
class _ValidSessions:
    """Sessions that count together, until the first of them ends."""

    tokens: Sequence[SessionToken]
    until: float


@dataclass(frozen=True, slots=True)
class _OpenedCookie:
    token: SessionToken
    companions: tuple[bytes, ...]

    def has_companion(self, value: bytes) -> bool:
        return any(hmac.compare_digest(value, companion) for companion in self.companions)
