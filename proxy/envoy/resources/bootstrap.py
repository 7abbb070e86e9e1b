"""Envoy's bootstrap configuration: clusters of gate's sockets, limits, and the files of the other resources."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]

TYPE = "type.googleapis.com/envoy."
# Clusters of gate's sockets: the authorization server, the internal listener, ACME challenges, connections that Envoy tunnels unparsed,
# and failover of requests that Envoy could not connect to their upstream.
EXT_AUTHZ, GATE, ACME, PASSTHROUGH, FAILOVER = "gate-judge", "gate", "gate-acme", "gate-unread", "gate-unconnected"
LISTENERS, CLUSTERS = "listeners.json", "clusters.json"
# More concurrent checks would not help one event loop; the others wait in Envoy, without a file descriptor.
MAX_EXT_AUTHZ_CONNECTIONS = 256
# Requests that may wait for a connection to gate.
MAX_PENDING = 16_384
# File descriptors that Envoy needs itself, and per worker.
_BASE_DESCRIPTORS, _WORKER_DESCRIPTORS = 64, 16
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


_TRANSPORTS = f"{TYPE}extensions.transport_sockets"
# Each connection starts with a PROXY protocol header (version 2).
_PROXY_PROTOCOL_TRANSPORT: Json = {
    "name": "envoy.transport_sockets.upstream_proxy_protocol",
    "typed_config": {
        "@type": f"{_TRANSPORTS}.proxy_protocol.v3.ProxyProtocolUpstreamTransport",
        "config": {"version": "V2"},
        "transport_socket": {
            "name": "envoy.transport_sockets.raw_buffer",
            "typed_config": {"@type": f"{_TRANSPORTS}.raw_buffer.v3.RawBuffer"},
        },
    },
}
_MIB = 1024 * 1024
# Fractions of the heap limit at which Envoy's overload actions start, in this order.
_SHRINK, _NO_KEEP_ALIVE, _NO_REQUESTS, _NO_CONNECTIONS = 0.90, 0.92, 0.95, 0.98
HEAP, CONNECTIONS = "envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.global_downstream_max_connections"
# Smaller streams are not reset; a power of two in bytes.
_LARGE_STREAM = 16


@dataclass(frozen=True, slots=True)
class EnvoyLimits:
    """Limits of the Envoy process: heap in MiB, and connections of clients, to gate's authorization server, to gate, and per upstream."""

    heap: int
    connections: int
    to_ext_authz: int = MAX_EXT_AUTHZ_CONNECTIONS
    to_gate: int = 1_000_000
    to_upstream: int = 1_000_000

    @classmethod
    def within(cls, descriptors: int, heap: int, connections: int, workers: int) -> Self:
        """Return limits that fit into this number of file descriptors, in Envoy and in gate.

        gate needs two per request that it forwards itself. An HTTP/2 client connection may need many upstream connections, so half of
        the rest is for those, and one upstream gets at most half of that.
        """
        to_ext_authz, to_gate = min(MAX_EXT_AUTHZ_CONNECTIONS, descriptors // 8), descriptors // 4
        remaining = max(4, descriptors - to_ext_authz - to_gate - _BASE_DESCRIPTORS - workers * _WORKER_DESCRIPTORS)
        return cls(heap, min(connections, remaining // 2), to_ext_authz, to_gate, remaining // 4)


@dataclass(frozen=True, slots=True)
class GateSockets:
    """Paths of gate's Unix sockets, by cluster."""

    ext_authz: Path
    gate: Path
    acme: Path
    passthrough: Path
    failover: Path

    @classmethod
    def in_directory(cls, directory: Path) -> Self:
        return cls(*(directory / name for name in ("judge", "gate", "acme", "unread", "unconnected")))

    def clusters(self, limits: EnvoyLimits) -> list[Json]:
        passthrough = {**gate_cluster(PASSTHROUGH, self.passthrough, limits.to_gate), "transport_socket": _PROXY_PROTOCOL_TRANSPORT}
        paths = ((GATE, self.gate), (ACME, self.acme), (FAILOVER, self.failover))
        return [
            gate_cluster(EXT_AUTHZ, self.ext_authz, limits.to_ext_authz),
            *(gate_cluster(name, path, limits.to_gate) for name, path in paths),
            passthrough,
        ]


def bootstrap(files: Path, sockets: GateSockets, admin: Path, limits: EnvoyLimits, listeners: Sequence[Json] = ()) -> Json:
    """Return the bootstrap configuration. `files` is the directory of the other resources, `admin` a Unix socket."""
    return {
        "node": {"id": "gate", "cluster": "gate"},
        # 0o600, because the admin interface can stop Envoy.
        "admin": {"address": {"pipe": {"path": str(admin), "mode": 0o600}}, "ignore_global_conn_limit": True},
        # Rejects a bare line feed in chunked bodies, and control bytes in chunk extensions.
        "layered_runtime": {"layers": [{"name": "gate", "static_layer": {"envoy.reloadable_features.strict_chunk_parsing": True}}]},
        "overload_manager": _overload(limits),
        "dynamic_resources": {"lds_config": file_config_source(files, LISTENERS), "cds_config": file_config_source(files, CLUSTERS)},
        "static_resources": {
            "listeners": list(listeners),
            "clusters": sockets.clusters(limits),
        },
    }


def _overload(limits: EnvoyLimits) -> Json:
    """Return the overload manager: it resets the largest streams first, then rejects requests, then new connections."""
    monitors = "extensions.resource_monitors"
    heap: Json = {"@type": f"{TYPE}{monitors}.fixed_heap.v3.FixedHeapConfig", "max_heap_size_bytes": limits.heap * _MIB}
    connections: Json = {
        "@type": f"{TYPE}{monitors}.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": limits.connections,
    }
    triggers = {
        name: {"threshold": {"value": threshold}}
        for name, threshold in (("shrink_heap", _SHRINK), ("disable_http_keepalive", _NO_KEEP_ALIVE))
    }
    triggers |= {"reset_high_memory_stream": {"scaled": {"scaling_threshold": _SHRINK, "saturation_threshold": _NO_CONNECTIONS}}}
    triggers |= {
        name: {"threshold": {"value": threshold}}
        for name, threshold in (("stop_accepting_requests", _NO_REQUESTS), ("stop_accepting_connections", _NO_CONNECTIONS))
    }
    return {
        "refresh_interval": "0.250s",
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": _LARGE_STREAM},
        "resource_monitors": [{"name": HEAP, "typed_config": heap}, {"name": CONNECTIONS, "typed_config": connections}],
        "actions": [
            {"name": f"envoy.overload_actions.{name}", "triggers": [{"name": HEAP, **trigger}]} for name, trigger in triggers.items()
        ],
    }


def file_config_source(files: Path, name: str) -> Json:
    """Return a config source for a file, which Envoy reads again when it is replaced."""
    return {
        "path_config_source": {"path": str(files / name)},
        "resource_api_version": "V3",
        "initial_fetch_timeout": "0s",
    }


def gate_cluster(name: str, path: Path, connections: int) -> Json:
    options = {
        "@type": f"{TYPE}{_OPTIONS.removeprefix('envoy.')}",
        "explicit_http_config": {"http_protocol_options": {}},
        # Shorter than gate's idle timeout, so that no request meets a closing connection. A check response repeats many headers.
        "common_http_protocol_options": {"idle_timeout": "4s", "max_headers_count": 1000},
    }
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [_thresholds(connections)]},
        "typed_extension_protocol_options": {_OPTIONS: options},
        "load_assignment": endpoint(name, {"pipe": {"path": str(path)}}),
    }


def _thresholds(connections: int) -> Json:
    return {"max_connections": connections, "max_pending_requests": MAX_PENDING, "max_requests": 1_000_000, "max_retries": 0}


def endpoint(cluster: str, address: Json) -> Json:
    return {"cluster_name": cluster, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}


def file_log(path: str, line: str, filter_: Json, *, is_periodic: bool = False) -> Json:
    """Return a file access log of completed requests that match the filter; with `is_periodic`, of active requests, periodically."""
    entry_type = {"log_type_filter": {"types": ["DownstreamPeriodic"], "exclude": not is_periodic}}
    return {
        "name": "envoy.access_loggers.file",
        "filter": {"and_filter": {"filters": [entry_type, filter_]}},
        "typed_config": {
            "@type": f"{TYPE}extensions.access_loggers.file.v3.FileAccessLog",
            "path": path,
            "log_format": {"text_format_source": {"inline_string": line}},
        },
    }
