"""Pending sign-in attempts of a browser, each in a sealed cookie; the server stores nothing.

The purposes are not interchangeable: `route` (the browser requested a page of a route host), `provider` (the browser was redirected to
the identity provider with this state, nonce and verifier), and `upstream` (to the authorization server of a third-party MCP server).
"""

import secrets
from collections.abc import Iterable
from typing import Any, Literal

from foundation.crypto import cookies
from foundation.crypto.sealing import CryptoConfig, Sealer
from foundation.errors import SealError

LIFETIME = 600.0
MAX_CONCURRENT = 8
# Total, well below the listener's limit for one header (16 KiB), so that many open tabs do not lock a browser out.
MAX_BYTES = 8 * 1024
# Deletions in one response; further planted cookies are deleted by the next one.
MAX_DELETIONS = 20
ID_CHARACTERS = 22  # 16 random bytes as base64


class SignInAttempts:
    def __init__(self, options: CryptoConfig, purpose: Literal["route", "provider", "upstream"]):
        # With a planted attempt, an attacker could complete their own sign-in in the victim's browser (login CSRF).
        self._prefix = cookies.host_prefixed_name(f"{options.cookie_name}_signin_", secure=options.cookie_secure)
        self._secure = options.cookie_secure
        self._sealer = Sealer(options.cookie_secret, f"sign-in attempt/{purpose}")

    def start(self, claims: dict[str, Any], host_port: str, cookie_headers: Iterable[bytes], now: float) -> tuple[str, list[str]]:
        """Start an attempt; return its id and the Set-Cookie values, which also delete the oldest attempts above the limit."""
        attempt_id = secrets.token_urlsafe(16)
        value = self._sealer.seal({"at": now, **claims}, audience=self._audience(attempt_id, host_port), expires_at=now + LIFETIME)
        set_cookies = [self._cookie(attempt_id, value, int(LIFETIME))]
        set_cookies += [
            self._cookie(stale, "", 0) for stale in self._stale_ids(cookie_headers, host_port, now, room=MAX_BYTES - len(value))
        ]
        return attempt_id, set_cookies

    def find(self, attempt_id: str, cookie_headers: Iterable[bytes], host_port: str, now: float) -> dict[str, Any] | None:
        """Return the claims of the browser's attempt, or None if it is missing or expired."""
        name = (self._prefix + attempt_id).encode()
        for cookie, value in cookies.parse(cookie_headers):
            if cookie == name and (claims := self._open(attempt_id, value, host_port, now)) is not None:
                return claims
        return None

    def active_ids(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> list[str]:
        """Return the ids of the browser's attempts, at most the newest `MAX_CONCURRENT`."""
        return [attempt_id for started_at, attempt_id, _ in self._sent_attempts(cookie_headers, host_port, now) if started_at][
            -MAX_CONCURRENT:
        ]

    def clear_cookie(self, attempt_id: str) -> str:
        return self._cookie(attempt_id, "", 0)

    def _sent_attempts(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> list[tuple[float, str, int]]:
        """Return (start time, id, size) of each attempt cookie, oldest first; the time is 0 for invalid ones."""
        prefix = self._prefix.encode()
        attempts: list[tuple[float, str, int]] = []
        for name, value in cookies.parse(cookie_headers):
            attempt_id = name[len(prefix) :].decode("ascii", "replace")
            if not name.startswith(prefix) or not is_attempt_id(attempt_id):
                continue
            claims = self._open(attempt_id, value, host_port, now)
            attempts.append((claims.get("at", 0.0) if claims is not None else 0.0, attempt_id, len(value)))
        return sorted(attempts)

    def _stale_ids(self, cookie_headers: Iterable[bytes], host_port: str, now: float, *, room: int) -> list[str]:
        attempts = self._sent_attempts(cookie_headers, host_port, now)
        stale = []
        while attempts and (len(attempts) >= MAX_CONCURRENT or sum(size for _, _, size in attempts) > room):
            stale.append(attempts.pop(0)[1])
        return stale[:MAX_DELETIONS]

    def _open(self, attempt_id: str, value: bytes, host_port: str, now: float) -> dict[str, Any] | None:
        try:
            return self._sealer.open(value.decode("ascii"), audience=self._audience(attempt_id, host_port), now=now)
        except (SealError, UnicodeDecodeError):
            return None

    def _audience(self, attempt_id: str, host_port: str) -> str:
        return f"{attempt_id}@{host_port}"

    def _cookie(self, attempt_id: str, value: str, max_age: int) -> str:
        # Host-only even with cookie_domain, because an attempt belongs to one host.
        return cookies.set_cookie(self._prefix + attempt_id, value, max_age=max_age, secure=self._secure)


def is_attempt_id(text: str) -> bool:
    return len(text) == ID_CHARACTERS and text.isascii() and text.replace("-", "").replace("_", "").isalnum()
