"""HTTP/3 listener of Envoy over QUIC (RFC 9114, RFC 9000), and its Alt-Svc header (RFC 7838).

Envoy cannot reset a single QUIC connection on demand, so gate forwards HTTP/3 requests itself to be able to end them with the session.
"""

from pathlib import Path

from config.options import Options
from proxy.envoy.resources.bootstrap import GATE, TYPE, Json
from proxy.envoy.resources.configured_hosts import all_hosts, http3_hosts
from proxy.envoy.resources.http_connection_manager import (
    CONNECTION_WINDOW,
    MAX_STREAMS,
    STREAM_WINDOW,
    http_connection_manager,
    seconds,
    tls,
)
from proxy.envoy.resources.internal_headers import AUTHORIZED
from proxy.listener.listener_limits import ListenerLimits

# Lifetime of the advertisement (RFC 7838 3.1). Clients fall back to TCP.
_MAX_AGE_SECONDS = 24 * 60 * 60
_HTTPS = 443
_ANY_PATH: Json = {"safe_regex": {"regex": ".*"}}


def alt_svc_header(options: Options) -> Json:
    """Return the Alt-Svc header with the public port, which may differ from the listening one."""
    port = options.authenticate_service_url.port or _HTTPS
    value = f'h3=":{port}"; ma={_MAX_AGE_SECONDS}'
    return {"header": {"key": "alt-svc", "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}


def http3_listener(options: Options, files: Path, secret: str, log: str) -> Json | None:
    """Return the listener resource, or None if no host serves HTTP/3. A connection to any other host fails in its handshake.

    `secret` authenticates Envoy to gate's internal listener, and `log` is the path of Envoy's access log.
    """
    hosts = http3_hosts(options)
    if not hosts:
        return None
    limits = ListenerLimits.from_options(options)
    overrides: Json = {
        "codec_type": "HTTP3",
        "http3_protocol_options": {"quic_protocol_options": _quic_options()},
        "route_config": _route_config(options, hosts, secret, seconds(limits.idle_timeout)),
    }
    chain: Json = {
        "name": "http3",
        "filter_chain_match": {"server_names": sorted(hosts)},
        "filters": [http_connection_manager(log, limits, [], [], overrides)],
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
        # One socket per worker; the kernel delivers all packets of a connection to the same one.
        "enable_reuse_port": True,
        "udp_listener_config": {
            "quic_options": {
                "quic_protocol_options": _quic_options(),
                "idle_timeout": seconds(limits.idle_timeout),
                "crypto_handshake_timeout": seconds(limits.read_timeout),
                # Clients reconnect instead of migrating, because Envoy (1.40) keeps reporting a connection's first address.
                "send_disable_active_migration": True,
            }
        },
        "per_connection_buffer_limit_bytes": STREAM_WINDOW,
        "filter_chains": [chain],
    }


def _transport(options: Options, files: Path) -> Json:
    return {
        "@type": f"{TYPE}extensions.transport_sockets.quic.v3.QuicDownstreamTransport",
        # Early data can be replayed (RFC 8446 8).
        "enable_early_data": False,
        "downstream_tls_context": {"common_tls_context": tls(options, files, ["h3"], {"tls_minimum_protocol_version": "TLSv1_3"})},
    }


def _quic_options() -> Json:
    return {
        "max_concurrent_streams": MAX_STREAMS,
        "initial_stream_window_size": STREAM_WINDOW,
        "initial_connection_window_size": CONNECTION_WINDOW,
    }


def _route_config(options: Options, hosts: set[str], secret: str, flush: str) -> Json:
    """Return the routes of these hosts to gate's internal listener, for any target except CONNECT."""
    secret_header: Json = {"header": {"key": AUTHORIZED, "value": secret}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    action: Json = {
        "route": {"cluster": GATE, "timeout": "0s", "idle_timeout": "0s", "flush_timeout": flush},
        "request_headers_to_add": [secret_header],
    }
    # Hosts without HTTP/3 must use TCP, whatever the SNI was (RFC 9110 15.5.20). Each is listed, because a name takes precedence over a
    # wildcard with HTTP/3.
    others = [*sorted(all_hosts(options) - hosts), "*"]
    return {
        "name": "http3",
        "ignore_port_in_host_matching": True,
        "virtual_hosts": [
            {"name": "gate", "domains": sorted(hosts), "routes": [{"match": {"prefix": "/"}, **action}, {"match": _ANY_PATH, **action}]},
            {"name": "others", "domains": others, "routes": [{"match": _ANY_PATH, "direct_response": {"status": 421}}]},
        ],
    }
