"""CSRF tokens for gate's own forms and sign-out links."""

import hmac
import secrets
from collections.abc import Iterable

from foundation.crypto import cookies
from foundation.crypto.sealing import CryptoConfig, Sealer, from_text, to_text
from foundation.errors import SealError

LIFETIME = 12 * 3600.0
TOKEN_BYTES = 32
FIELD = "_gate_csrf"
HEADER = "X-CSRF-Token"


class CsrfTokens:
    """CSRF tokens: a random value in a sealed cookie; each page gets a freshly masked copy (against BREACH)."""

    def __init__(self, options: CryptoConfig):
        self.cookie_name = cookies.host_prefixed_name(f"{options.cookie_name}_csrf", secure=options.cookie_secure)
        self._secure = options.cookie_secure
        self._sealer = Sealer(options.cookie_secret, "csrf cookie")

    def token_for(self, cookie_headers: Iterable[bytes], now: float, *, bound_to: str = "") -> tuple[str, str | None]:
        """Return the masked token for a page and a Set-Cookie value or None.

        `bound_to` is the session id, so that the token is invalid in other sessions.
        """
        token = self._from_cookie(cookie_headers, now, bound_to)
        set_cookie = None
        if token is None:
            token = secrets.token_bytes(TOKEN_BYTES)
            value = self._sealer.seal({"t": to_text(token)}, audience=bound_to, expires_at=now + LIFETIME)
            set_cookie = cookies.set_cookie(self.cookie_name, value, max_age=int(LIFETIME), secure=self._secure)
        pad = secrets.token_bytes(TOKEN_BYTES)
        return to_text(pad + _xor(pad, token)), set_cookie

    def clear(self) -> str:
        return cookies.set_cookie(self.cookie_name, "", max_age=0, secure=self._secure)

    def check(self, masked_token: str, cookie_headers: Iterable[bytes], now: float, *, bound_to: str = "") -> bool:
        token = self._from_cookie(cookie_headers, now, bound_to)
        try:
            masked = from_text(masked_token)
        except ValueError:
            return False
        if token is None or len(masked) != 2 * TOKEN_BYTES:
            return False
        return hmac.compare_digest(_xor(masked[:TOKEN_BYTES], masked[TOKEN_BYTES:]), token)

    def _from_cookie(self, cookie_headers: Iterable[bytes], now: float, bound_to: str) -> bytes | None:
        for name, value in cookies.parse(cookie_headers):
            if name == self.cookie_name.encode():
                try:
                    return from_text(self._sealer.open(value.decode("ascii"), audience=bound_to, now=now)["t"])
                except (SealError, UnicodeDecodeError):
                    continue
        return None


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
