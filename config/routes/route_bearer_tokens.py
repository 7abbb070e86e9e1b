"""Bearer tokens of a route: tokens that client applications present without a browser, and the checks of their settings."""

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, Field

from config.fields.basic_types import File, TextList, WebUrl, text
from config.fields.field_type import WEB_URL, FieldType, choice_type
from config.validation import Finding, Settings
from foundation.values import Url, WatchedFile, is_encrypted_or_local, parse_url

if TYPE_CHECKING:
    from config.routes.route import Route

ACCESS_TOKEN, ID_TOKEN, JWT = "idp_access_token", "idp_id_token", "jwt"
KINDS = (ACCESS_TOKEN, ID_TOKEN, JWT)
ANY_CLIENT = "*"
# Separates issuer and subject in the id of a user of `jwt`. No issuer contains it, so ids are unique.
ISSUER_SEPARATOR = "#"
# Claims that identify a user. The groups claim is `groups_claim`.
USER_CLAIMS = frozenset({"sub", "email"})
_ISSUER = re.compile(r"https?://[!-~]+")


def issuer(value: Any) -> str:
    """Validate the issuer and keep its spelling, because it is compared exactly."""
    url = text(value)
    parsed = parse_url(url) if _ISSUER.fullmatch(url) and ISSUER_SEPARATOR not in url else None
    if parsed is None or not is_encrypted_or_local(parsed.scheme, parsed.host):
        raise ValueError("must be an https URL, exactly as in the tokens (http on this machine only)")
    return url


def require_https(url: Url) -> Url:
    if not is_encrypted_or_local(url.scheme, url.host):
        raise ValueError("must be https (http on this machine only): an attacker who changes the keys in transit could sign any token")
    return url


def _key_set(file: WatchedFile) -> WatchedFile:
    try:
        keys = json.loads(file.content)["keys"]
    except (ValueError, LookupError, TypeError):
        keys = None
    if not isinstance(keys, list) or not keys:
        raise ValueError("the file must contain a JSON Web Key Set: an object with `keys`")
    return file


Issuer = Annotated[str, FieldType("URL", issuer, WEB_URL)]
Jwks = Annotated[File, AfterValidator(_key_set)]


class BearerTokenSettings(Settings):
    """Route keys of bearer tokens."""

    bearer_token: Annotated[str, choice_type(*KINDS)] | None = Field(
        None,
        description="Accepts `Authorization: Bearer` tokens: of the identity provider, or with `jwt` of another issuer. The policy "
        "applies. The token is not forwarded.",
        examples=["jwt"],
    )
    bearer_token_issuer: Issuer | None = Field(
        None,
        description="Issuer of the tokens (claim `iss`), compared exactly, for `bearer_token: jwt`.",
        examples=["https://token.actions.githubusercontent.com"],
    )
    bearer_token_audience: TextList = Field(
        (),
        description="Accepted audiences (claim `aud`); one match is sufficient. Required, except with `idp_id_token`. With "
        "`idp_access_token`, `*` accepts any token that the provider's userinfo endpoint accepts.",
        examples=[["https://app.example.com"]],
    )
    bearer_token_jwks_url: Annotated[WebUrl, AfterValidator(require_https)] | None = Field(
        None,
        description="URL of the issuer's JSON Web Key Set, for `bearer_token: jwt`.",
        examples=["https://token.actions.githubusercontent.com/.well-known/jwks"],
        json_schema_extra={"when_unset": "from the issuer's discovery document"},
    )
    bearer_token_jwks_file: Jwks | None = Field(
        None,
        description="Path to the issuer's JSON Web Key Set, for `bearer_token: jwt`. Reloaded when it changes.",
        examples=["keys.json"],
    )


def check_bearer_token_settings(route: "Route") -> Iterator[Finding]:
    kind = route.bearer_token
    others = ("bearer_token_issuer", "bearer_token_audience", "bearer_token_jwks_url", "bearer_token_jwks_file")
    set_keys = [name for name in others if getattr(route, name)]
    if kind is None:
        for name in set_keys:
            yield (name,), "has no effect without bearer_token"
        return
    if route.allow_public_unauthenticated_access or not route.to:
        yield ("bearer_token",), "has no effect on a route without sign-in"
    for name in set_keys:
        if kind != JWT and name != "bearer_token_audience":
            yield (name,), f"requires bearer_token: jwt; {kind} tokens come from the configured provider"
    if kind == ID_TOKEN and route.bearer_token_audience:
        yield ("bearer_token_audience",), "cannot be combined with bearer_token: idp_id_token, whose audience is idp_client_id"
    if kind == ACCESS_TOKEN and not route.bearer_token_audience:
        yield (
            ("bearer_token_audience",),
            (
                "is required: the audience of JWT access tokens for this route, or * for any token that "
                "the provider's userinfo endpoint accepts, issued to any client"
            ),
        )
    if ANY_CLIENT in route.bearer_token_audience and (kind != ACCESS_TOKEN or len(route.bearer_token_audience) > 1):
        yield ("bearer_token_audience",), "* requires idp_access_token and must be the only entry"
    if kind == JWT:
        yield from _check_jwt(route)


def _check_jwt(route: "Route") -> Iterator[Finding]:
    for name in ("bearer_token_issuer", "bearer_token_audience"):
        if not getattr(route, name):
            yield (name,), "is required with bearer_token: jwt"
    if route.bearer_token_jwks_url and route.bearer_token_jwks_file:
        yield ("bearer_token_jwks_url",), "cannot be combined with bearer_token_jwks_file. Set one of them"
    if route.allow_any_authenticated_user:
        message = (
            "with bearer_token: jwt would allow every token of the issuer; for a public CI service "
            "these are tokens of any of its users. List the allowed ones"
        )
        yield ("allow_any_authenticated_user",), message
