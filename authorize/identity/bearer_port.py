"""Bearer port: whom a bearer token names, asked of authenticate/bearer_tokens.py; the roof brings the two together."""

from typing import Protocol

from databroker.records import SessionRecord, UserRecord
from foundation.challenges import RefusedToken


class TokenBearer(Protocol):
    """Person whom a good token names.  There is no record of the session: it ends with the token."""

    @property
    def session(self) -> SessionRecord: ...

    @property
    def user(self) -> UserRecord: ...


class BearerVerifier(Protocol):
    async def bearer_of(self, route_id: str, token: str, asker: str = "") -> TokenBearer | RefusedToken:
        """RefusedToken for one that this route does not take; ProviderError where nobody can tell.  While a token is remembered, the same
        object.  `asker` is the address that it came from, "" where that is in doubt."""
        ...
