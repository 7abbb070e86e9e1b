"""Programmatic login: the sealed request of a client application, and the token that it receives.

They are not interchangeable with each other, with handoff tokens (`handoff.py`) or with session cookies, because each is sealed for a
purpose and an audience.
"""

from dataclasses import dataclass

from foundation.crypto.sealing import CryptoConfig, Sealer
from foundation.crypto.session_cookie import SessionToken

# Time for the user to read the page, sign in with a second factor, and decide.
REQUEST_LIFETIME = 900.0


@dataclass(frozen=True, slots=True)
class ProgrammaticRequest:
    """Request of a client application for access on behalf of a user, at the route host of `origin`.

    The token is sent to `redirect_uri`. `acr_values` and `max_age` (seconds) are requirements on the sign-in; `providers` restricts the
    identity providers, () for any.
    """

    origin: str
    redirect_uri: str
    acr_values: tuple[str, ...] = ()
    max_age: int | None = None
    providers: tuple[str, ...] = ()


class ProgrammaticRequests:
    """Sealed requests, passed from the sign-in page to the consent page on the authenticate host."""

    def __init__(self, options: CryptoConfig):
        self._sealer = Sealer(options.cookie_secret, "programmatic request")
        self._audience = options.authenticate_service_url.host_port

    def seal(self, request: ProgrammaticRequest, now: float) -> str:
        claims = {"at": request.origin, "to": request.redirect_uri, "acr": list(request.acr_values), "age": request.max_age}
        claims |= {"idp": list(request.providers)}
        return self._sealer.seal(claims, audience=self._audience, expires_at=now + REQUEST_LIFETIME)

    def open(self, sealed: str, now: float) -> ProgrammaticRequest:
        claims = self._sealer.open(sealed, audience=self._audience, now=now)
        return ProgrammaticRequest(claims["at"], claims["to"], tuple(claims["acr"]), claims["age"], tuple(claims.get("idp", ())))


class ProgrammaticTokens:
    """Tokens of client applications: the session of the user who authorized it, for one route host regardless of `cookie_domain`."""

    def __init__(self, options: CryptoConfig):
        self._sealer = Sealer(options.cookie_secret, "programmatic token")

    def seal(self, session_id: str, host_port: str, issued_at: float, expires_at: float) -> str:
        return self._sealer.seal({"sid": session_id, "iat": issued_at, "exp": expires_at}, audience=host_port, expires_at=expires_at)

    def open(self, token: str, host_port: str, now: float) -> SessionToken:
        """Open a token. Raise SealError if it is forged, for another host, or expired."""
        claims = self._sealer.open(token, audience=host_port, now=now)
        return SessionToken(claims["sid"], claims["iat"], claims["exp"])
