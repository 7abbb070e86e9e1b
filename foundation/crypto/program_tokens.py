"""Programmatic login: what a program and its person carry between our services, and the token that the program keeps.

Three values, never interchangeable, nor with a session cookie: each is sealed for its own purpose and audience.
"""

import secrets
from dataclasses import dataclass

from foundation.crypto.sealing import CryptoSettings, Sealer
from foundation.crypto.session_cookie import SessionToken
from foundation.errors import SealError

PROGRAM_HAND_OVER_LIFETIME = 300.0
# A person reads, signs in with a second factor, and answers.
REQUEST_LIFETIME = 900.0


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """A program's request to act for whoever agrees: at the route host of `origin`; `redirect_uri` is where its token goes.

    `acr_values` and `max_age`, in seconds, are what the sign-in behind the token must come up to; `providers` are those whose people are
    taken there, () for any.
    """

    origin: str
    redirect_uri: str
    acr_values: tuple[str, ...] = ()
    max_age: int | None = None
    providers: tuple[str, ...] = ()


class ProgramRequests:
    """Sealed requests from the sign-in page to the page that asks the person; both are the authenticate host's."""

    def __init__(self, options: CryptoSettings):
        self._sealer = Sealer(options.cookie_secret, "programmatic request")
        self._audience = options.authenticate_service_url.host_port

    def seal(self, request: ProgramRequest, now: float) -> str:
        claims = {"at": request.origin, "to": request.redirect_uri, "acr": list(request.acr_values), "age": request.max_age}
        claims |= {"idp": list(request.providers)}
        return self._sealer.seal(claims, audience=self._audience, expires=now + REQUEST_LIFETIME)

    def open(self, sealed: str, now: float) -> ProgramRequest:
        claims = self._sealer.open(sealed, audience=self._audience, now=now)
        return ProgramRequest(claims["at"], claims["to"], tuple(claims["acr"]), claims["age"], tuple(claims.get("idp", ())))


@dataclass(frozen=True, slots=True)
class ProgramHandOver:
    """An opened hand-over.  Its receiver still has to spend `id`, see that the session lives, and look at `redirect_uri`."""

    id: str
    session_id: str
    redirect_uri: str
    expires: float


class ProgramHandOvers:
    """Hand-overs from the authenticate service to the callback of a route host, after the person has agreed."""

    def __init__(self, options: CryptoSettings):
        self._sealer = Sealer(options.shared_secret, "programmatic hand-over")

    def seal(self, session_id: str, host_port: str, redirect_uri: str, now: float) -> str:
        expires = now + PROGRAM_HAND_OVER_LIFETIME
        claims = {"id": secrets.token_urlsafe(16), "sid": session_id, "to": redirect_uri, "exp": expires}
        return self._sealer.seal(claims, audience=host_port, expires=expires)

    def open(self, token: str, host_port: str, now: float) -> ProgramHandOver:
        claims = self._sealer.open(token, audience=host_port, now=now)
        return ProgramHandOver(claims["id"], claims["sid"], claims["to"], claims["exp"])


class ProgramTokens:
    """Tokens of programs: the session of the person who agreed, for one route host, whatever `cookie_domain` says."""

    def __init__(self, options: CryptoSettings):
        self._sealer = Sealer(options.cookie_secret, "programmatic token")

    def seal(self, session_id: str, host_port: str, issued: float, expires: float) -> str:
        return self._sealer.seal({"sid": session_id, "iat": issued, "exp": expires}, audience=host_port, expires=expires)

    def open(self, token: str, host_port: str, now: float) -> SessionToken | None:
        """The opened token; None where it is not one of ours for this host, or has expired."""
        try:
            return self.opened(token, host_port, now)
        except SealError:
            return None

    def opened(self, token: str, host_port: str, now: float) -> SessionToken:
        """The opened token; SealError where `open` is None."""
        claims = self._sealer.open(token, audience=host_port, now=now)
        return SessionToken(claims["sid"], claims["iat"], claims["exp"])
