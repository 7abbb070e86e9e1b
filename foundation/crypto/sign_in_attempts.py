"""Sign-in attempts that a browser has under way, each in a sealed cookie of its own: nothing is kept on the server.

Two purposes, never interchangeable: `route` (this browser asked for a page of that route host) and `provider` (this browser
was sent to the identity provider with that state, nonce and verifier).
"""

import secrets
from collections.abc import Iterable
from typing import Any, Literal

from foundation.crypto import cookies
from foundation.crypto.sealing import CryptoConfig, Sealer
from foundation.errors import SealError

LIFETIME = 600.0
MAX_CONCURRENT = 8
# Together they stay well below our listener's limit for one header (16 KiB), so that no number of tabs locks a browser out.
MAX_BYTES = 8 * 1024
# Planted junk may be more than one answer should clear away; the next answer goes on.
MAX_DELETIONS = 20
ID_CHARACTERS = 22  # 16 random bytes as base64


class SignInAttempts:
    def __init__(self, options: CryptoConfig, purpose: Literal["route", "provider"]):
        # Who could plant one could bring a browser that asked for nothing to the end of a sign-in that the planter began.
        self._prefix = cookies.host_prefixed_name(f"{options.cookie_name}_signin_", secure=options.cookie_secure)
        self._secure = options.cookie_secure
        self._sealer = Sealer(options.cookie_secret, f"sign-in attempt/{purpose}")

    def start(self, claims: dict[str, Any], host_port: str, cookie_headers: Iterable[bytes], now: float) -> tuple[str, list[str]]:
        """(attempt id, Set-Cookie values): the new attempt, and the deletion of the oldest where the browser has too many."""
        attempt_id = secrets.token_urlsafe(16)
        value = self._sealer.seal({"at": now, **claims}, audience=self._audience(attempt_id, host_port), expires_at=now + LIFETIME)
        set_cookies = [self._cookie(attempt_id, value, int(LIFETIME))]
        set_cookies += [
            self._cookie(stale, "", 0) for stale in self._stale_ids(cookie_headers, host_port, now, room=MAX_BYTES - len(value))
        ]
        return attempt_id, set_cookies

    def find(self, attempt_id: str, cookie_headers: Iterable[bytes], host_port: str, now: float) -> dict[str, Any] | None:
        """The claims of this browser's attempt; None where it has no such attempt, or the attempt is too old."""
        name = (self._prefix + attempt_id).encode()
        for cookie, value in cookies.parse(cookie_headers):
            if cookie == name and (claims := self._opened(attempt_id, value, host_port, now)) is not None:
                return claims
        return None

    def active_ids(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> list[str]:
        """Ids of this browser's attempts, the newest ones of too many."""
        return [attempt_id for at, attempt_id, _ in self._carried(cookie_headers, host_port, now) if at][-MAX_CONCURRENT:]

    def clear(self, attempt_id: str) -> str:
        return self._cookie(attempt_id, "", 0)

    def _carried(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> list[tuple[float, str, int]]:
        """(time of its beginning, id, size) of each attempt in these cookies, oldest first; 0 is the time of one that is none of ours."""
        prefix = self._prefix.encode()
        found: list[tuple[float, str, int]] = []
        for name, value in cookies.parse(cookie_headers):
            attempt_id = name[len(prefix) :].decode("ascii", "replace")
            if not name.startswith(prefix) or not is_attempt_id(attempt_id):
                continue
            claims = self._opened(attempt_id, value, host_port, now)
            found.append((claims.get("at", 0.0) if claims is not None else 0.0, attempt_id, len(value)))
        return sorted(found)

    def _stale_ids(self, cookie_headers: Iterable[bytes], host_port: str, now: float, *, room: int) -> list[str]:
        kept = self._carried(cookie_headers, host_port, now)
        stale = []
        while kept and (len(kept) >= MAX_CONCURRENT or sum(size for _, _, size in kept) > room):
            stale.append(kept.pop(0)[1])
        return stale[:MAX_DELETIONS]

    def _opened(self, attempt_id: str, value: bytes, host_port: str, now: float) -> dict[str, Any] | None:
        try:
            return self._sealer.open(value.decode("ascii"), audience=self._audience(attempt_id, host_port), now=now)
        except (SealError, UnicodeDecodeError):
            return None

    def _audience(self, attempt_id: str, host_port: str) -> str:
        return f"{attempt_id}@{host_port}"

    def _cookie(self, attempt_id: str, value: str, max_age: int) -> str:
        # Host-only even with cookie_domain: an attempt belongs to the one host that it returns to.
        return cookies.set_cookie(self._prefix + attempt_id, value, max_age=max_age, secure=self._secure)


def is_attempt_id(text: str) -> bool:
    return len(text) == ID_CHARACTERS and text.isascii() and text.replace("-", "").replace("_", "").isalnum()
