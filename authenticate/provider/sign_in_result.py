"""Result of a sign-in at a provider."""

from dataclasses import dataclass

from authenticate.provider.tokens.token_response import Tokens
from databroker.records import UserRecord
from foundation.errors import BadRequest


@dataclass(frozen=True, slots=True)
class SignInResult:
    """A completed sign-in: the user, the id of their provider, and the tokens of the session."""

    user: UserRecord
    provider: str
    subject: str
    tokens: Tokens
    userinfo_claims: tuple[str, ...] = ()  # names of the claims that userinfo returned, stored with the session


class ProviderMismatch(BadRequest):
    """The sign-in started at a provider that is no longer configured. `issuer` is None if unknown."""

    def __init__(self, issuer: str | None):
        super().__init__(f"the sign-in started at {issuer or 'an unnamed provider'}, which is no longer configured")
