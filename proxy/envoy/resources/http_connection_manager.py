"""HTTP connections of clients to Envoy: what holds for each of them, whatever it runs over.

Envoy decides nothing: it reads a request, passes paths and hosts on as they came, and says what it knows of its client.
"""

from pathlib import Path

from config.options import Options
from foundation.web.problem_details import default_advice
from proxy.envoy.resources.bootstrap import TYPE, Json, file_log, watched
from proxy.envoy.resources.certificate_secrets import certificate_names
from proxy.envoy.resources.file_discovery import certificate_file
from proxy.envoy.resources.internal_headers import JUDGED, NUMBER, told_by_envoy
from proxy.envoy.resources.response_filter import not_said_of
from proxy.envoy.resources.upgrade_reaper import KEPT_SECONDS
from proxy.listener.http1.request_head import HTTP_1_1_REQUIRED
from proxy.listener.listener_limits import ListenerLimits

GROUPS = ("X25519MLKEM768", "X25519", "P-256", "P-384")
# For each connection; RFC 9113 6.5.2 advises against fewer.
MOST_STREAMS = 100
# Besides those for which the only advice is to try again.
_OWN_ANSWERS = (400, 408, 411, 413, 414, 421, 426, 431, 501, 505)
OF_REFUSED = "refused "
# The same in an answer and in the log: Envoy (1.40) has no id for a request whose head it could not read.
_REQUEST_ID_FORMAT = "%CONNECTION_ID%-%START_TIME(%s%6f)%"
_REQUEST_ID: Json = {"header": {"key": "x-request-id", "value": _REQUEST_ID_FORMAT}}
STREAM_WINDOW, CONNECTION_WINDOW = 256 * 1024, 1024 * 1024  # bytes


def http_connections(log: str, limits: ListenerLimits, routes: list[Json], filters: list[Json], more: Json) -> Json:
    """Network filter that reads requests; `filters` stand before the router, and `more` is what only this kind of connection has.

    Envoy writes its access log to the path `log`.
    """
    # Statuses and times are counted by gate, whoever carries a request; of Envoy's own counts of them none is told.
    own: Json = {"suppress_envoy_headers": True, "dynamic_stats": False}
    router = typed("envoy.filters.http.router", "extensions.filters.http.router.v3.Router", **own)
    manager: Json = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        # The peer is who asks, whatever X-Forwarded-For says; gate believes that of trusted_proxies only.
        "use_remote_address": True,
        "skip_xff_append": True,
        "generate_request_id": False,
        "preserve_external_request_id": True,
        "server_header_transformation": "PASS_THROUGH",
        # gate reads the path as it came, once, and writes what the upstream gets.
        "normalize_path": False,
        "merge_slashes": False,
        "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
        "forward_client_cert_details": "SANITIZE",
        "max_request_headers_kb": 64,
        "request_headers_timeout": seconds(limits.read_timeout),
        # Until gate has said where a request goes.  From then on its route counts.
        "stream_idle_timeout": seconds(limits.idle_timeout),
        "stream_flush_timeout": seconds(limits.idle_timeout),
        "delayed_close_timeout": seconds(KEPT_SECONDS),
        "common_http_protocol_options": {
            "idle_timeout": seconds(limits.idle_timeout),
            "max_headers_count": 128,
            # gate leaves such headers out, as it always does.
            "headers_with_underscores_action": "ALLOW",
        },
        "early_header_mutation_extensions": [told_by_envoy()],
        "local_reply_config": local_replies([]),
        "http_filters": [*filters, router],
        "route_config": {"name": "gate", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        **more,
        "access_log": [*more.get("access_log", ()), _refusal_log(log)],
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}


def local_replies(mappers: list[Json]) -> Json:
    """Answers of Envoy's own: a text that says what to do next, where none of `mappers`, which come first, says it better."""
    # A success of an application in place of the upgrade that was asked for: Envoy (1.40) makes a local reply of it.
    no_upgrade: Json = {"filter": {"status_code_filter": _is(399, "LE")}, "body_format_override": _format("")}
    others: Json = {"filter": {"status_code_filter": _is(0, "GE")}, "headers_to_add": [_REQUEST_ID]}
    return {"mappers": [*mappers, no_upgrade, *map(own_answer, _OWN_ANSWERS), others], "body_format": _text(503)}


def own_answer(status: int) -> Json:
    """Mapper of Envoy's own answers of this status."""
    return {"filter": {"status_code_filter": _is(status)}, "body_format_override": _text(status), "headers_to_add": [_REQUEST_ID]}


def _refusal_log(path: str) -> Json:
    """Log of what Envoy answers itself, without gate and without an upstream.  gate is known by the mark that its requests have."""
    unread: Json = {"header_filter": {"header": {"name": JUDGED, "present_match": True, "invert_match": True}}}
    answered: Json = {"status_code_filter": _is(400, "GE")}
    line = f"{OF_REFUSED}%DOWNSTREAM_REMOTE_ADDRESS% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS% {_REQUEST_ID_FORMAT}\n"
    return file_log(path, line, {"and_filter": {"filters": [answered, unread, not_said_of(NUMBER)]}})


def _is(status: int, operator: str = "EQ") -> Json:
    return {"comparison": {"op": operator, "value": {"default_value": status, "runtime_key": "gate.none"}}}


def _text(status: int) -> Json:
    reason = HTTP_1_1_REQUIRED if status == 426 else "%LOCAL_REPLY_BODY%"
    return _format(f"%RESPONSE_CODE% {reason}\n{default_advice(status)}\n")


def _format(text: str) -> Json:
    return {"text_format_source": {"inline_string": text}, "content_type": "text/plain; charset=utf-8"}


def tls(options: Options, files: Path, protocols: list[str], parameters: Json) -> Json:
    """TLS context with the certificates of the configuration, for these protocols (ALPN)."""
    return {
        "alpn_protocols": protocols,
        "tls_params": {"tls_maximum_protocol_version": "TLSv1_3", "ecdh_curves": list(GROUPS), **parameters},
        "tls_certificate_sds_secret_configs": [
            {"name": name, "sds_config": watched(files, certificate_file(name))} for name in certificate_names(options)
        ],
    }


def typed(name: str, type_: str, **fields: object) -> Json:
    return {"name": name, "typed_config": {"@type": TYPE + type_, **fields}}


def seconds(number: float) -> str:
    """Envoy's 0 is no limit, as infinity is ours."""
    return "0s" if number == float("inf") else f"{number:.3f}s"
