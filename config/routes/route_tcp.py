"""TCP routes: `from: tcp+https://host:port` is reached by CONNECT. gate does not interpret the tunneled bytes."""

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from config.validation import Finding

if TYPE_CHECKING:
    from config.routes.route import Route

SCHEME = "tcp+https"

# Longer than a lunch break or a report, shorter than a forgotten terminal; also MySQL's default.
MAX_IDLE_TIMEOUT = timedelta(hours=8)

# Keys that change the path or Host of a request.
REWRITES = (
    "prefix_rewrite",
    "regex_rewrite_pattern",
    "regex_rewrite_substitution",
    "preserve_host_header",
    "host_rewrite",
    "host_rewrite_header",
    "host_path_regex_rewrite_pattern",
    "host_path_regex_rewrite_substitution",
)

# Keys that match, change or answer HTTP requests, or set the TLS of upstream connections, which a tunnel leaves to its ends.
HTTP_ONLY = (
    "redirect",
    "path",
    "prefix",
    "regex",
    *REWRITES,
    "cors_allow_preflight",
    "allow_websockets",
    "allow_spdy",
    "websocket_origins",
    "set_request_headers",
    "remove_request_headers",
    "set_response_headers",
    "remove_response_headers",
    "pass_identity_headers",
    "identity_headers",
    "assertion_header",
    "assertion_audience",
    "jwt_groups_filter",
    "cluster_service_account_token_file",
    "cluster_service_account_token",
    "basic_auth",
    "enable_cloud_serverless_authentication",
    "upstream_http2",
    "mcp",
    "tls_skip_verify",
    "tls_server_name",
    "tls_custom_ca_file",
    "tls_custom_ca",
    "tls_client_cert_file",
    "tls_client_cert",
    "tls_client_key_file",
    "tls_client_key",
)


def check_tcp_upstream(route: "Route") -> Iterator[Finding]:
    is_tcp = route.from_.scheme == SCHEME
    if route.to and any((upstream.url.scheme == "tcp") != is_tcp for upstream in route.to):
        yield ("to",), "must be tcp://host:port for tcp+https" if is_tcp else "must be http or https: tcp is for tcp+https only"


def check_no_http_keys(route: "Route") -> Iterator[Finding]:
    if route.from_.scheme != SCHEME:
        if "idle_timeout" in route.model_fields_set:
            yield ("idle_timeout",), "requires a TCP route. For HTTP use `timeout` (responses) or timeout_idle (idle connections)"
        return
    if route.from_.port is None:
        yield ("from",), "needs the port that clients connect to, as in tcp+https://db.example.com:5432"
    named = [key for key in HTTP_ONLY if getattr(route, key)]
    for key in named:
        if f"{key}_file" not in named:  # the key without the suffix has the file's content
            yield (key,), "has no effect on a TCP route, whose content gate does not read. Remove it"
    for index, check in enumerate(route.health_checks):
        if check.http_health_check is not None:
            yield ("health_checks", index, "http_health_check"), "is for HTTP. Use tcp_health_check on a TCP route"
