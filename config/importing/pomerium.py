"""Importer for Pomerium 0.13 and later. Most keys are equal, so this module contains the differences only."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from config.importing.conversion import NO_COUNTERPART, OPEN, Conversion, ConvertedSection, ForeignKey
from config.importing.foreign_file import POMERIUM, ForeignConfig
from config.importing.foreign_templates import convert_request_headers
from config.importing.preamble import SIGNED_IN
from config.loader import raw_routes
from config.options import Options
from config.parsing.document import format_key_path
from config.routes.policy.policy_language import parse_policy
from config.routes.route import Route
from config.routes.route_tcp import HTTP_ONLY
from config.routes.route_tcp import SCHEME as TCP

RENAMED = {
    "pomerium_debug": "gate_debug",
    "enable_google_cloud_serverless_authentication": "enable_cloud_serverless_authentication",
    "google_cloud_serverless_authentication_service_account": "cloud_serverless_authentication_service_account",
    "cache_service_url": "databroker_service_url",
    "tracing_datadog_address": "tracing_monitor_address",
    "tracing_jaeger_collector_endpoint": "tracing_thrift_collector_endpoint",
    "tracing_jaeger_agent_endpoint": "tracing_thrift_agent_endpoint",
    "tracing_zipkin_endpoint": "tracing_span_endpoint",
    "tracing_sampling_rate": "tracing_sample_rate",
    "set_response_headers": "headers",
}
ROUTE_RENAMED = {
    "kubernetes_service_account_token": "cluster_service_account_token",
    "kubernetes_service_account_token_file": "cluster_service_account_token_file",
    "enable_google_cloud_serverless_authentication": "enable_cloud_serverless_authentication",
    "tls_upstream_server_name": "tls_server_name",
}
WHY_LOST = {
    "administrators": "use admin_allowed_users for access to the admin",
    "pass_identity_headers": "gate has it per route: it was added to every route that does not set it",
    "authenticate_internal_url": "use authenticate_service_url",
    "authenticate_internal_service_url": "use authenticate_service_url",
    "authorize_internal_service_url": "write it as authorize_service_url",
    "databroker_internal_service_url": "write it as databroker_service_url",
    "cookie_same_site": "gate's cookies are SameSite=Lax",
    "xff_num_trusted_hops": "use trusted_proxies: addresses instead of a number",
    "bearer_token_format": "per route: bearer_token",
    "idp_access_token_allowed_audiences": "per route: bearer_token_audience",
    "identity_providers": "gate's identity_providers has another form (docs/guides/multiple-providers.md)",
    "runtime_flags": "they control Pomerium's own code",
    "tracing_otlp_endpoint": "write tracing_provider: otlp and tracing_span_endpoint",
    "authenticate_url": "write it as authenticate_service_url",
    "jwt_issuer_format": "iss and aud of the assertion are host names without a scheme",
    "envoy_admin_address": "gate has no such listener",
    "codec_type": "gate serves HTTP/1.1, and with data_plane: envoy also HTTP/2",
}
ROUTE_LOST = {
    "tls_downstream_server_name": "gate derives the name from `from`",
    "idle_timeout": "idle_timeout is for TCP routes; timeout limits a whole response, and the default does not apply to event streams",
    "rewrite_response_headers": "gate does not rewrite response headers of an upstream",
    "logo_url": "gate does not show images of other sites. Set icon to a file",
    "show_error_details": "gate always shows denied users the reason",
    "response": "gate does not serve fixed responses",
    "regex_priority_order": "the first matching route applies. Check the position of this one",
    "mcp": "write the key mcp by hand: gate reads the messages for the policy, and sets no OAuth credentials for the upstream",
    "upstream_tunnel": "gate connects to its upstreams",
    "sub_policies": "write their lists (allowed_users, allowed_groups, ...) into the route itself",
    "idp_client_id": "write each client as an entry of identity_providers, and name the entry in identity_providers of the route",
    "idp_client_secret": "write each client as an entry of identity_providers, and name the entry in identity_providers of the route",
    "idp_access_token_allowed_audiences": "write it as bearer_token_audience",
    "bearer_token_format": "bearer_token of the route sets the accepted tokens",
    "circuit_breaker_thresholds": "gate limits connections itself",
    "tls_upstream_allow_renegotiation": "gate never renegotiates",
    "depends_on": "users are signed in at each host on their first visit",
    "kubernetes_api_server_url": "gate supports upstreams only",
}
STORAGE_TYPES = {"redis": "kvstore", "postgres": "database"}
# Provider -> its name in gate; None if gate does not support it.
PROVIDERS = {"ping": "oidc", "cognito": "oidc", "apple": None, "hosted": None}
# Keys that reject client certificates; without them, gate would accept those.
MTLS_CRL = ("client_crl", "client_crl_file")
MTLS_LOST = ("crl", "crl_file", "match_subject_alt_names")


def convert(foreign: ForeignConfig) -> Conversion:
    converted = Conversion(POMERIUM)
    identity_for_all = foreign.values.get("pass_identity_headers") is True
    for key, value, source in foreign.items():
        if key in ("routes", "policy"):
            converted.routes += _routes(converted.top, foreign, key, value, identity_for_all)
        elif key == "idp_provider" and value in PROVIDERS:
            _convert_provider(converted.top, source, value)
        elif key == "downstream_mtls" and isinstance(value, dict):
            _convert_client_certificates(converted.top, foreign, value)
        elif key == "databroker_storage_type":
            _convert_storage_type(converted.top, source, value)
        elif key == "databroker_storage_connection_string":
            _convert_connection(converted.top, source, value)
        elif key == "jwt_claims_headers" and isinstance(value, dict):
            _claim_headers(converted.top, source, value)
        elif key in MTLS_CRL:
            continue  # handled below
        elif key == "authorize_service_url" and foreign.values.get("services", "all") == "all":
            converted.top.mark_lost(source, "in mode all, the services are one process")
        else:
            _copy_value(converted.top, source, key, value)
    for source, lost in _refusals(foreign):
        converted.top.mark_lost(source, f"gate has no {lost}, so all users are denied on every route. Add the users to allow to each route")
        for route in converted.routes:
            route.deny_all()
    return converted


def _refusals(foreign: ForeignConfig) -> Iterator[tuple[ForeignKey, str]]:
    """Yield (key, description) of restrictions on client certificates that gate lacks."""
    for key in MTLS_CRL:
        if foreign.values.get(key):
            yield foreign.source(key), "list of revoked certificates"
    mtls = foreign.values.get("downstream_mtls")
    for key in MTLS_LOST:
        if isinstance(mtls, dict) and mtls.get(key):
            yield (
                foreign.source("downstream_mtls", key),
                "selection among a CA's certificates, except single ones (docs/guides/policy.md)",
            )


def _routes(top: ConvertedSection, foreign: ForeignConfig, key: str, value: Any, identity_for_all: bool) -> list[ConvertedSection]:
    """Convert the routes: a list, or base64 of one, as in the environment."""
    try:
        routes = raw_routes(value)
    except ValueError as error:
        top.mark_lost(foreign.source(key), str(error))
        return []
    return [_route(raw, foreign, (key, index), identity_for_all) for index, raw in enumerate(routes)]


def _convert_provider(top: ConvertedSection, source: ForeignKey, value: Any) -> None:
    name = PROVIDERS[value]
    if name is None:
        top.mark_lost(source, f"gate does not support {value}. Use an OpenID Connect provider")
    else:
        top.set(source, "idp_provider", name, check=f"{value} is a generic provider in gate: set idp_provider_url")


def _convert_client_certificates(top: ConvertedSection, foreign: ForeignConfig, value: dict[str, Any]) -> None:
    """Convert `downstream_mtls`. gate requires a valid client certificate, whatever `enforcement` is."""
    for key, content in value.items():
        source = foreign.source("downstream_mtls", key)
        if key in ("ca", "ca_file"):
            top.set(source, f"client_{key}", content)
        elif key == "enforcement":
            top.mark_lost(source, "every route requires a client certificate")
        elif key not in MTLS_LOST:
            top.mark_lost(source, NO_COUNTERPART)


def _copy_value(part: ConvertedSection, source: ForeignKey, key: str, value: Any) -> None:
    name = RENAMED.get(key, key)
    if key in WHY_LOST:
        part.mark_lost(source, WHY_LOST[key])
    elif name not in Options.attributes():
        part.mark_lost(source, NO_COUNTERPART)
    elif part.has(name):
        part.mark_lost(source, f"{name} is already set")
    else:
        part.set(source, name, value)


def _convert_storage_type(top: ConvertedSection, source: ForeignKey, value: Any) -> None:
    name = STORAGE_TYPES.get(str(value), value)
    top.set(source, "databroker_storage_type", name, check="" if name == value else f"{value} is named {name}")


def _convert_connection(top: ConvertedSection, source: ForeignKey, value: Any) -> None:
    if str(value).startswith(("postgres://", "postgresql://")):
        top.set(source, "database_url", value, check="the storage type `database` stores its records in Django's database")
    else:
        top.set(source, source.key, value)


def _claim_headers(top: ConvertedSection, source: ForeignKey, value: dict[str, Any]) -> None:
    renamed = [f"{claim} was sent as {header}" for header, claim in value.items()]
    top.set(source, source.key, list(value.values()), check=f"the headers are now named X-Gate-Claim-...: {', '.join(renamed)}")


def _route(raw: Any, foreign: ForeignConfig, location: tuple[str | int, ...], identity_for_all: bool) -> ConvertedSection:
    route = ConvertedSection()
    if not isinstance(raw, dict):
        route.mark_lost(foreign.source(*location), "is not a route")
        return route
    is_tcp = str(raw.get("from", "")).startswith(f"{TCP}://")
    for key, value in raw.items():
        source = foreign.source(*location, key)
        name = ROUTE_RENAMED.get(key, key)
        if key == "policy":
            continue
        if is_tcp and name in HTTP_ONLY:
            route.mark_lost(source, "is for HTTP routes, and this is a TCP route")
        elif name == "idle_timeout" and not is_tcp:
            route.mark_lost(source, ROUTE_LOST[name])
        elif name == "set_request_headers":
            convert_request_headers(route, source, value)
        elif name in Route.attributes():
            route.set(None if name == key else source, name, value)
        else:
            route.mark_lost(source, ROUTE_LOST.get(key, NO_COUNTERPART))
    _convert_upstream_path(route)
    if "policy" in raw:  # last, because it may remove other keys
        _convert_policy(route, foreign.source(*location, "policy"), raw["policy"])
    if identity_for_all and not is_tcp and not route.has("pass_identity_headers"):
        route.set(None, "pass_identity_headers", True, new="pass_identity_headers was set for all routes")
    return route


def _convert_upstream_path(route: ConvertedSection) -> None:
    """Convert the path of the first `to`.

    In Pomerium it replaces the matched path; gate appends the request's path to it.
    """
    to = route.find("to")
    if to is None or route.has("prefix_rewrite") or route.has("regex_rewrite_pattern"):
        return
    first = to.value[0] if isinstance(to.value, list) and to.value else to.value
    try:
        url = urlsplit(str(first).partition(",")[0])
    except ValueError:
        return  # invalid URL: reported by the validation
    takes_all = not any(route.has(key) for key in ("prefix", "path", "regex"))
    if url.scheme in ("http", "https") and url.path and not (takes_all and url.path == "/"):
        route.set(None, "prefix_rewrite", url.path, new=f"{url.path} of `to` replaced the path or prefix that the route matches")


def _convert_policy(route: ConvertedSection, source: ForeignKey, value: Any) -> None:
    """Convert a policy. The languages have the same structure; anything that gate does not support is rejected."""
    translated = _translate_policy(value)
    if (opened := _opening_key(translated)) is not None:
        message = "every signed-in user is allowed" if opened == ANY_USER else "every client is allowed without sign-in"
        route.set(source, opened, True, check=message)
        return
    try:
        parse_policy(translated)
    except PydanticCustomError as error:
        place, message = error.context["findings"][0] if error.context else ((), "can't be read")
        route.mark_lost(source, f"{format_key_path(place)} {message}; this rule was omitted")
        if "deny" in str(value):
            route.deny_all()
            message = "it also denied users, so the route's other rules were omitted, too: all users are denied. Add the users to allow"
            route.note("from", f"{source}: {message}")
    else:
        route.set(source, "policy", translated, check="compare it with docs/guides/policy.md")


PUBLIC, ANY_USER = OPEN


def _opening_key(translated: Any) -> str | None:
    """Return the route key for a policy that allows everyone, or every signed-in user; None for any other policy."""
    blocks = translated if isinstance(translated, list) else [translated]
    if len(blocks) != 1 or not isinstance(blocks[0], dict) or set(blocks[0]) != {"allow"}:
        return None
    allowed = blocks[0]["allow"]
    listed = next(iter(allowed.values())) if isinstance(allowed, dict) and len(allowed) == 1 and set(allowed) <= {"and", "or"} else None
    if not isinstance(listed, list) or not listed or not all(isinstance(each, dict) for each in listed):
        return None
    if all(set(each) == {"accept"} for each in listed):
        return PUBLIC
    return ANY_USER if all(each == SIGNED_IN for each in listed) else None


def _translate_policy(value: Any) -> Any:
    """Translate the operator of group membership: `has` in Pomerium, `is` in gate. Everything else is equal."""
    if isinstance(value, list):
        return [_translate_policy(element) for element in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"authenticated_user"}:
        return SIGNED_IN
    return {key: _translate_group(content) if key == "groups" else _translate_policy(content) for key, content in value.items()}


def _translate_group(content: Any) -> Any:
    return {"is" if key == "has" else key: value for key, value in content.items()} if isinstance(content, dict) else content
