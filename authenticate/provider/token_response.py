"""Token response (RFC 6749 5): tokens, the word that the grant is over, or a ProviderError."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from authenticate.provider.provider_http import ProviderResponse
from foundation.errors import ProviderError

MAX_TOKEN = 64 * 1024
MAX_SCOPE = 8192
MAX_WORDS = 300  # characters of a provider's description that an operator is shown
MAX_EXPIRES_IN = 10 * 365 * 86400.0
# RFC 6749 5.2, and the two names that GitHub has for it.
_OVER = frozenset({"invalid_grant", "bad_verification_code", "bad_refresh_token"})
# One parameter of a challenge (RFC 9110 11.2); a quoted one as a whole, so that nothing in it is taken for the next.
_PARAMETER = re.compile(r'([A-Za-z_]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')


class GrantRefused(ProviderError):
    """A code or refresh token that the provider does not accept, and never will again."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one response; `expires` is the access token's end in Unix seconds, None where the provider does not say; "" is a
    token not given.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    id_token: str = field(repr=False)
    expires: float | None
    scope: str | None = None  # as the provider writes it; None where it says nothing, which means all that was asked for (RFC 6749 5.1)


# enforcement-point: Sign-in and sign-out: Token endpoint response
def parse(answer: ProviderResponse, now: float, *, needs_id_token: bool) -> Tokens:
    error = error_code(answer)
    # Auth0 says it with 403, GitHub with 200.
    if error in _OVER and answer.status < 500:
        raise GrantRefused(f"the provider's token endpoint rejected the grant: {error_text(answer)}")
    if answer.status != 200 or error:
        raise ProviderError(f"the provider's token endpoint returned status {answer.status}: {error_text(answer)}")
    document = answer.json()
    tokens = Tokens(
        access_token=_token(document.get("access_token")),
        refresh_token=_token(document.get("refresh_token")),
        id_token=_token(document.get("id_token")),
        expires=_expiry(document.get("expires_in"), now),
        scope=_scope(document.get("scope")),
    )
    if not tokens.access_token or (needs_id_token and not tokens.id_token):
        raise ProviderError("the provider's token endpoint returned no ID token or no access token")
    if str(document.get("token_type", "")).lower() != "bearer":
        raise ProviderError("the provider's token endpoint returned an access token that is not of type Bearer")
    return tokens


def error_code(answer: ProviderResponse) -> str:
    """The response's `error`, "" where it has none that could be one."""
    try:
        code = answer.json().get("error")
    except ProviderError:
        return ""
    return code if isinstance(code, str) and code.isascii() and code.isidentifier() else ""


def error_text(answer: ProviderResponse) -> str:
    """The provider's `error` and `error_description` for an operator, cleaned, bounded, and without the secrets that it was sent; "no
    error code" where it has none.
    """
    code = cleaned(error_code(answer), answer.secrets) or "no error code"
    try:
        description = cleaned(answer.json().get("error_description"), answer.secrets)
    except ProviderError:
        description = ""
    return f"{code} ({description})" if description else code


def cleaned(words: object, secrets: Iterable[str] = ()) -> str:
    """Text from outside as one printable line of bounded length, "" for what is no text."""
    if not isinstance(words, str):
        return ""
    for secret in sorted(secrets, key=len, reverse=True):  # one may be part of another
        words = words.replace(secret, "***")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in words[: 2 * MAX_WORDS]).split())
    return line if len(line) <= MAX_WORDS else line[: MAX_WORDS - 3] + "..."


def bearer_error(answer: ProviderResponse) -> str:
    """Error code of a refused bearer token: `error` of the challenge (RFC 6750 3), or of the response itself; "" where neither has it."""
    for name, quoted, plain in _PARAMETER.findall(answer.headers.get("www-authenticate", "")):
        if name.lower() == "error":
            return quoted or plain
    return error_code(answer)


def _token(value: object) -> str:
    """A token of visible ASCII (RFC 6749 A.12), "" for anything else, which would reach a header of ours."""
    if not isinstance(value, str) or len(value) > MAX_TOKEN or not value.isascii() or not value.isprintable() or " " in value:
        return ""
    return value


def _scope(value: object) -> str | None:
    """Scopes (RFC 6749 5.1); a few providers write a list (as RFC 8693 never said).  What is neither says nothing."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        value = " ".join(value)
    return value[:MAX_SCOPE] if isinstance(value, str) and value.strip() else None


def _expiry(expires_in: object, now: float) -> float | None:
    """Expiry in Unix seconds.  Azure and others have written the number as text."""
    seconds = int(expires_in) if isinstance(expires_in, str) and expires_in.isdecimal() and len(expires_in) < 12 else expires_in
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < MAX_EXPIRES_IN:
        return float(now + seconds)
    return None
