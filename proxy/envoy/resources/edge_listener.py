"""Envoy's listener, which people reach.  It decides nothing: whatever arrives is shown to gate first.

No route looks at a host or a path, and gate names the cluster of each request.  So there is no second reading of these that could differ
from gate's: Envoy passes them on as they came, and sends what gate wrote.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from config.fields.basic_types import Networks
from config.options import Options
from proxy import tcp_keepalive
from proxy.envoy.resources import upgrade_reaper
from proxy.envoy.resources.bootstrap import ACME, TYPE, UNREAD, Json
from proxy.envoy.resources.configured_hosts import certificate_hosts, hosts_of, http3_hosts, tunnel_hosts
from proxy.envoy.resources.ext_authz_filter import UNANNOUNCED, JudgeFilter
from proxy.envoy.resources.http3_listener import alternative
from proxy.envoy.resources.http_connection_manager import (
    CONNECTION_WINDOW,
    MOST_STREAMS,
    STREAM_WINDOW,
    http_connections,
    local_replies,
    own_answer,
    seconds,
    tls,
    typed,
)
from proxy.envoy.resources.response_filter import failures, silences
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.tls.self_signed import ACME_TLS

# Seconds by which Envoy is more patient than gate, where gate's bound is to be the one that counts.
_MARGIN = 60.0
# Seconds between two looks at what has come of a body, and the part of `timeout_read` that they are.
_MOST_BETWEEN, _PART_OF_READ = 5.0, 1 / 6
_TLS_1_2 = (
    *("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"),
    *("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305"),
)

# What a method is, gate says.
_HTTP1 = {"allow_custom_methods": True}
_HTTP2 = {
    "initial_stream_window_size": STREAM_WINDOW,
    "initial_connection_window_size": CONNECTION_WINDOW,
}


@dataclass(frozen=True, slots=True)
class ConnectionKind:
    """Kind of connections: to which hosts, or to all others; from which networks, or from all others; whether Envoy `asks` for a client
    certificate, and tells of HTTP/3."""

    name: str
    hosts: frozenset[str] = frozenset()
    asks: bool = False
    tells_http3: bool = False
    networks: Networks = ()

    def match(self) -> Json:
        """Envoy's FilterChainMatch; empty for the connections that no other kind takes."""
        ranges = [{"address_prefix": str(network.network_address), "prefix_len": network.prefixlen} for network in self.networks]
        return ({"server_names": sorted(self.hosts)} if self.hosts else {}) | ({"source_prefix_ranges": ranges} if ranges else {})


def listener(options: Options, files: Path, judge: JudgeFilter) -> Json:
    """Listener resource."""
    limits = ListenerLimits.from_options(options)
    address = options.address
    kinds = _kinds(options)
    chains = [_chain(options, limits, files, judge, kind) for kind in [*kinds, *_of_proxies(options, kinds)]]
    tunnels = [] if options.insecure_server else sorted(tunnel_hosts(options))
    # Each by itself: Envoy ends the connections of a chain that changes.
    chains += [
        {"name": f"tunnels-{host}", "filter_chain_match": {"server_names": [host]}, "filters": [_unread(_longest_silence(options, host))]}
        for host in tunnels
    ]
    if options.autocert and not options.insecure_server:
        chains += [_proofs(limits, chain) for chain in chains]
    filters: list[Json] = []
    if options.use_proxy_protocol:
        filters.append(typed("envoy.filters.listener.proxy_protocol", "extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"))
    if not options.insecure_server:
        filters.append(typed("envoy.filters.listener.tls_inspector", "extensions.filters.listener.tls_inspector.v3.TlsInspector"))
    return {
        "@type": f"{TYPE}config.listener.v3.Listener",
        "name": "edge",
        "address": {"socket_address": {"address": address.host or "::", "port_value": address.port, "ipv4_compat": not address.host}},
        # Another process on the same port would share its connections unnoticed.
        "enable_reuse_port": False,
        "socket_options": [{"level": level, "name": name, "int_value": value} for level, name, value in tcp_keepalive.OPTIONS],
        "per_connection_buffer_limit_bytes": 256 * 1024,
        "listener_filters": filters,
        "listener_filters_timeout": seconds(limits.read_timeout),
        "filter_chains": chains,
    }


def _longest_silence(options: Options, host: str) -> float:
    """Seconds in which nothing moves on a connection to the host that gate still wants; 0 for any number.  gate's own bounds end before."""
    silences = [route.idle_timeout.total_seconds() for route in options.policy if route.from_.host == host]
    idle = ListenerLimits.from_options(options).idle_timeout
    return 0.0 if 0.0 in silences or idle == float("inf") else max(idle, *silences) + _MARGIN


def _unread(silence: float, cluster: str = UNREAD, name: str = "unread") -> Json:
    """Filter that hands the bytes of a connection to gate as they come."""
    return typed(
        "envoy.filters.network.tcp_proxy",
        "extensions.filters.network.tcp_proxy.v3.TcpProxy",
        stat_prefix=name,
        cluster=cluster,
        idle_timeout=seconds(silence),
    )


def _kinds(options: Options) -> list[ConnectionKind]:
    if options.insecure_server:
        return [ConnectionKind("everybody")]
    tunnels = tunnel_hosts(options)
    certified, http3 = certificate_hosts(options) - tunnels, http3_hosts(options)
    by_tcp = hosts_of(options) - tunnels - certified - http3 if http3 else set()
    kinds = [ConnectionKind("by-tcp", frozenset(by_tcp))] if by_tcp else []
    if not certified:
        return [ConnectionKind("everybody", tells_http3=bool(http3)), *kinds]
    others = hosts_of(options) - tunnels - certified - by_tcp
    if others:
        kinds.append(ConnectionKind("others", frozenset(others), tells_http3=bool(http3)))
    # Who names no host, or one that nobody has, is asked for a certificate, too: gate will look at the Host.
    return [ConnectionKind("certified", frozenset(certified), asks=True), *kinds, ConnectionKind("nameless", asks=True)]


def _of_proxies(options: Options, kinds: Sequence[ConnectionKind]) -> list[ConnectionKind]:
    """Kinds of the connections of trusted proxies.

    Only Envoy forwards to `upstream_http2` routes, and it ends a request with its whole connection, on which a proxy sends requests of
    several clients.  With one stream a connection, none but the client whose access has ended is cut.
    """
    networks = options.trusted_proxies
    if not networks or not any(route.upstream_http2 for route in options.policy):
        return []
    return [replace(kind, name=f"{kind.name}-proxies", networks=networks) for kind in kinds]


def _chain(options: Options, limits: ListenerLimits, files: Path, judge: JudgeFilter, kind: ConnectionKind) -> Json:
    connections = _connections(limits, judge, asks=kind.asks, streams=1 if kind.networks else MOST_STREAMS)
    if kind.tells_http3:
        connections["typed_config"]["route_config"]["response_headers_to_add"] = [alternative(options)]
    chain: Json = {"name": kind.name, "filters": [connections]}
    if match := kind.match():
        chain["filter_chain_match"] = match
    if options.insecure_server:
        return chain
    lowest = f"TLSv{options.tls_min_version.replace('.', '_')}"
    common = tls(options, files, ["h2", "http/1.1"], {"tls_minimum_protocol_version": lowest, "cipher_suites": list(_TLS_1_2)})
    context: Json = {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": common}
    if kind.asks:
        # Nobody is turned away here: gate verifies what was shown, and explains.
        common["validation_context"] = {
            "trusted_ca": {"inline_string": _authorities(options)},
            "trust_chain_verification": "ACCEPT_UNTRUSTED",
        }
        # A resumed connection would bring along a certificate that nobody has proved to hold in it.
        context |= {"disable_stateless_session_resumption": True, "disable_stateful_session_resumption": True}
    chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    chain["transport_socket_connect_timeout"] = seconds(limits.read_timeout)
    return chain


def _proofs(limits: ListenerLimits, beside: Json) -> Json:
    """Chain beside another for an authority that looks whether a host is ours (RFC 8737): gate itself answers the handshake."""
    match = {**beside.get("filter_chain_match", {}), "application_protocols": [ACME_TLS.decode()]}
    return {"name": f"{beside['name']}-acme", "filter_chain_match": match, "filters": [_unread(limits.read_timeout, ACME, "acme")]}


def _authorities(options: Options) -> str:
    """For the list of names that a handshake brings to browsers, which choose by it what they offer."""
    found = dict.fromkeys(pem for pem in (options.client_ca, *(route.tls_downstream_client_ca for route in options.policy)) if pem)
    return "\n".join(pem.decode("ascii") for pem in found)


def _connections(limits: ListenerLimits, judge: JudgeFilter, *, asks: bool, streams: int) -> Json:
    idle = seconds(limits.idle_timeout)
    more: Json = {
        "http_protocol_options": _HTTP1,
        "http2_protocol_options": _HTTP2 | {"max_concurrent_streams": streams},
        "upgrade_configs": [{"upgrade_type": kind} for kind in ("websocket", "spdy/3.1", "CONNECT")],
        "access_log": [judge.access_log(), judge.upload_log(), upgrade_reaper.access_log(judge.log)],
        # No page of gate's stands in for what is said of a body that was not announced: that is final.
        "local_reply_config": local_replies([silences(), own_answer(UNANNOUNCED), failures()]),
    }
    if limits.read_timeout != float("inf"):
        more["access_log_options"] = {"access_log_flush_interval": seconds(min(_MOST_BETWEEN, limits.read_timeout * _PART_OF_READ))}
    if asks:
        more["forward_client_cert_details"] = "SANITIZE_SET"
        more["set_current_client_cert_details"] = {"cert": True, "chain": True}
    return http_connections(judge.log, limits, judge.routes(idle, seconds(limits.read_timeout)), judge.filters(), more)
