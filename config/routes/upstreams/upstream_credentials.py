"""Upstream credentials of a route, and the checks of their settings."""

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from config.fields.basic_types import File, text, value_or_file
from config.fields.cloud_service_account import service_account
from config.fields.field_type import TEXT, FieldType
from config.fields.pem import check_key_matches
from config.routes.route_upstream_oauth import upstream_oauth_settings
from config.validation import Finding, Rule, Settings
from foundation.values import SecretText

if TYPE_CHECKING:
    from config.options import Options
    from config.routes.route import Route

_TOKEN = re.compile(r"[!-~]{1,16384}")


def cluster_token(value: Any) -> SecretText:
    token = value.reveal() if isinstance(value, SecretText) else text(value)
    if not _TOKEN.fullmatch(token):
        raise ValueError("must be a bearer token: visible ASCII characters without spaces")
    return SecretText(token)


def cluster_token_in_file(content: bytes) -> SecretText:
    try:
        return cluster_token(content.decode("ascii").strip())
    except (UnicodeDecodeError, ValueError):
        raise ValueError("the file must contain only a bearer token: visible ASCII characters without spaces") from None


ClusterToken = Annotated[SecretText, FieldType("string", cluster_token, TEXT)]


def basic_user(value: Any) -> str:
    written = text(value)
    if ":" in written or not written.isprintable():
        raise ValueError("must be a name without colons and control characters (RFC 7617 2)")
    return written


def basic_password(value: Any) -> SecretText:
    written = value.reveal() if isinstance(value, SecretText) else text(value)
    if not written.isprintable():
        raise ValueError("must not contain control characters (RFC 7617 2)")
    return SecretText(written)


def password_in_file(content: bytes) -> SecretText:
    try:
        return basic_password(content.decode().rstrip("\r\n"))
    except (UnicodeDecodeError, ValueError):
        raise ValueError("the file must contain only a password: one line of text") from None


def _check_password(settings: "BasicAuth") -> Iterator[Finding]:
    if settings.password is None:
        yield (), "needs password_file"


class BasicAuth(Settings):
    """User name and password for the upstream (RFC 7617), in place of the client's credentials."""

    RULES: ClassVar[tuple[Rule, ...]] = (_check_password,)

    user: Annotated[str, FieldType("string", basic_user, TEXT)] = Field(description="User name.", examples=["gate"])
    password_file: File | None = Field(None, description="File form of `password`. Reloaded when it changes.", examples=["token"])
    password: Annotated[
        Annotated[SecretText, FieldType("string", basic_password, TEXT)] | None, value_or_file("password_file", password_in_file)
    ] = Field(None, validate_default=True, description="Password.", examples=["PUT-THE-PASSWORD-HERE"])

    def authorization(self) -> bytes:
        """Value of the Authorization header; None before the password is validated."""
        password = self.password.reveal() if self.password is not None else ""
        return b"Basic " + b64encode(f"{self.user}:{password}".encode())


def uses_serverless_auth(route: "Route", settings: "Options") -> bool:
    """Return whether gate sends its identity token to the upstream. The route key overrides the setting."""
    if (route_value := route.enable_cloud_serverless_authentication) is not None:
        return bool(route_value)
    if not settings.enable_cloud_serverless_authentication:
        return False
    return bool(route.to and not _has_own_authorization(route))


def injects_credentials(route: "Route", settings: "Options") -> bool:
    """Return whether the upstream receives credentials of gate, or tokens that the provider issued for the user."""
    return sets_authorization(route, settings) or route.pass_provider_tokens


def sets_authorization(route: "Route", settings: "Options") -> bool:
    """Return whether gate sets the Authorization header of upstream requests."""
    return _has_own_authorization(route) or uses_serverless_auth(route, settings)


def _has_own_authorization(route: "Route") -> bool:
    has_account = route.cluster_service_account_token is not None or route.basic_auth is not None
    return has_account or upstream_oauth_settings(route) is not None


def cluster_token_key(route: "Route") -> str:
    return "cluster_service_account_token_file" if route.cluster_service_account_token_file else "cluster_service_account_token"


def check_impersonation_identity(route: "Route") -> Iterator[Finding]:
    if route.cluster_service_account_token is None:
        return
    key = cluster_token_key(route)
    if route.allow_public_unauthenticated_access:
        yield (key,), "impersonates the signed-in user, so it cannot be combined with allow_public_unauthenticated_access"
    if not route.to:
        yield (key,), "requires an upstream. Set `to`"
    if route.enable_cloud_serverless_authentication:
        yield (key,), "cannot be combined with enable_cloud_serverless_authentication: both set the Authorization header. Set one of them"


def check_basic_auth_exclusive(route: "Route") -> Iterator[Finding]:
    if route.basic_auth is None:
        return
    if not route.to:
        yield ("basic_auth",), "requires an upstream. Set `to`"
    if route.cluster_service_account_token is not None or route.enable_cloud_serverless_authentication:
        other = cluster_token_key(route) if route.cluster_service_account_token is not None else "enable_cloud_serverless_authentication"
        yield ("basic_auth",), f"cannot be combined with {other}: both set the Authorization header. Set one of them"


def check_serverless_upstream(route: "Route") -> Iterator[Finding]:
    if route.enable_cloud_serverless_authentication and not route.to:
        yield ("enable_cloud_serverless_authentication",), "requires an upstream. Set `to`"


def check_single_authorization(settings: "Options") -> Iterator[Finding]:
    for index, route in enumerate(settings.policy):
        if sets_authorization(route, settings) and any(name.lower() == "authorization" for name in route.set_request_headers):
            yield ("policy", index, "set_request_headers"), "sets Authorization, which gate sets for this route's upstream. Remove it"


def check_cloud_service_account(settings: "Options") -> Iterator[Finding]:
    content = settings.cloud_serverless_authentication_service_account
    if content is None:
        return
    try:
        service_account(content)
    except ValueError as error:
        key = "cloud_serverless_authentication_service_account"
        yield (f"{key}_file" if settings.cloud_serverless_authentication_service_account_file else key,), str(error)


def check_client_certificate(route: "Route") -> Iterator[Finding]:
    certificate, key = route.tls_client_cert, route.tls_client_key
    named = {name: f"{name}_file" if getattr(route, f"{name}_file") else name for name in ("tls_client_cert", "tls_client_key")}
    if (certificate is None) != (key is None):
        present, absent = ("tls_client_cert", "tls_client_key") if key is None else ("tls_client_key", "tls_client_cert")
        yield (named[present],), f"needs {absent} too"
    elif certificate is not None:
        if not any(upstream.url.scheme == "https" for upstream in route.to):
            yield (named["tls_client_cert"],), "is for https upstreams only, and `to` has none"
        try:
            check_key_matches(certificate, key)
        except ValueError as error:
            yield (named["tls_client_cert"],), str(error)
