"""Envoy's listener, which people reach.  It decides nothing: whatever arrives is shown to gate first.

No route looks at a host or a path, and gate names the cluster of each request.  So there is no second reading of these that could differ
from gate's: Envoy passes them on as they came, and sends what gate wrote.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from config.options import Options
from proxy import keep_alive
from proxy.envoy.resources import ended_upgrades
from proxy.envoy.resources.answers import failures
from proxy.envoy.resources.bootstrap import ACME, TYPE, UNREAD, Json, watched
from proxy.envoy.resources.certificates import certificate_names
from proxy.envoy.resources.discovery import certificate_file
from proxy.envoy.resources.edge_headers import told_by_envoy
from proxy.envoy.resources.ended_upgrades import KEPT_SECONDS
from proxy.envoy.resources.judge_filter import JudgeFilter
from proxy.listener.limits import ListenerLimits
from proxy.listener.tls.self_signed import ACME_TLS

# Seconds by which Envoy is more patient than gate, where gate's bound is to be the one that counts.
_MARGIN = 60.0
GROUPS = ("X25519MLKEM768", "X25519", "P-256", "P-384")
TLS_1_2 = (
    *("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    *("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"),
)

# What a method is, gate says.
_HTTP1 = {"allow_custom_methods": True}
_HTTP2 = {
    "max_concurrent_streams": 128,
    "initial_stream_window_size": 256 * 1024,
    "initial_connection_window_size": 1024 * 1024,
}


class CarriedAgain(Protocol):
    """What stands before the judge, and the route of what it carries without it."""

    def local_replies(self) -> list[Json]: ...

    def access_log(self) -> Json: ...

    def filters(self) -> list[Json]: ...

    def route(self, idle: str) -> Json: ...


def listener(
    options: Options, files: Path, judge: JudgeFilter, certificate_hosts: Sequence[str], again: CarriedAgain | None = None
) -> Json:
    """Listener resource; clients of `certificate_hosts` show certificates."""
    limits = ListenerLimits.from_options(options)
    address = options.address
    tunnels = [] if options.insecure_server else tunnel_hosts(options)
    certificate_hosts = [host for host in certificate_hosts if host not in tunnels]
    chains = [_chain(options, limits, files, judge, again, "everybody")]
    if certificate_hosts and not options.insecure_server:
        # Who names no host, or one that nobody has, is asked for a certificate, too: gate will look at the Host.
        chains = [_chain(options, limits, files, judge, again, "certified", certificate_hosts, asks=True)]
        if others := sorted(_hosts(options).difference(certificate_hosts, tunnels)):
            chains.append(_chain(options, limits, files, judge, again, "others", others))
        chains.append(_chain(options, limits, files, judge, again, "nameless", asks=True))
    # Each by itself: Envoy ends the connections of a chain that changes.
    chains += [
        {"name": f"tunnels-{host}", "filter_chain_match": {"server_names": [host]}, "filters": [_unread(_longest_silence(options, host))]}
        for host in tunnels
    ]
    if options.autocert and not options.insecure_server:
        chains += [_proofs(limits, chain) for chain in chains]
    filters: list[Json] = []
    if options.use_proxy_protocol:
        filters.append(_typed("envoy.filters.listener.proxy_protocol", "extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"))
    if not options.insecure_server:
        filters.append(_typed("envoy.filters.listener.tls_inspector", "extensions.filters.listener.tls_inspector.v3.TlsInspector"))
    return {
        "@type": f"{TYPE}config.listener.v3.Listener",
        "name": "edge",
        "address": {"socket_address": {"address": address.host or "::", "port_value": address.port, "ipv4_compat": not address.host}},
        # Another process on the same port would share its connections unnoticed.
        "enable_reuse_port": False,
        "socket_options": [{"level": level, "name": name, "int_value": value} for level, name, value in keep_alive.OPTIONS],
        "per_connection_buffer_limit_bytes": 256 * 1024,
        "listener_filters": filters,
        "listener_filters_timeout": _seconds(limits.read),
        "filter_chains": chains,
    }


def _hosts(options: Options) -> set[str]:
    own = (options.authenticate_service_url, options.forward_auth_url)
    return {route.from_.host for route in options.policy} | {url.host for url in own if url is not None}


def tunnel_hosts(options: Options) -> list[str]:
    """Hosts that have routes for TCP alone.  Envoy hands their connections to gate unread, TLS and all: it can't end one direction of a
    tunnel before the other (1.40), nor say by its end whether it broke off.
    """
    tcp = {route.from_.host for route in options.policy if route.is_tcp}
    return sorted(tcp.difference(route.from_.host for route in options.policy if not route.is_tcp))


def _longest_silence(options: Options, host: str) -> float:
    """Seconds in which nothing moves on a connection to the host that gate still wants; 0 for any number.  gate's own bounds end before."""
    silences = [route.idle_timeout.total_seconds() for route in options.policy if route.from_.host == host]
    idle = ListenerLimits.from_options(options).idle
    return 0.0 if 0.0 in silences or idle == float("inf") else max(idle, *silences) + _MARGIN


def _unread(silence: float, cluster: str = UNREAD, name: str = "unread") -> Json:
    """Filter that hands the bytes of a connection to gate as they come."""
    return _typed(
        "envoy.filters.network.tcp_proxy",
        "extensions.filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=name,
        cluster=cluster,
        idle_timeout=_seconds(silence),
    )


def _chain(
    options: Options,
    limits: ListenerLimits,
    files: Path,
    judge: JudgeFilter,
    again: CarriedAgain | None,
    name: str,
    hosts: Sequence[str] = (),
    *,
    asks: bool = False,
) -> Json:
    """For connections to these hosts, or to all others; `asks` for a client certificate."""
    chain: Json = {"name": name, "filters": [_connections(limits, judge, again, asks=asks)]}
    if hosts:
        chain["filter_chain_match"] = {"server_names": list(hosts)}
    if options.insecure_server:
        return chain
    common: Json = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_params": {
            "tls_minimum_protocol_version": f"TLSv{options.tls_min_version.replace('.', '_')}",
            "tls_maximum_protocol_version": "TLSv1_3",
            "cipher_suites": list(TLS_1_2),
            "ecdh_curves": list(GROUPS),
        },
        "tls_certificate_sds_secret_configs": [
            {"name": name, "sds_config": watched(files, certificate_file(name))} for name in certificate_names(options)
        ],
    }
    context: Json = {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": common}
    if asks:
        # Nobody is turned away here: gate verifies what was shown, and explains.
        common["validation_context"] = {
            "trusted_ca": {"inline_string": _authorities(options)},
            "trust_chain_verification": "ACCEPT_UNTRUSTED",
        }
        # A resumed connection would bring along a certificate that nobody has proved to hold in it.
        context |= {"disable_stateless_session_resumption": True, "disable_stateful_session_resumption": True}
    chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    chain["transport_socket_connect_timeout"] = _seconds(limits.read)
    return chain


def _proofs(limits: ListenerLimits, beside: Json) -> Json:
    """Chain beside another for an authority that looks whether a host is ours (RFC 8737): gate itself answers the handshake."""
    match = {**beside.get("filter_chain_match", {}), "application_protocols": [ACME_TLS.decode()]}
    return {"name": f"{beside['name']}-acme", "filter_chain_match": match, "filters": [_unread(limits.read, ACME, "acme")]}


def _authorities(options: Options) -> str:
    """For the list of names that a handshake brings to browsers, which choose by it what they offer."""
    found = dict.fromkeys(pem for pem in (options.client_ca, *(route.tls_downstream_client_ca for route in options.policy)) if pem)
    return "\n".join(pem.decode("ascii") for pem in found)


def _connections(limits: ListenerLimits, judge: JudgeFilter, again: CarriedAgain | None, *, asks: bool) -> Json:
    idle = _seconds(limits.idle)
    routes = [*([again.route(idle)] if again is not None else ()), *judge.routes(idle)]
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
        "request_headers_timeout": _seconds(limits.read),
        # Until gate has said where a request goes.  From then on its route counts.
        "stream_idle_timeout": _seconds(limits.idle),
        "stream_flush_timeout": _seconds(limits.idle),
        "delayed_close_timeout": _seconds(KEPT_SECONDS),
        "common_http_protocol_options": {
            "idle_timeout": _seconds(limits.idle),
            "max_headers_count": 128,
            # gate leaves such headers out, as it always does.
            "headers_with_underscores_action": "ALLOW",
        },
        "http_protocol_options": _HTTP1,
        "http2_protocol_options": _HTTP2,
        "upgrade_configs": [{"upgrade_type": kind} for kind in ("websocket", "spdy/3.1", "CONNECT")],
        "early_header_mutation_extensions": [told_by_envoy()],
        "access_log": [judge.access_log(), ended_upgrades.access_log(judge.log), *([again.access_log()] if again is not None else ())],
        "local_reply_config": {"mappers": [failures(), *(again.local_replies() if again is not None else ())]},
        "http_filters": [
            *(again.filters() if again is not None else ()),
            *judge.filters(),
            _typed("envoy.filters.http.router", "extensions.filters.http.router.v3.Router", suppress_envoy_headers=True),
        ],
        "route_config": {"name": "gate", "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
    }
    if asks:
        manager["forward_client_cert_details"] = "SANITIZE_SET"
        manager["set_current_client_cert_details"] = {"cert": True, "chain": True}
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}


def _typed(name: str, type_: str, **fields: object) -> Json:
    return {"name": name, "typed_config": {"@type": TYPE + type_, **fields}}


def _seconds(seconds: float) -> str:
    """Envoy's 0 is no limit, as infinity is ours."""
    return "0s" if seconds == float("inf") else f"{seconds:.3f}s"
