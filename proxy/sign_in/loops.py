"""Sign-in loops: a browser signs in repeatedly, because it does not send its session cookie."""

from collections.abc import Iterable
from typing import Any

from config.options import Options
from foundation.crypto import cookies
from foundation.crypto.sealing import Sealer
from foundation.errors import SealError

WINDOW = 30.0  # seconds
MAX_SIGN_INS = 3


class SignInLoops:
    """Counter of completed sign-ins, in a short-lived sealed cookie.

    It counts completed sign-ins, not started ones, because a browser that restores twenty tabs starts many at once.
    """

    def __init__(self, options: Options):
        self._name = cookies.host_prefixed_name(f"{options.cookie_name}_signin_count", secure=options.cookie_secure)
        self._secure = options.cookie_secure
        self._sealer = Sealer(options.cookie_secret, "sign-in count")

    def completion_cookie(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> str:
        """Return the Set-Cookie value after one more completed sign-in."""
        count = self._count(cookie_headers, host_port, now)
        value = self._sealer.seal({"n": count + 1}, audience=host_port, expires_at=now + WINDOW)
        return cookies.set_cookie(self._name, value, max_age=int(WINDOW), secure=self._secure)

    def is_looping(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> bool:
        return self._count(cookie_headers, host_port, now) >= MAX_SIGN_INS

    def clear_cookie(self) -> str:
        return cookies.set_cookie(self._name, "", max_age=0, secure=self._secure)

    def _count(self, cookie_headers: Iterable[bytes], host_port: str, now: float) -> int:
        for name, value in cookies.parse(cookie_headers):
            if name == self._name.encode():
                try:
                    claims: dict[str, Any] = self._sealer.open(value.decode("ascii"), audience=host_port, now=now)
                    return int(claims["n"])
                except (SealError, UnicodeDecodeError):
                    continue
        return 0
