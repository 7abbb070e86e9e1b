"""Envoy's bootstrap: where gate is, and which files say the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

Json = dict[str, Any]

TYPE = "type.googleapis.com/envoy."
# Clusters that lead to gate itself: who judges each request, who answers what Envoy does not carry, who answers an authority, who takes
# connections that Envoy does not read, and who goes on with what Envoy could not connect to its upstream.
JUDGE, GATE, ACME, UNREAD, UNCONNECTED = "gate-judge", "gate", "gate-acme", "gate-unread", "gate-unconnected"
LISTENERS, CLUSTERS = "listeners.json", "clusters.json"
# One event loop answers no more requests of the judge at once; the others wait in Envoy, where they take no file descriptor.
MAX_JUDGE_CONNECTIONS = 256
# Requests that wait for a connection to gate.
MAX_PENDING = 16_384
# File descriptors that Envoy needs for itself, and for each of its workers.
_OWN_DESCRIPTORS, _WORKER_DESCRIPTORS = 64, 16
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


_TRANSPORTS = f"{TYPE}extensions.transport_sockets"
# Each connection begins with the address of its client (PROXY protocol, version 2).
_ANNOUNCED: Json = {
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
# Parts of the heap that it may have, in the order in which Envoy helps itself.
_SHRINK, _NO_KEEP_ALIVE, _NO_REQUESTS, _NO_CONNECTIONS = 0.90, 0.92, 0.95, 0.98
HEAP, CONNECTIONS = "envoy.resource_monitors.fixed_heap", "envoy.resource_monitors.global_downstream_max_connections"
# Streams that hold less, as a power of two in bytes, are not worth a reset.
_LARGE_STREAM = 16


@dataclass(frozen=True, slots=True)
class EnvoyLimits:
    """Limits of Envoy as a whole: its heap in MiB, and its connections: of clients, to the judge, to gate's data plane, and to one
    upstream."""

    heap: int
    connections: int
    to_judge: int = MAX_JUDGE_CONNECTIONS
    to_gate: int = 1_000_000
    to_upstream: int = 1_000_000

    @classmethod
    def within(cls, descriptors: int, heap: int, connections: int, workers: int) -> Self:
        """Limits for which that many file descriptors are enough, on Envoy's side and on gate's.

        gate needs two for each request that it forwards itself.  A client's connection of HTTP/2 may need many upstream connections, so
        half of what is left is for these, and no upstream takes more than half of that.
        """
        to_judge, to_gate = min(MAX_JUDGE_CONNECTIONS, descriptors // 8), descriptors // 4
        left = max(4, descriptors - to_judge - to_gate - _OWN_DESCRIPTORS - workers * _WORKER_DESCRIPTORS)
        return cls(heap, min(connections, left // 2), to_judge, to_gate, left // 4)


@dataclass(frozen=True, slots=True)
class GateSockets:
    """Unix sockets of gate's own, by the clusters that lead there."""

    judge: Path
    gate: Path
    acme: Path
    unread: Path
    unconnected: Path

    @classmethod
    def below(cls, directory: Path) -> Self:
        return cls(*(directory / name for name in ("judge", "gate", "acme", "unread", "unconnected")))

    def clusters(self, limits: EnvoyLimits) -> list[Json]:
        unread = {**own_cluster(UNREAD, self.unread, limits.to_gate), "transport_socket": _ANNOUNCED}
        ways = ((GATE, self.gate), (ACME, self.acme), (UNCONNECTED, self.unconnected))
        return [own_cluster(JUDGE, self.judge, limits.to_judge), *(own_cluster(name, path, limits.to_gate) for name, path in ways), unread]


def bootstrap(files: Path, sockets: GateSockets, admin: Path, most: EnvoyLimits, listeners: Sequence[Json] = ()) -> Json:
    """Bootstrap configuration.  `files` is the directory of the other resources; `admin` and `listeners` are Unix sockets."""
    return {
        "node": {"id": "gate", "cluster": "gate"},
        # 0o600: who may connect may also stop Envoy.
        "admin": {"address": {"pipe": {"path": str(admin), "mode": 0o600}}, "ignore_global_conn_limit": True},
        # A line feed alone ends no line of a chunked body, and its extensions hold no control bytes.
        "layered_runtime": {"layers": [{"name": "gate", "static_layer": {"envoy.reloadable_features.strict_chunk_parsing": True}}]},
        "overload_manager": _overload(most),
        "dynamic_resources": {"lds_config": watched(files, LISTENERS), "cds_config": watched(files, CLUSTERS)},
        "static_resources": {
            "listeners": list(listeners),
            "clusters": sockets.clusters(most),
        },
    }


def _overload(most: EnvoyLimits) -> Json:
    """Who holds most is cut before anybody is refused, and who is there is served before who comes."""
    monitors = "extensions.resource_monitors"
    heap: Json = {"@type": f"{TYPE}{monitors}.fixed_heap.v3.FixedHeapConfig", "max_heap_size_bytes": most.heap * _MIB}
    connections: Json = {
        "@type": f"{TYPE}{monitors}.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": most.connections,
    }
    full = {name: {"threshold": {"value": part}} for name, part in (("shrink_heap", _SHRINK), ("disable_http_keepalive", _NO_KEEP_ALIVE))}
    full |= {"reset_high_memory_stream": {"scaled": {"scaling_threshold": _SHRINK, "saturation_threshold": _NO_CONNECTIONS}}}
    full |= {
        name: {"threshold": {"value": part}}
        for name, part in (("stop_accepting_requests", _NO_REQUESTS), ("stop_accepting_connections", _NO_CONNECTIONS))
    }
    return {
        "refresh_interval": "0.250s",
        "buffer_factory_config": {"minimum_account_to_track_power_of_two": _LARGE_STREAM},
        "resource_monitors": [{"name": HEAP, "typed_config": heap}, {"name": CONNECTIONS, "typed_config": connections}],
        "actions": [{"name": f"envoy.overload_actions.{name}", "triggers": [{"name": HEAP, **when}]} for name, when in full.items()],
    }


def watched(files: Path, name: str) -> Json:
    """Watched file as a config source: Envoy reads it again when another file takes its name."""
    return {
        "path_config_source": {"path": str(files / name)},
        "resource_api_version": "V3",
        "initial_fetch_timeout": "0s",
    }


def own_cluster(name: str, path: Path, connections: int) -> Json:
    options = {
        "@type": f"{TYPE}{_OPTIONS.removeprefix('envoy.')}",
        "explicit_http_config": {"http_protocol_options": {}},
        # gate closes idle connections itself; a request must not meet one that is about to close.  A judge's answer repeats much.
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
    """Access log of the ends of what the filter says, in a file; `is_periodic`: of what has not ended, again and again."""
    at_its_time = {"log_type_filter": {"types": ["DownstreamPeriodic"], "exclude": not is_periodic}}
    return {
        "name": "envoy.access_loggers.file",
        "filter": {"and_filter": {"filters": [at_its_time, filter_]}},
        "typed_config": {
            "@type": f"{TYPE}extensions.access_loggers.file.v3.FileAccessLog",
            "path": path,
            "log_format": {"text_format_source": {"inline_string": line}},
        },
    }
