"""Token response (RFC 6749 section 5): tokens, InvalidGrant, or another ProviderError."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from authenticate.provider.provider_http import ProviderResponse
from foundation.errors import ProviderError

MAX_TOKEN = 64 * 1024
MAX_SCOPE = 8192
MAX_ERROR_TEXT = 300  # characters of a provider's error description in a log or page
MAX_EXPIRES_IN = 10 * 365 * 86400.0
# RFC 6749 5.2, and GitHub's two codes for it.
_INVALID_GRANT_CODES = frozenset({"invalid_grant", "bad_verification_code", "bad_refresh_token"})
# One parameter of a challenge (RFC 9110 11.2). A quoted value matches completely, so that its content is not parsed as parameters.
_PARAMETER = re.compile(r'([A-Za-z_]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')


class InvalidGrant(ProviderError):
    """The provider permanently rejects the code or refresh token (RFC 6749 `invalid_grant`)."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one response; a missing token is "".

    `expires_at` is when the access token expires, in Unix seconds; None if the provider does not report it.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    id_token: str = field(repr=False)
    expires_at: float | None
    scope: str | None = None  # as the provider returns it; None means all requested scopes (RFC 6749 5.1)


# enforcement-point: Sign-in and sign-out: Token endpoint response
def parse(answer: ProviderResponse, now: float, *, needs_id_token: bool) -> Tokens:
    error = error_code(answer)
    # Auth0 sends this error with 403, GitHub with 200.
    if error in _INVALID_GRANT_CODES and answer.status < 500:
        raise InvalidGrant(f"the provider's token endpoint rejected the grant: {error_text(answer)}")
    if answer.status != 200 or error:
        raise ProviderError(f"the provider's token endpoint returned status {answer.status}: {error_text(answer)}")
    document = answer.json()
    tokens = Tokens(
        access_token=_token(document.get("access_token")),
        refresh_token=_token(document.get("refresh_token")),
        id_token=_token(document.get("id_token")),
        expires_at=_expiry(document.get("expires_in"), now),
        scope=_scope(document.get("scope")),
    )
    if not tokens.access_token or (needs_id_token and not tokens.id_token):
        raise ProviderError("the provider's token endpoint returned no ID token or no access token")
    if str(document.get("token_type", "")).lower() != "bearer":
        raise ProviderError("the provider's token endpoint returned an access token that is not of type Bearer")
    return tokens


def error_code(answer: ProviderResponse) -> str:
    """Return the response's `error`, "" if it is missing or malformed."""
    try:
        code = answer.json().get("error")
    except ProviderError:
        return ""
    return code if isinstance(code, str) and code.isascii() and code.isidentifier() else ""


def error_text(answer: ProviderResponse) -> str:
    """Return the provider's `error` and `error_description` for an operator: printable, bounded, without the request's secrets.

    A response without an error gives "no error code".
    """
    code = sanitize(error_code(answer), answer.secrets) or "no error code"
    try:
        description = sanitize(answer.json().get("error_description"), answer.secrets)
    except ProviderError:
        description = ""
    return f"{code} ({description})" if description else code


def sanitize(text: object, secrets: Iterable[str] = ()) -> str:
    """Return external text as one printable line of bounded length, "" if it is not a string."""
    if not isinstance(text, str):
        return ""
    for secret in sorted(secrets, key=len, reverse=True):  # longest first, because one may contain another
        text = text.replace(secret, "***")
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text[: 2 * MAX_ERROR_TEXT]).split())
    return line if len(line) <= MAX_ERROR_TEXT else line[: MAX_ERROR_TEXT - 3] + "..."


def bearer_error(answer: ProviderResponse) -> str:
    """Return the error code of a rejected bearer token from the challenge (RFC 6750 section 3) or the body; "" if neither has one."""
    for name, quoted, plain in _PARAMETER.findall(answer.headers.get("www-authenticate", "")):
        if name.lower() == "error":
            return quoted or plain
    return error_code(answer)


def _token(value: object) -> str:
    """Return a token of visible ASCII (RFC 6749 A.12), "" for anything else, because gate sends tokens in headers."""
    if not isinstance(value, str) or len(value) > MAX_TOKEN or not value.isascii() or not value.isprintable() or " " in value:
        return ""
    return value


def _scope(value: object) -> str | None:
    """Return the scopes (RFC 6749 5.1), also of a list, which a few providers return. Any other value is ignored."""
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        value = " ".join(value)
    return value[:MAX_SCOPE] if isinstance(value, str) and value.strip() else None


def _expiry(expires_in: object, now: float) -> float | None:
    """Return the expiry in Unix seconds. Some providers, Azure among them, have returned the number as a string."""
    seconds = int(expires_in) if isinstance(expires_in, str) and expires_in.isdecimal() and len(expires_in) < 12 else expires_in
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < MAX_EXPIRES_IN:
        return float(now + seconds)
    return None
