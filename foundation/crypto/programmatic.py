"""Programmatic login: what a program and its person carry between our services, and the token that the program keeps.

The values, and the hand-over between them (`hand_over.py`), are never interchangeable, nor with a session cookie: each is sealed for its
own purpose and audience.
"""

from dataclasses import dataclass

from foundation.crypto.sealing import CryptoConfig, Sealer
from foundation.crypto.session_cookie import SessionToken

# A person reads, signs in with a second factor, and answers.
REQUEST_LIFETIME = 900.0


@dataclass(frozen=True, slots=True)
class ProgrammaticRequest:
    """A program's request to act for whoever agrees: at the route host of `origin`; `redirect_uri` is where its token goes.

    `acr_values` and `max_age`, in seconds, are what the sign-in behind the token must come up to; `providers` are those whose people are
    taken there, () for any.
    """

    origin: str
    redirect_uri: str
    acr_values: tuple[str, ...] = ()
    max_age: int | None = None
    providers: tuple[str, ...] = ()


class ProgrammaticRequests:
    """Sealed requests from the sign-in page to the page that asks the person; both are the authenticate host's."""

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
    """Tokens of programs: the session of the person who agreed, for one route host, whatever `cookie_domain` says."""

    def __init__(self, options: CryptoConfig):
        self._sealer = Sealer(options.cookie_secret, "programmatic token")

    def seal(self, session_id: str, host_port: str, issued_at: float, expires_at: float) -> str:
        return self._sealer.seal({"sid": session_id, "iat": issued_at, "exp": expires_at}, audience=host_port, expires_at=expires_at)

    def open(self, token: str, host_port: str, now: float) -> SessionToken:
        """The opened token; SealError where it is not one of ours for this host, or has expired."""
        claims = self._sealer.open(token, audience=host_port, now=now)
        return SessionToken(claims["sid"], claims["iat"], claims["exp"])
