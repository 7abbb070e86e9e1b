"""Result of a sign-in at a provider."""

from dataclasses import dataclass

from authenticate.provider.token_response import Tokens
from databroker.records import UserRecord
from foundation.errors import BadRequest


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A completed sign-in: the person, whose provider it is, and the tokens of the session."""

    user: UserRecord
    provider: str
    subject: str
    tokens: Tokens
    userinfo_claims: tuple[str, ...] = ()  # as the session remembers them


class AskedAnother(BadRequest):
    """Response to a sign-in that was started at a provider which is no longer configured; `asked` is its id, None if unknown."""

    def __init__(self, asked: str | None):
        super().__init__(f"the sign-in started at {asked or 'an unnamed provider'}, which is no longer configured")
