"""Envoy's public listener. Every request is checked by gate first.

No route matches a host or path; gate selects the cluster of each request. So Envoy cannot interpret them differently from gate: it
reports them unchanged, and sends what gate sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from config.fields.basic_types import Networks
from config.options import Options
from proxy import tcp_keepalive
from proxy.envoy.resources import upgrade_reaper
from proxy.envoy.resources.bootstrap import ACME, PASSTHROUGH, TYPE, Json
from proxy.envoy.resources.configured_hosts import all_hosts, client_certificate_hosts, http3_hosts, tunnel_hosts
from proxy.envoy.resources.ext_authz_filter import LENGTH_REQUIRED, ExtAuthzFilter
from proxy.envoy.resources.http3_listener import alt_svc_header
from proxy.envoy.resources.http_connection_manager import (
    CONNECTION_WINDOW,
    MAX_STREAMS,
    STREAM_WINDOW,
    http_connection_manager,
    local_replies,
    local_reply,
    seconds,
    tls,
    typed,
)
from proxy.envoy.resources.response_filter import body_timeout_reply, mark_local_replies
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.tls.self_signed import ACME_TLS

# Seconds added to Envoy's timeouts where gate's own must expire first.
_IDLE_MARGIN = 60.0
# Interval of upload progress logs: a fraction of `timeout_read`, at most this many seconds.
_MAX_PROGRESS_INTERVAL, _PROGRESS_FRACTION = 5.0, 1 / 6
_TLS_1_2 = (
    *("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    *("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"),
)

# gate validates methods.
_HTTP1 = {"allow_custom_methods": True}
_HTTP2 = {
    "initial_stream_window_size": STREAM_WINDOW,
    "initial_connection_window_size": CONNECTION_WINDOW,
}


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """Connections of one filter chain, by hosts and networks; empty means all others.

    `requests_client_cert` and `advertises_http3` are what Envoy does on them.
    """

    name: str
    hosts: frozenset[str] = frozenset()
    requests_client_cert: bool = False
    advertises_http3: bool = False
    networks: Networks = ()

    def match(self) -> Json:
        """Return Envoy's FilterChainMatch, empty for the default chain."""
        ranges = [{"address_prefix": str(network.network_address), "prefix_len": network.prefixlen} for network in self.networks]
        return ({"server_names": sorted(self.hosts)} if self.hosts else {}) | ({"source_prefix_ranges": ranges} if ranges else {})


def edge_listener(options: Options, files: Path, ext_authz: ExtAuthzFilter) -> Json:
    """Return the listener resource."""
    limits = ListenerLimits.from_options(options)
    address = options.address
    kinds = _filter_chain_kinds(options)
    chains = [_chain(options, limits, files, ext_authz, kind) for kind in [*kinds, *_trusted_proxy_kinds(options, kinds)]]
    tunnels = [] if options.insecure_server else sorted(tunnel_hosts(options))
    # One chain per host, because Envoy closes the connections of a chain that changes.
    chains += [
        {"name": f"tunnels-{host}", "filter_chain_match": {"server_names": [host]}, "filters": [_tcp_passthrough(_max_idle(options, host))]}
        for host in tunnels
    ]
    if options.autocert and not options.insecure_server:
        chains += [_acme_chain(limits, chain) for chain in chains]
    filters: list[Json] = []
    if options.use_proxy_protocol:
        filters.append(typed("envoy.filters.listener.proxy_protocol", "extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"))
    if not options.insecure_server:
        filters.append(typed("envoy.filters.listener.tls_inspector", "extensions.filters.listener.tls_inspector.v3.TlsInspector"))
    return {
        "@type": f"{TYPE}config.listener.v3.Listener",
        "name": "edge",
        "address": {"socket_address": {"address": address.host or "::", "port_value": address.port, "ipv4_compat": not address.host}},
        # Another process could otherwise share the port unnoticed.
        "enable_reuse_port": False,
        "socket_options": [{"level": level, "name": name, "int_value": value} for level, name, value in tcp_keepalive.OPTIONS],
        "per_connection_buffer_limit_bytes": 256 * 1024,
        "listener_filters": filters,
        "listener_filters_timeout": seconds(limits.read_timeout),
        "filter_chains": chains,
    }


def _max_idle(options: Options, host: str) -> float:
    """Return the idle timeout in seconds of a host's tunnels, longer than gate's own; 0 means no limit."""
    idle_timeouts = [route.idle_timeout.total_seconds() for route in options.policy if route.from_.host == host]
    idle = ListenerLimits.from_options(options).idle_timeout
    return 0.0 if 0.0 in idle_timeouts or idle == float("inf") else max(idle, *idle_timeouts) + _IDLE_MARGIN


def _tcp_passthrough(idle_timeout: float, cluster: str = PASSTHROUGH, name: str = "unread") -> Json:
    """Return the filter that tunnels a connection to gate unparsed."""
    return typed(
        "envoy.filters.network.tcp_proxy",
        "extensions.filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=name,
        cluster=cluster,
        idle_timeout=seconds(idle_timeout),
    )


def _filter_chain_kinds(options: Options) -> list[ConnectionKind]:
    if options.insecure_server:
        return [ConnectionKind("everybody")]
    tunnels = tunnel_hosts(options)
    with_client_cert, http3 = client_certificate_hosts(options) - tunnels, http3_hosts(options)
    by_tcp = all_hosts(options) - tunnels - with_client_cert - http3 if http3 else set()
    kinds = [ConnectionKind("by-tcp", frozenset(by_tcp))] if by_tcp else []
    if not with_client_cert:
        return [ConnectionKind("everybody", advertises_http3=bool(http3)), *kinds]
    others = all_hosts(options) - tunnels - with_client_cert - by_tcp
    if others:
        kinds.append(ConnectionKind("others", frozenset(others), advertises_http3=bool(http3)))
    # Connections without a known server name are also asked for a certificate, because the Host header may require one.
    return [
        ConnectionKind("certified", frozenset(with_client_cert), requests_client_cert=True),
        *kinds,
        ConnectionKind("nameless", requests_client_cert=True),
    ]


def _trusted_proxy_kinds(options: Options, kinds: Sequence[ConnectionKind]) -> list[ConnectionKind]:
    """Return the kinds of trusted proxies' connections, which get one stream per connection.

    Only Envoy forwards to `upstream_http2` routes, and it can only end a request together with its connection. With several streams, a
    reset would affect other clients of the proxy.
    """
    networks = options.trusted_proxies
    if not networks or not any(route.upstream_http2 for route in options.policy):
        return []
    return [replace(kind, name=f"{kind.name}-proxies", networks=networks) for kind in kinds]


def _chain(options: Options, limits: ListenerLimits, files: Path, ext_authz: ExtAuthzFilter, kind: ConnectionKind) -> Json:
    connections = _connections(
        limits, ext_authz, requests_client_cert=kind.requests_client_cert, streams=1 if kind.networks else MAX_STREAMS
    )
    if kind.advertises_http3:
        connections["typed_config"]["route_config"]["response_headers_to_add"] = [alt_svc_header(options)]
    chain: Json = {"name": kind.name, "filters": [connections]}
    if match := kind.match():
        chain["filter_chain_match"] = match
    if options.insecure_server:
        return chain
    lowest = f"TLSv{options.tls_min_version.replace('.', '_')}"
    common = tls(options, files, ["h2", "http/1.1"], {"tls_minimum_protocol_version": lowest, "cipher_suites": list(_TLS_1_2)})
    context: Json = {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": common}
    if kind.requests_client_cert:
        # Envoy accepts any certificate; gate verifies it, and shows an error page.
        common["validation_context"] = {
            "trusted_ca": {"inline_string": _client_ca_names(options)},
            "trust_chain_verification": "ACCEPT_UNTRUSTED",
        }
        # A resumed connection carries a certificate without proof of possession.
        context |= {"disable_stateless_session_resumption": True, "disable_stateful_session_resumption": True}
    chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    chain["transport_socket_connect_timeout"] = seconds(limits.read_timeout)
    return chain


def _acme_chain(limits: ListenerLimits, chain: Json) -> Json:
    """Return the chain that passes TLS-ALPN-01 handshakes (RFC 8737) for the hosts of another chain to gate."""
    match = {**chain.get("filter_chain_match", {}), "application_protocols": [ACME_TLS.decode()]}
    return {"name": f"{chain['name']}-acme", "filter_chain_match": match, "filters": [_tcp_passthrough(limits.read_timeout, ACME, "acme")]}


def _client_ca_names(options: Options) -> str:
    """Return the CA certificates whose names the handshake sends, by which browsers select client certificates."""
    authorities = dict.fromkeys(pem for pem in (options.client_ca, *(route.tls_downstream_client_ca for route in options.policy)) if pem)
    return "\n".join(pem.decode("ascii") for pem in authorities)


def _connections(limits: ListenerLimits, ext_authz: ExtAuthzFilter, *, requests_client_cert: bool, streams: int) -> Json:
    idle = seconds(limits.idle_timeout)
    overrides: Json = {
        "http_protocol_options": _HTTP1,
        "http2_protocol_options": _HTTP2 | {"max_concurrent_streams": streams},
        "upgrade_configs": [{"upgrade_type": kind} for kind in ("websocket", "spdy/3.1", "CONNECT")],
        "access_log": [ext_authz.access_log(), ext_authz.upload_log(), upgrade_reaper.access_log(ext_authz.log)],
        # The response to an undeclared body is not replaced by an error page of gate.
        "local_reply_config": local_replies([body_timeout_reply(), local_reply(LENGTH_REQUIRED), mark_local_replies()]),
    }
    if limits.read_timeout != float("inf"):
        overrides["access_log_options"] = {
            "access_log_flush_interval": seconds(min(_MAX_PROGRESS_INTERVAL, limits.read_timeout * _PROGRESS_FRACTION))
        }
    if requests_client_cert:
        overrides["forward_client_cert_details"] = "SANITIZE_SET"
        overrides["set_current_client_cert_details"] = {"cert": True, "chain": True}
    return http_connection_manager(
        ext_authz.log, limits, ext_authz.routes(idle, seconds(limits.read_timeout)), ext_authz.filters(), overrides
    )
