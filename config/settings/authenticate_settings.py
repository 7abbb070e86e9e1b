"""Settings of sign-in: the authenticate service, the identity provider and the signing key."""

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from config.fields.basic_types import (
    Base64Secret,
    File,
    PositiveDuration,
    Secret,
    ServiceUrl,
    Text,
    TextList,
    WebUrl,
    file_form,
    text,
    text_list,
    text_map,
    value_or_file,
)
from config.fields.field_type import MAP, TEXT, WEB_URL, FieldType, JsonSchema, choice_type
from config.routes.route_values import RewrittenPath
from config.validation import Finding, Rule, Settings
from foundation.values import SecretBytes, SecretText, is_encrypted_or_local, parse_url

if TYPE_CHECKING:
    from config.options import Options

PROVIDERS = ("oidc", "google", "azure", "okta", "onelogin", "github", "gitlab", "auth0")
# Vendors with one issuer per customer.
PROVIDERS_WITHOUT_URL = frozenset({"oidc", "okta", "auth0"})

MIN_WEBHOOK_SECRET_LENGTH = 32

RESERVED_PATHS = ("/.gate/", "/.well-known/gate/")
RESERVED_PAGES = ("/", "/.gate", "/ping", "/healthz", "/robots.txt")

# Parameters that gate sets itself: a configured value would disable state, nonce or PKCE.
RESERVED_PARAMETERS = frozenset(
    {"client_id", "client_secret", "redirect_uri", "response_type", "response_mode", "scope", "state", "nonce"}
    | {"code_challenge", "code_challenge_method", "request", "request_uri"}
)


def _callback_path(path: str) -> str:
    if path in RESERVED_PAGES or path.startswith(RESERVED_PATHS):
        raise ValueError("conflicts with a path reserved by gate")
    return path


def provider_url(value: Any) -> str:
    """Parse the provider URL and keep its spelling: issuers are compared exactly (OpenID Connect Discovery 4.3)."""
    written = text(value)
    url = parse_url(written)
    if not is_encrypted_or_local(url.scheme, url.host):
        raise ValueError("the scheme must be https (http is accepted for a provider on this machine only)")
    if "?" in written:
        raise ValueError("must not contain a query")
    return written


def webhook_url(value: Any) -> SecretText:
    """Parse the URL of a webhook. Those of Slack and Teams are secrets."""
    written = value.reveal() if isinstance(value, SecretText) else text(value)
    try:
        url = urlsplit(written)
        host = url.hostname if url.port != 0 else None
    except ValueError:
        url, host = urlsplit(""), None
    if not host or not re.fullmatch(r"[!-~]+", written) or "@" in url.netloc or url.fragment:
        raise ValueError("must be a URL such as https://hooks.example.com/services/x")
    if not is_encrypted_or_local(url.scheme, host):
        raise ValueError("the scheme must be https (http is accepted for this machine only)")
    return SecretText(written)


def webhook_secret(value: Any) -> SecretText:
    written = value.reveal() if isinstance(value, SecretText) else text(value)
    if len(written) < MIN_WEBHOOK_SECRET_LENGTH or not written.isascii():
        raise ValueError(
            f"must have at least {MIN_WEBHOOK_SECRET_LENGTH} ASCII characters. Generate it with `head -c32 /dev/urandom | base64`"
        )
    return SecretText(written)


def webhook_secret_in_file(content: bytes) -> SecretText:
    try:
        return webhook_secret(content.decode("ascii").strip())
    except UnicodeDecodeError:
        raise ValueError("the file must contain only ASCII characters") from None


def _check_webhook_secret(settings: "Options") -> Iterator[Finding]:
    if (settings.access_webhook_url is None) is not (settings.access_webhook_secret is None):
        yield ("access_webhook_secret",), "must be set together with access_webhook_url. Set both or neither"


def _scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    # `oidc` is an accepted alias of the scope `openid`.
    named = tuple(dict.fromkeys("openid" if scope == "oidc" else scope for scope in scopes))
    if any(" " in scope for scope in named):
        raise ValueError("scopes cannot contain spaces. Use a list")
    return named


Scopes = Annotated[TextList, AfterValidator(_scopes)]


def request_params(value: Any) -> Mapping[str, str]:
    params = text_map(value)
    for name in params:
        if name.lower() in RESERVED_PARAMETERS:
            raise ValueError(f"{name} is set by gate and cannot be overridden")
    return params


def _check_provider_url(settings: "Options") -> Iterator[Finding]:
    if not settings.idp_provider_url and settings.idp_provider in PROVIDERS_WITHOUT_URL:
        yield ("idp_provider_url",), "is required: the provider's issuer URL, as in https://idp.example.com"


def _check_openid_scope(settings: "Options") -> Iterator[Finding]:
    if settings.idp_scopes and settings.idp_provider != "github" and "openid" not in settings.idp_scopes:
        yield ("idp_scopes",), "must contain openid: without it the provider sends no ID token"


MIN_SCIM_TOKEN_LENGTH = 32
_SCIM_TOKEN: JsonSchema = {"type": "string", "minLength": MIN_SCIM_TOKEN_LENGTH}
SCIM_TOKENS: JsonSchema = {"anyOf": [{"type": "array", "items": _SCIM_TOKEN}, _SCIM_TOKEN]}
_MIN_DISTINCT_CHARACTERS = 12  # 32 random base64 characters practically never have fewer distinct ones


def scim_tokens(value: Any) -> tuple[SecretText, ...]:
    tokens = text_list(value)
    if any(len(token) < MIN_SCIM_TOKEN_LENGTH or len(set(token)) < _MIN_DISTINCT_CHARACTERS or not token.isascii() for token in tokens):
        raise ValueError(
            f"must have at least {MIN_SCIM_TOKEN_LENGTH} random ASCII characters. Generate it with `head -c32 /dev/urandom | base64`"
        )
    return tuple(map(SecretText, tokens))


def scim_tokens_in_file(content: bytes) -> tuple[SecretText, ...]:
    return scim_tokens(content.decode("ascii", "replace").split())


ScimTokens = Annotated[
    tuple[SecretText, ...] | None,
    FieldType("string or list of string", scim_tokens, SCIM_TOKENS),
    value_or_file("scim_token_file", scim_tokens_in_file),
]
ScimUserId = Annotated[str, choice_type("externalId", "userName")]
ScimGroupId = Annotated[str, choice_type("externalId", "displayName")]


def _check_https(settings: "Options") -> Iterator[Finding]:
    if settings.authenticate_service_url.scheme != "https" and not settings.insecure_server:
        yield ("authenticate_service_url",), "the scheme must be https (http is accepted with insecure_server only)"


class AuthenticateSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_https, _check_provider_url, _check_openid_scope, _check_webhook_secret)

    authenticate_service_url: ServiceUrl = Field(
        description="URL of the authenticate host, where users sign in.",
        examples=["https://authenticate.example.com"],
        json_schema_extra={"when_missing": "the URL under which browsers reach the sign-in, as in https://authenticate.example.com"},
    )
    authenticate_callback_path: Annotated[RewrittenPath, AfterValidator(_callback_path)] = Field(
        "/oauth2/callback",
        description="Path of the OAuth 2.0 callback. Register `authenticate_service_url` with this path as the redirect URI at the "
        "provider.",
        examples=["/oauth2/callback"],
    )
    idp_provider: Annotated[str, choice_type(*PROVIDERS, hint="oidc for any other provider of OpenID Connect")] = Field(
        description="Kind of identity provider. `oidc` is any OpenID Connect provider.",
        examples=["oidc"],
        json_schema_extra={"when_missing": f"one of {', '.join(PROVIDERS)}"},
    )
    idp_provider_url: Annotated[str, FieldType("URL", provider_url, WEB_URL)] = Field(
        "",
        description="Issuer URL of the provider. Required for `oidc`, `okta` and `auth0`.",
        examples=["https://idp.example.com"],
        json_schema_extra={"when_unset": "the vendor's public issuer"},
    )
    idp_client_id: Text = Field(
        description="OAuth 2.0 client id.",
        examples=["gate"],
        json_schema_extra={"when_missing": "the provider issues it when you register a client"},
    )
    idp_client_secret_file: File | None = file_form("idp_client_secret", "client-secret")
    idp_client_secret: Secret = Field(
        description="OAuth 2.0 client secret.",
        examples=["the-secret-that-the-provider-gave-you"],
        json_schema_extra={"when_missing": "the provider issues it when you register a client"},
    )
    idp_scopes: Scopes = Field(
        (),
        description="OAuth 2.0 scopes. Some providers do not support `offline_access`.",
        examples=[["openid", "profile", "email"], "openid,profile,email"],
        json_schema_extra={"when_unset": "the scopes that the provider needs for sign-in (docs/guides/identity-providers/README.md)"},
    )
    idp_request_params: Annotated[Mapping[str, str], FieldType("map string-to-string", request_params, MAP)] = Field(
        default_factory=dict,
        description="Query parameters of the authorization request, in place of gate's defaults for the provider.",
        examples=[{"prompt": "select_account"}],
    )
    idp_refresh_directory_interval: PositiveDuration = Field(
        timedelta(minutes=10),
        description="Time between two reads of the directory, and between two refreshes of a user's claims. A short interval can "
        "exceed the provider's rate limits.",
        examples=["10m"],
    )
    scim_token_file: File | None = Field(None, description="File form of `scim_token`, one token per line.", examples=["scim-token"])
    scim_token: ScimTokens = Field(
        None,
        validate_default=True,
        description="Bearer token with which the provider pushes users and groups to `/.gate/scim/v2/` (SCIM 2.0); a list during "
        "rotation. Excludes other directory sources.",
        examples=["PUT-A-RANDOM-TOKEN-OF-32-CHARACTERS-HERE"],
        json_schema_extra={"when_unset": "SCIM is disabled"},
    )
    scim_user_id: ScimUserId = Field(
        "externalId",
        description="SCIM user attribute that equals the user's id in ID tokens: `sub`, or `oid` for `azure`.",
        examples=["userName"],
    )
    scim_group_id: ScimGroupId = Field(
        "externalId",
        description="SCIM group attribute that `allowed_groups` refers to. A group without it is identified by the id that gate assigned.",
        examples=["displayName"],
    )
    access_webhook_url_file: File | None = file_form("access_webhook_url", "webhook-url")
    access_webhook_url: Annotated[SecretText, FieldType("URL", webhook_url, TEXT)] | None = Field(
        None,
        description="URL that receives each access request and answer, in a format that Slack and Microsoft Teams accept.",
        examples=["https://hooks.example.com/services/T0/B0/x"],
        json_schema_extra={"when_unset": "no webhook"},
    )
    access_webhook_secret_file: File | None = Field(None, description="File form of `access_webhook_secret`.", examples=["webhook-secret"])
    access_webhook_secret: Annotated[
        Annotated[SecretText, FieldType("string", webhook_secret, TEXT)] | None,
        value_or_file("access_webhook_secret_file", webhook_secret_in_file),
    ] = Field(
        None,
        validate_default=True,
        description="Key that signs webhook messages with HMAC-SHA256, at least 32 characters. Required with `access_webhook_url`.",
        examples=["PUT-A-RANDOM-SECRET-OF-32-CHARACTERS-HERE"],
    )
    signing_key_file: File | None = Field(None, description="File form of `signing_key`, in PEM.", examples=["signing-key.pem"])
    signing_key: Annotated[Base64Secret | None, value_or_file("signing_key_file", SecretBytes)] = Field(
        None,
        validate_default=True,
        description="Private key that signs the identity assertion (`X-Gate-Jwt-Assertion`), in PEM. The public key is at "
        "`/.well-known/gate/jwks.json`.",
        examples=["BASE64-OF-signing-key.pem"],
        json_schema_extra={"when_unset": "a new unpublished key at each start"},
    )
    signing_key_algorithm: Annotated[str, choice_type("ES256", "EdDSA", "RS256")] = Field(
        "ES256",
        description="Signature algorithm of the identity assertion, for the type of `signing_key`.",
        examples=["ES256"],
    )
    signout_redirect_url: WebUrl | None = Field(
        None,
        description="URL that users are redirected to after sign-out, by way of `/.gate/signed_out` on the authenticate host: "
        "register that URL at the provider. If the value is that URL, users return to a page of gate. Empty leaves "
        "users on the provider's page, or on gate's where the provider has no sign-out endpoint.",
        examples=["https://authenticate.example.com/.gate/signed_out"],
    )
