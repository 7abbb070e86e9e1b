"""Upstream OAuth of MCP routes: gate is a client of a third-party MCP server, and forwards each user's own access token."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from config.fields.basic_types import File, WebUrl, text, text_list, value_or_file
from config.fields.field_type import LIST, TEXT, FieldType, choice_type
from config.validation import Finding, Rule, Settings
from foundation.values import SecretText, Url, is_encrypted_or_local

if TYPE_CHECKING:
    from config.routes.route import Route

BASIC, POST = "client_secret_basic", "client_secret_post"
MAX_SCOPES, MAX_CLIENT_ID_LENGTH, MAX_RESOURCE_LENGTH = 64, 512, 1024
_VISIBLE = re.compile(r"[ -~]+")  # RFC 6749 A.1, A.2
_SCOPE = re.compile(r"[!#-\[\]-~]{1,256}")  # RFC 6749 3.3
# Keys with which the upstream's URL does not follow from `to` and the path of the endpoint.
_REWRITES = ("prefix_rewrite", "regex_rewrite_pattern", "host_rewrite", "host_rewrite_header", "host_path_regex_rewrite_pattern")


def parse_client_id(value: Any) -> str:
    written = text(value)
    if not _VISIBLE.fullmatch(written) or len(written) > MAX_CLIENT_ID_LENGTH:
        raise ValueError(f"must be the client_id that the authorization server issued: ASCII, at most {MAX_CLIENT_ID_LENGTH} characters")
    return written


def parse_client_secret(value: Any) -> SecretText:
    written = value.reveal() if isinstance(value, SecretText) else text(value)
    if not _VISIBLE.fullmatch(written):
        raise ValueError("must be the client secret that the authorization server issued: visible ASCII characters")
    return SecretText(written)


def secret_in_file(content: bytes) -> SecretText:
    try:
        return parse_client_secret(content.decode("ascii").strip())
    except (UnicodeDecodeError, ValueError):
        raise ValueError("the file must contain only the client secret: visible ASCII characters") from None


def parse_upstream_scopes(value: Any) -> tuple[str, ...]:
    scopes = tuple(dict.fromkeys(text_list(value)))
    if len(scopes) > MAX_SCOPES:
        raise ValueError(f"must have at most {MAX_SCOPES} scopes")
    for scope in scopes:
        if not _SCOPE.fullmatch(scope):
            raise ValueError("must be scopes: visible ASCII characters without spaces, quotes and backslashes")
    return scopes


_CLIENT_ID = FieldType("string", parse_client_id, TEXT)
_SCOPES = FieldType("list of string", parse_upstream_scopes, LIST)


def _check_client(settings: "UpstreamOAuthSettings") -> Iterator[Finding]:
    if settings.client_id is None and settings.client_secret is not None:
        yield ("client_secret_file" if settings.client_secret_file else "client_secret",), "requires client_id"
    endpoints = {key: getattr(settings, key) for key in ("authorization_url", "token_url")}
    if sum(url is not None for url in endpoints.values()) == 1:
        present, absent = sorted(endpoints, key=lambda key: endpoints[key] is None)
        yield (present,), f"needs {absent} too. Without both, gate discovers them"
    if settings.client_secret is not None and not any(endpoints.values()) and settings.issuer is None:
        yield ("issuer",), "is required with a client secret: otherwise the upstream names the authorization server that gets it"
    if settings.revocation_url is not None and not any(endpoints.values()):
        yield ("revocation_url",), "has no effect without authorization_url and token_url: gate discovers the endpoints"


def _check_endpoints(settings: "UpstreamOAuthSettings") -> Iterator[Finding]:
    for key in ("authorization_url", "token_url", "revocation_url", "issuer", "resource"):
        url: Url | None = getattr(settings, key)
        if url is not None and not is_encrypted_or_local(url.scheme, url.host):
            yield (key,), "must be an https URL: codes, tokens and the client secret are sent there"
    for key in ("issuer", "resource"):
        if (named := getattr(settings, key)) is not None and (named.query or len(str(named)) > MAX_RESOURCE_LENGTH):
            yield (key,), f"must have no query, and at most {MAX_RESOURCE_LENGTH} characters"


class UpstreamOAuthSettings(Settings):
    """gate as an OAuth client of the upstream's authorization server."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_client, _check_endpoints)

    client_id: Annotated[str, _CLIENT_ID] | None = Field(
        None,
        description="`client_id` of gate at the upstream's authorization server. The redirect URI to register there is "
        "`https://AUTHENTICATE_HOST/.gate/connections/callback/HOST/PATH` of the route, without a slash at the end.",
        examples=["Iv1.8a61f9b3a7aba766"],
        json_schema_extra={"when_unset": "the URL of gate's client ID metadata document"},
    )
    client_secret_file: File | None = Field(
        None, description="File form of `client_secret`. Reloaded when it changes.", examples=["client-secret"]
    )
    client_secret: Annotated[
        Annotated[SecretText, FieldType("string", parse_client_secret, TEXT)] | None, value_or_file("client_secret_file", secret_in_file)
    ] = Field(
        None,
        validate_default=True,
        description="Client secret of gate.",
        examples=["PUT-THE-CLIENT-SECRET-HERE"],
        json_schema_extra={"when_unset": "a public client, which proves itself with PKCE only"},
    )
    client_auth_method: Annotated[str, choice_type(BASIC, POST)] = Field(
        BASIC, description="How gate sends the client secret (RFC 6749 2.3.1).", examples=[POST]
    )
    scopes: Annotated[tuple[str, ...], _SCOPES] = Field(
        (), description="Scopes that gate requests for each user. After a change, users connect again.", examples=[["repo", "read:org"]]
    )
    authorization_url: WebUrl | None = Field(
        None,
        description="Authorization endpoint, to which users are led.",
        examples=["https://login.example.org/authorize"],
        json_schema_extra={"when_unset": "discovered (RFC 9728, RFC 8414)"},
    )
    token_url: WebUrl | None = Field(
        None,
        description="Token endpoint.",
        examples=["https://login.example.org/token"],
        json_schema_extra={"when_unset": "discovered (RFC 9728, RFC 8414)"},
    )
    revocation_url: WebUrl | None = Field(
        None,
        description="Revocation endpoint (RFC 7009), to which gate sends the tokens of a user who disconnects.",
        examples=["https://login.example.org/revoke"],
        json_schema_extra={"when_unset": "discovered; none with configured endpoints"},
    )
    issuer: WebUrl | None = Field(
        None,
        description="Issuer of the authorization server. gate rejects authorization responses of another one (RFC 9207), and in a "
        "discovery all other authorization servers.",
        examples=["https://login.example.org"],
        json_schema_extra={"when_unset": "discovered; not compared with configured endpoints"},
    )
    resource: WebUrl | None = Field(
        None,
        description="URI of the upstream in `resource` (RFC 8707).",
        examples=["https://mcp.example.org/mcp"],
        json_schema_extra={"when_unset": "`to` with the path of the endpoint"},
    )


def upstream_oauth_settings(route: "Route") -> UpstreamOAuthSettings | None:
    settings = route.mcp
    return settings.upstream_oauth if settings is not None else None


def upstream_resource_uri(route: "Route") -> str:
    """Return the URI of the third-party server (RFC 8707), without a slash at the end."""
    settings = upstream_oauth_settings(route)
    if settings is not None and settings.resource is not None:
        return str(settings.resource).rstrip("/")
    base, endpoint = route.to[0].url, (route.mcp.path if route.mcp is not None else None) or route.path or route.prefix or ""
    return f"{base.origin}{base.path.rstrip('/')}{endpoint}".rstrip("/")


# enforcement-point: Upstream requests: Routes with tokens of third-party MCP servers
def check_upstream_oauth(route: "Route") -> Iterator[Finding]:
    """Tokens of users are sent over encrypted or local connections, and only for users who have signed in."""
    settings, key = upstream_oauth_settings(route), ("mcp", "upstream_oauth")
    if settings is None or not route.to:
        return
    if route.allow_public_unauthenticated_access:
        yield key, "needs a signed-in user, so it cannot be combined with allow_public_unauthenticated_access"
    if route.bearer_token is not None:
        yield key, "cannot be combined with bearer_token: users connect in a browser. Use two routes"
    for other in ("basic_auth", "cluster_service_account_token", "enable_cloud_serverless_authentication"):
        if getattr(route, other):
            yield key, f"cannot be combined with {other}: both set the Authorization header. Set one of them"
    if route.from_.host.startswith("*."):
        yield key, "requires a host without a wildcard in `from`, because users connect to one server"
    if plain := [str(each.url) for each in route.to if not is_encrypted_or_local(each.url.scheme, each.url.host)]:
        yield key, f"would send users' tokens to {plain[0]} unencrypted. Use https in `to`"
    has_rewrite = any(getattr(route, each) is not None for each in _REWRITES)
    if settings.resource is None and (len(route.to) > 1 or has_rewrite):
        yield (*key, "resource"), "is required with several upstreams or a rewrite, which do not determine the URI of the server"
