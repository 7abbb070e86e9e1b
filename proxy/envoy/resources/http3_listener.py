"""HTTP/3 of Envoy: a listener for QUIC (RFC 9114, RFC 9000), and how clients learn of it (RFC 7838).

All that comes by it is carried by gate, behind Envoy: gate judges it once, and its answers end with the session as they do on any
connection of gate's own.  What Envoy carries by itself ends with its client's connection, and one of QUIC nobody can reset from outside.
"""

from pathlib import Path

from config.options import Options
from proxy.envoy.resources.bootstrap import GATE, TYPE, Json
from proxy.envoy.resources.configured_hosts import hosts_of, http3_hosts
from proxy.envoy.resources.http_connection_manager import CONNECTION_WINDOW, MOST_STREAMS, STREAM_WINDOW, http_connections, seconds, tls
from proxy.envoy.resources.internal_headers import JUDGED
from proxy.listener.listener_limits import ListenerLimits

# As long a client may remember it (RFC 7838 3.1); one that can't reach it uses TCP.
_REMEMBERED_SECONDS = 24 * 60 * 60
_HTTPS = 443
_ANYTHING: Json = {"safe_regex": {"regex": ".*"}}


def alternative(options: Options) -> Json:
    """Header that tells clients of HTTP/3, on the port by which they reach us, which need not be the one that we listen on."""
    port = options.authenticate_service_url.port or _HTTPS
    value = f'h3=":{port}"; ma={_REMEMBERED_SECONDS}'
    return {"header": {"key": "alt-svc", "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def http3_listener(options: Options, files: Path, mark: str, log: str) -> Json | None:
    """Listener resource, or None where no host is reached so.  `mark` is what gate's internal listener knows us by, and `log`
    the path of Envoy's access log.

    A connection to any other host ends in its handshake.
    """
    hosts = http3_hosts(options)
    if not hosts:
        return None
    limits = ListenerLimits.from_options(options)
    more: Json = {
        "codec_type": "HTTP3",
        "http3_protocol_options": {"quic_protocol_options": _windows()},
        "route_config": _route_config(options, hosts, mark, seconds(limits.idle_timeout)),
    }
    chain: Json = {
        "name": "http3",
        "filter_chain_match": {"server_names": sorted(hosts)},
        "filters": [http_connections(log, limits, [], [], more)],
        "transport_socket": {"name": "envoy.transport_sockets.quic", "typed_config": _transport(options, files)},
    }
    address = options.address
    return {
        "@type": f"{TYPE}config.listener.v3.Listener",
        "name": "http3",
        "address": {
            "socket_address": {
                "protocol": "UDP",
                "address": address.host or "::",
                "port_value": address.port,
                "ipv4_compat": not address.host,
            }
        },
        # Each of Envoy's workers has a socket of its own, to which the kernel brings all of a connection.
        "enable_reuse_port": True,
        "udp_listener_config": {
            "quic_options": {
                "quic_protocol_options": _windows(),
                "idle_timeout": seconds(limits.idle_timeout),
                "crypto_handshake_timeout": seconds(limits.read_timeout),
                # Whoever is somewhere else connects anew: Envoy (1.40) goes on to tell the address with which a connection began.
                "send_disable_active_migration": True,
            }
        },
        "per_connection_buffer_limit_bytes": STREAM_WINDOW,
        "filter_chains": [chain],
    }


def _transport(options: Options, files: Path) -> Json:
    return {
        "@type": f"{TYPE}extensions.transport_sockets.quic.v3.QuicDownstreamTransport",
        # What a client sends before its handshake is over anybody may send again (RFC 8446 8).
        "enable_early_data": False,
        "downstream_tls_context": {"common_tls_context": tls(options, files, ["h3"], {"tls_minimum_protocol_version": "TLSv1_3"})},
    }


def _windows() -> Json:
    return {
        "max_concurrent_streams": MOST_STREAMS,
        "initial_stream_window_size": STREAM_WINDOW,
        "initial_connection_window_size": CONNECTION_WINDOW,
    }


def _route_config(options: Options, hosts: set[str], mark: str, flush: str) -> Json:
    """Routes to gate's internal listener, whatever the target, for these hosts.  CONNECT, which has no target, is not taken."""
    added: Json = {"header": {"key": JUDGED, "value": mark}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    way: Json = {
        "route": {"cluster": GATE, "timeout": "0s", "idle_timeout": "0s", "flush_timeout": flush},
        "request_headers_to_add": [added],
    }
    # Whatever its handshake said: what is not for HTTP/3 comes by TCP (RFC 9110 15.5.20).  Each is named, as a name counts before a
    # wildcard that is for HTTP/3.
    others = [*sorted(hosts_of(options) - hosts), "*"]
    return {
        "name": "http3",
        "ignore_port_in_host_matching": True,
        "virtual_hosts": [
            {"name": "gate", "domains": sorted(hosts), "routes": [{"match": {"prefix": "/"}, **way}, {"match": _ANYTHING, **way}]},
            {"name": "others", "domains": others, "routes": [{"match": _ANYTHING, "direct_response": {"status": 421}}]},
        ],
    }
