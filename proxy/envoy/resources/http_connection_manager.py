"""HTTP connection manager of Envoy's client listeners, for TCP and QUIC.

Envoy makes no decision: it parses requests, keeps paths and hosts unchanged, and reports the downstream connection to gate.
"""

from pathlib import Path

from config.options import Options
from foundation.web.problem_details import default_advice
from proxy.envoy.resources.bootstrap import TYPE, Json, file_config_source, file_log
from proxy.envoy.resources.certificate_secrets import certificate_names
from proxy.envoy.resources.file_discovery import certificate_file
from proxy.envoy.resources.internal_headers import AUTHORIZED, STREAM_ID, early_header_mutation
from proxy.envoy.resources.response_filter import lacks_metadata
from proxy.envoy.resources.upgrade_reaper import DELAYED_CLOSE_SECONDS
from proxy.listener.http1.request_head import HTTP_1_1_REQUIRED
from proxy.listener.listener_limits import ListenerLimits

GROUPS = ("X25519MLKEM768", "X25519", "P-256", "P-384")
# Per connection; RFC 9113 6.5.2 recommends at least 100.
MAX_STREAMS = 100
# Statuses with a specific hint; for the others it is to try again.
_LOCAL_REPLY_STATUSES = (400, 408, 411, 413, 414, 421, 426, 431, 501, 505)
LOG_REJECTED = "refused "
# Used in responses and the log, because Envoy (1.40) has no id for a request whose head is invalid.
_REQUEST_ID_FORMAT = "%CONNECTION_ID%-%START_TIME(%s%6f)%"
_REQUEST_ID: Json = {"header": {"key": "x-request-id", "value": _REQUEST_ID_FORMAT}}
STREAM_WINDOW, CONNECTION_WINDOW = 256 * 1024, 1024 * 1024  # bytes


def http_connection_manager(log: str, limits: ListenerLimits, routes: list[Json], filters: list[Json], overrides: Json) -> Json:
    """Return the network filter. `filters` precede the router, and `overrides` are fields of this kind of connection.

    `log` is the path of Envoy's access log.
    """
    # gate counts statuses and times on every data plane, so Envoy's own counts are not exported.
    router_options: Json = {"suppress_envoy_headers": True, "dynamic_stats": False}
    router = typed("envoy.filters.http.router", "extensions.filters.http.router.v3.Router", **router_options)
    manager: Json = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        # The client is the peer; gate evaluates X-Forwarded-For, and only from trusted_proxies.
        "use_remote_address": True,
        "skip_xff_append": True,
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
        # gate parses the original path, and sets the upstream's.
        "normalize_path": False,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "forward_client_cert_details": "SANITIZE",
        "max_request_headers_kb": 64,
        "request_headers_timeout": seconds(limits.read_timeout),
        # Until gate has selected a route, whose own timeouts apply from then on.
        "stream_idle_timeout": seconds(limits.idle_timeout),
        "stream_flush_timeout": seconds(limits.idle_timeout),
        "delayed_close_timeout": seconds(DELAYED_CLOSE_SECONDS),
        "common_http_protocol_options": {
            "idle_timeout": seconds(limits.idle_timeout),
            "max_headers_count": 128,
            # gate removes such headers itself.
            "headers_with_underscores_action": "ALLOW",
        },
        "early_header_mutation_extensions": [early_header_mutation()],
        "local_reply_config": local_replies([]),
        "http_filters": [*filters, router],
        "route_config": {"name": "gate", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        **overrides,
        "access_log": [*overrides.get("access_log", ()), _refusal_log(log)],
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}


def local_replies(mappers: list[Json]) -> Json:
    """Return the local reply configuration: `mappers` first, then a default text with a hint per status."""
    # An application's success response to an upgrade request, which Envoy (1.40) turns into a local reply.
    no_upgrade: Json = {"filter": {"status_code_filter": _is(399, "LE")}, "body_format_override": _format("")}
    others: Json = {"filter": {"status_code_filter": _is(0, "GE")}, "headers_to_add": [_REQUEST_ID]}
    return {"mappers": [*mappers, no_upgrade, *map(local_reply, _LOCAL_REPLY_STATUSES), others], "body_format": _text(503)}


def local_reply(status: int) -> Json:
    """Return the mapper of Envoy's local replies with this status."""
    return {"filter": {"status_code_filter": _is(status)}, "body_format_override": _text(status), "headers_to_add": [_REQUEST_ID]}


def _refusal_log(path: str) -> Json:
    """Return the access log of requests that Envoy rejects itself. Requests that reached gate have its secret."""
    not_from_gate: Json = {"header_filter": {"header": {"name": AUTHORIZED, "present_match": True, "invert_match": True}}}
    is_error: Json = {"status_code_filter": _is(400, "GE")}
    line = f"{LOG_REJECTED}%DOWNSTREAM_REMOTE_ADDRESS% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS% {_REQUEST_ID_FORMAT}\n"
    return file_log(path, line, {"and_filter": {"filters": [is_error, not_from_gate, lacks_metadata(STREAM_ID)]}})


def _is(status: int, operator: str = "EQ") -> Json:
    return {"comparison": {"op": operator, "value": {"default_value": status, "runtime_key": "gate.none"}}}


def _text(status: int) -> Json:
    reason = HTTP_1_1_REQUIRED if status == 426 else "%LOCAL_REPLY_BODY%"
    return _format(f"%RESPONSE_CODE% {reason}\n{default_advice(status)}\n")


def _format(text: str) -> Json:
    return {"text_format_source": {"inline_string": text}, "content_type": "text/plain; charset=utf-8"}


def tls(options: Options, files: Path, protocols: list[str], parameters: Json) -> Json:
    """Return the common TLS context with the configured certificates and these ALPN protocols."""
    return {
        "alpn_protocols": protocols,
        "tls_params": {"tls_maximum_protocol_version": "TLSv1_3", "ecdh_curves": list(GROUPS), **parameters},
        "tls_certificate_sds_secret_configs": [
            {"name": name, "sds_config": file_config_source(files, certificate_file(name))} for name in certificate_names(options)
        ],
    }


def typed(name: str, type_: str, **fields: object) -> Json:
    return {"name": name, "typed_config": {"@type": TYPE + type_, **fields}}


def seconds(timeout: float) -> str:
    """Format a timeout; infinity becomes 0, Envoy's value for no limit."""
    return "0s" if timeout == float("inf") else f"{timeout:.3f}s"
