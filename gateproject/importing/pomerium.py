"""Pomerium (0.13 and later) -> ours: most keys are spelled the same, so this states only the differences."""

from typing import Any

from pydantic_core import PydanticCustomError

from gateproject.config.options import Options
from gateproject.config.places import key_path
from gateproject.config.policy_language import policy_blocks
from gateproject.config.route import Route
from gateproject.config.tcp_routes import HTTP_ONLY
from gateproject.config.tcp_routes import SCHEME as TCP
from gateproject.importing.converted import Converted, Part, Source
from gateproject.importing.reading import POMERIUM, Foreign

NOT_HERE = "gate has no such setting"

RENAMED = {
    "pomerium_debug": "gate_debug",
    "enable_google_cloud_serverless_authentication": "enable_cloud_serverless_authentication",
    "google_cloud_serverless_authentication_service_account": "cloud_serverless_authentication_service_account",
    "cache_service_url": "databroker_service_url",
    "authenticate_internal_url": "authenticate_service_url",
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
    "administrators": "admin_allowed_users names who enters the admin",
    "pass_identity_headers": "gate has it per route: it was added to every route that does not say otherwise",
    "downstream_mtls": "write its CA as client_ca, or per route as tls_downstream_client_ca",
    "authenticate_url": "write it as authenticate_service_url",
    "jwt_issuer_format": "iss and aud of the assertion are host names without a scheme",
    "envoy_admin_address": "there is no such listener",
    "codec_type": "HTTP/1.1 and websockets are spoken to clients",
}
ROUTE_LOST = {
    "tls_downstream_server_name": "gate takes the name from `from`",
    "idle_timeout": "timeout bounds the whole answer, and event streams are never cut by the default",
    "rewrite_response_headers": "gate rewrites no response header of an upstream",
    "set_response_headers": "gate has `headers` for all routes together",
    "description": "gate shows the route's name",
    "logo_url": "gate shows no logos",
    "show_error_details": "gate always tells a refused person the reason",
    "response": "gate serves no fixed answers",
    "kubernetes_api_server_url": "gate knows upstreams only",
}
STORAGE_TYPES = {"redis": "kvstore", "postgres": "database"}
GRANTS = ("allowed_users", "allowed_groups", "allowed_domains", "allowed_idp_claims")
OPEN = ("allow_public_unauthenticated_access", "allow_any_authenticated_user")


def convert(foreign: Foreign) -> Converted:
    converted = Converted(POMERIUM)
    identity_for_all = foreign.values.get("pass_identity_headers") is True
    for key, value, source in foreign.items():
        if key in ("routes", "policy"):
            converted.routes += [_route(raw, foreign, (key, index), identity_for_all) for index, raw in enumerate(_list(value))]
        elif key == "databroker_storage_type":
            _storage_type(converted.top, source, value)
        elif key == "databroker_storage_connection_string":
            _connection(converted.top, source, value)
        elif key == "jwt_claims_headers" and isinstance(value, dict):
            _claim_headers(converted.top, source, value)
        elif key == "authorize_service_url" and foreign.values.get("services", "all") == "all":
            converted.top.lose(source, "in mode all the services are one process")
        else:
            _same(converted.top, source, key, value)
    return converted


def _same(part: Part, source: Source, key: str, value: Any) -> None:
    name = RENAMED.get(key, key)
    if key in WHY_LOST:
        part.lose(source, WHY_LOST[key])
    elif name not in Options.attributes():
        part.lose(source, NOT_HERE)
    elif part.has(name):
        part.lose(source, f"{name} is there already")
    else:
        part.set(source, name, value)


def _storage_type(top: Part, source: Source, value: Any) -> None:
    name = STORAGE_TYPES.get(str(value), value)
    top.set(source, "databroker_storage_type", name, check="" if name == value else f"{value} is called {name}")


def _connection(top: Part, source: Source, value: Any) -> None:
    if str(value).startswith(("postgres://", "postgresql://")):
        top.set(source, "database_url", value, check="the storage type `database` keeps its records in Django's database")
    else:
        top.set(source, source.key, value)


def _claim_headers(top: Part, source: Source, value: dict[str, Any]) -> None:
    renamed = [f"{claim} was sent as {header}" for header, claim in value.items()]
    top.set(source, source.key, list(value.values()), check=f"headers are named X-Gate-Claim-...: {', '.join(renamed)}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _route(raw: Any, foreign: Foreign, at: tuple[str | int, ...], identity_for_all: bool) -> Part:
    route = Part()
    if not isinstance(raw, dict):
        route.lose(foreign.source(*at), "is no route")
        return route
    is_tcp = str(raw.get("from", "")).startswith(f"{TCP}://")
    for key, value in raw.items():
        source = foreign.source(*at, key)
        name = ROUTE_RENAMED.get(key, key)
        if key == "policy":
            continue
        if is_tcp and name in HTTP_ONLY:
            route.lose(source, "is for HTTP, and the route is for TCP")
        elif name == "idle_timeout" and not is_tcp:
            route.lose(source, ROUTE_LOST[name])
        elif name in Route.attributes():
            route.set(None if name == key else source, name, value)
        else:
            route.lose(source, ROUTE_LOST.get(key, "gate's routes have no such key"))
    if "policy" in raw:  # last: it may take back what stands beside it
        _policy(route, foreign.source(*at, "policy"), raw["policy"])
    if identity_for_all and not is_tcp and not route.has("pass_identity_headers"):
        route.set(None, "pass_identity_headers", True, new="pass_identity_headers was set for all routes")
    return route


def _policy(route: Part, source: Source, value: Any) -> None:
    """Pomerium's policy language and ours are built alike; what ours does not understand is not guessed."""
    ours = _in_our_words(value)
    try:
        policy_blocks(ours)
    except PydanticCustomError as error:
        place, message = error.context["findings"][0] if error.context else ((), "can't be read")
        route.lose(source, f"{key_path(place)} {message}; this rule lets nobody in any more")
        if "deny" in str(value):
            route.drop(*GRANTS, *OPEN)
            route.note(source, "it also refused people, so this route's other rules were left out as well: nobody passes until you say who")
    else:
        route.set(source, "policy", ours, check="read it once against docs/policy.md")


def _in_our_words(value: Any) -> Any:
    """A member of a group `has` it there and `is` in it here; nothing else differs in spelling."""
    if isinstance(value, list):
        return [_in_our_words(element) for element in value]
    if not isinstance(value, dict):
        return value
    return {key: _group_words(content) if key == "groups" else _in_our_words(content) for key, content in value.items()}


def _group_words(content: Any) -> Any:
    return {"is" if key == "has" else key: value for key, value in content.items()} if isinstance(content, dict) else content
