"""The session cookie: what it holds, for whom it is valid, and how it is set and cleared."""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from gateproject.config.options import Options
from gateproject.crypto import cookies
from gateproject.crypto.sealing import Expired, Sealer

# Nothing shorter is a sealed session; skipping it keeps the work small when a sibling domain plants cookies of our name.
SHORTEST = 60
# Opened cookies that are remembered: about 12 MB.
MOST_OPENED = 20_000


@dataclass(frozen=True, slots=True)
class SessionToken:
    """What a session cookie says; times are Unix seconds.  Who the session belongs to stays in the data broker."""

    session_id: str
    issued: float
    expires: float


class SessionCookies:
    """Seals and opens session cookies.  A cookie is bound to the host it was issued for, or to `cookie_domain` where that covers it."""

    def __init__(self, options: Options):
        self.name = options.cookie_name
        self._raw_name = options.cookie_name.encode()
        self._domain = options.cookie_domain.lstrip(".").lower() if options.cookie_domain else ""
        self._secure = options.cookie_secure
        self._http_only = options.cookie_http_only
        self._sealer = Sealer(options.cookie_secret, "session cookie")
        self._opened: OrderedDict[tuple[str, str], SessionToken] = OrderedDict()

    def __repr__(self) -> str:
        return f"<SessionCookies {self.name}>"

    def audience(self, host_port: str) -> str:
        return f"domain:{self._domain}" if self.covers(host_port) else f"host:{host_port}"

    def covers(self, host_port: str) -> bool:
        """Does `cookie_domain` cover this host?  Elsewhere the cookie is host-only."""
        host = host_port.rsplit(":", 1)[0] if not host_port.endswith("]") else host_port
        return bool(self._domain) and (host == self._domain or host.endswith("." + self._domain))

    def seal(self, session_id: str, host_port: str, issued: float, expires: float) -> str:
        return self._sealer.seal({"sid": session_id, "iat": issued, "exp": expires}, audience=self.audience(host_port), expires=expires)

    def open(self, value: str, host_port: str, now: float) -> SessionToken:
        """SealError where the value is not one of ours for this host, or has expired.

        What was opened is remembered by the exact value and its audience, so that one browser's cookie is decrypted once; only what
        opened is, so nobody else's values fill the memory.  A reload makes another object, which trusts only the keys of its own.
        """
        audience = self.audience(host_port)
        token = self._opened.get((value, audience))
        if token is None:
            return self._open(value, audience, now)
        if now >= token.expires:
            del self._opened[value, audience]
            raise Expired("this value has expired")
        self._opened.move_to_end((value, audience))
        return token

    def _open(self, value: str, audience: str, now: float) -> SessionToken:
        claims = self._sealer.open(value, audience=audience, now=now)
        token = self._opened[value, audience] = SessionToken(claims["sid"], claims["iat"], claims["exp"])
        if len(self._opened) > MOST_OPENED:
            self._opened.popitem(last=False)
        return token

    def read(self, cookie_headers: Iterable[bytes]) -> list[str]:
        """Every value under our name that may be a session, in the order sent.

        All of them are tried: browsers send cookies with longer paths first (RFC 6265 5.4), so a sibling domain can plant any
        number in front of the real one.  The listener's limit on headers bounds the work.
        """
        values = []
        for name, value in cookies.parse(cookie_headers):
            if name == self._raw_name and len(value) >= SHORTEST and value.isascii():
                values.append(value.decode("ascii"))
        return values

    def set_cookie(self, value: str, host_port: str, expires: float, now: float) -> str:
        return self._cookie(value, host_port, max(0, int(expires - now)))

    def clear_cookie(self, host_port: str) -> str:
        """Deletes by the same name, path and domain that `set_cookie` used (RFC 6265 5.3)."""
        return self._cookie("", host_port, 0)

    def _cookie(self, value: str, host_port: str, max_age: int) -> str:
        domain = self._domain if self.covers(host_port) else ""
        return cookies.set_cookie(self.name, value, max_age=max_age, secure=self._secure, http_only=self._http_only, domain=domain)
