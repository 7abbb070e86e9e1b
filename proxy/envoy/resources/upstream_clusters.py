"""Envoy's upstream clusters: one per address, TLS settings and HTTP version."""

import hashlib
import json
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from config.routes.route import Route
from foundation.values import parse_ip
from proxy.envoy.resources.bootstrap import FAILOVER, TYPE, Json, endpoint
from proxy.upstreams.idle_connections import KEEPALIVE_TIMEOUT
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.route_statistics import route_label, stat_name
from proxy.upstreams.upstream_client import CONNECT_TIMEOUT
from proxy.upstreams.upstream_exchange import MAX_RESPONSE_HEADER_COUNT

_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_CONTEXT = f"{TYPE}extensions.transport_sockets.tls.v3.UpstreamTlsContext"
_FAMILIES = {"AUTO": "ALL", "V4_ONLY": "V4_ONLY", "V6_ONLY": "V6_ONLY"}
# No limits, like in the embedded data plane; connections are bounded by Envoy's file descriptors.
_UNBOUNDED = {"max_connections": 1_000_000, "max_pending_requests": 1_000_000, "max_requests": 1_000_000, "max_retries": 3}
# Read-ahead per stream for a client that does not read. The connection window fits all streams, so that a slow client does not block
# the others.
_READ_AHEAD_BYTES, _MAX_STREAMS = 256 * 1024, 100
_HTTP1 = {"enable_trailers": True}
_HTTP2 = {
    "initial_stream_window_size": _READ_AHEAD_BYTES,
    "initial_connection_window_size": _MAX_STREAMS * _READ_AHEAD_BYTES,
    "max_concurrent_streams": _MAX_STREAMS,
}
_FAILOVER_SUFFIX = "-else-gate"
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")


class ClusterKey(NamedTuple):
    """Everything of a route that determines its cluster. `statistics` is the name in metrics."""

    origin: str
    tls: tuple[object, ...]
    upstream_http2: bool
    statistics: str


class EnvoyClusters:
    """Envoy clusters of one configuration. Names are content hashes, so that unchanged clusters keep their connections over a reload.

    With `by_route` each route has its own clusters, whose metrics have the route's label; otherwise routes to one upstream share one.
    `resources` are JSON by name, reused from `previous` if unchanged, because there may be ten thousand. `max_connections` is per
    upstream. `needs_validation` is true if a new cluster has certificates of the operator, in which Envoy may find an error.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        dns_lookup_family: str,
        *,
        by_route: bool = False,
        max_connections: int = _UNBOUNDED["max_connections"],
        previous: "EnvoyClusters | None" = None,
    ):
        self.needs_validation, self._max_connections = False, max_connections
        self._by_route, self._family, self._bundle = by_route, _FAMILIES[dns_lookup_family], system_bundle()
        is_reusable = previous is not None and previous._settings_key() == self._settings_key()
        previous_names, resources = (previous._names, previous.resources) if is_reusable and previous is not None else ({}, {})
        self.resources: dict[str, str] = {}
        self._names: dict[ClusterKey, str | None] = {}  # None if Envoy cannot verify it like gate
        for route in routes:
            for position, target in enumerate(route.to):
                key = self._key(target.url.origin, route)
                if key not in self._names:
                    self._names[key] = name = previous_names[key] if key in previous_names else self._build(key, route, position)
                    if name is not None and name in resources:
                        self.resources[name] = resources[name]
                if (
                    can_fail_over(route)
                    and (name := self._names[key]) is not None
                    and (failover := _failover_name(name)) not in self.resources
                ):
                    self.resources[failover] = resources.get(failover) or json.dumps(_failover_cluster(name))

    def _settings_key(self) -> tuple[object, ...]:
        return self._by_route, self._family, self._bundle, self._max_connections

    def _build(self, key: ClusterKey, route: Route, position: int) -> str | None:
        if not can_verify(route, upstream := Upstream.build(route, position), self._bundle):
            return None
        thresholds = {**_UNBOUNDED, "max_connections": self._max_connections}
        cluster = _cluster(route, upstream, self._family, self._bundle, key.statistics, thresholds)
        name: str = cluster["name"]
        self.resources[name] = json.dumps(cluster)
        self.needs_validation |= route.tls_custom_ca is not None or route.tls_client_cert is not None
        return name

    def __repr__(self) -> str:
        return f"<EnvoyClusters of {len(self._names)} upstreams>"

    def name(self, upstream: Upstream, route: Route) -> str | None:
        """Return the name of an upstream's cluster, or None if Envoy cannot connect to it like gate."""
        name = self._names.get(self._key(upstream.origin, route))
        return _failover_name(name) if name is not None and can_fail_over(route) else name

    def _key(self, origin: str, route: Route) -> ClusterKey:
        tls = (route.tls_skip_verify, route.tls_custom_ca, route.tls_client_cert, route.tls_client_key, route.tls_server_name)
        return ClusterKey(origin, tls, route.upstream_http2, stat_name(route_label(route)) if self._by_route else "")


def can_fail_over(route: Route) -> bool:
    """Return whether gate can select another upstream after a failed connection; gate does not support HTTP/2 upstreams."""
    return len(route.to) > 1 and not route.upstream_http2


def _failover_name(name: str) -> str:
    return name + _FAILOVER_SUFFIX


def with_primary(name: str) -> tuple[str, ...]:
    """Return the name of a cluster, and of its primary member if it is a failover cluster."""
    return (name, name.removesuffix(_FAILOVER_SUFFIX)) if name.endswith(_FAILOVER_SUFFIX) else (name,)


def _failover_cluster(name: str) -> Json:
    """Return a cluster of this one and, if Envoy cannot resolve or connect to it, gate (connect_failover.py)."""
    members = [{"name": name}, {"name": FAILOVER}]
    return {
        "@type": f"{TYPE}config.cluster.v3.Cluster",
        "name": _failover_name(name),
        "connect_timeout": f"{CONNECT_TIMEOUT:.0f}s",
        "per_connection_buffer_limit_bytes": _READ_AHEAD_BYTES,
        "lb_policy": "CLUSTER_PROVIDED",
        "circuit_breakers": {"thresholds": [{**_UNBOUNDED, "max_retries": 1_000_000}]},
        "cluster_type": {
            "name": "envoy.clusters.composite",
            "typed_config": {"@type": f"{TYPE}extensions.clusters.composite.v3.ClusterConfig", "clusters": members},
        },
    }


def system_bundle() -> str | None:
    """Return the path of the system's CA bundle, which OpenSSL uses by default."""
    default = ssl.get_default_verify_paths().cafile
    return next((path for path in (default, *_BUNDLES) if path is not None and Path(path).is_file()), None)


def can_verify(route: Route, upstream: Upstream, bundle: str | None) -> bool:
    return not upstream.is_ssl() or route.tls_skip_verify or route.tls_custom_ca is not None or bundle is not None


def _cluster(route: Route, upstream: Upstream, family: str, bundle: str | None, statistics: str, thresholds: Json) -> Json:
    host, port = upstream.host.strip("[]"), upstream.port
    cluster: Json = {
        **({"alt_stat_name": statistics} if statistics else {}),
        "connect_timeout": f"{CONNECT_TIMEOUT:.0f}s",
        "per_connection_buffer_limit_bytes": _READ_AHEAD_BYTES,
        "circuit_breakers": {"thresholds": [thresholds]},
        "typed_extension_protocol_options": {
            _HTTP: {
                "@type": f"{TYPE}extensions.upstreams.http.v3.HttpProtocolOptions",
                "common_http_protocol_options": {
                    "idle_timeout": f"{KEEPALIVE_TIMEOUT:.0f}s",
                    "max_headers_count": MAX_RESPONSE_HEADER_COUNT,
                },
                "explicit_http_config": {"http2_protocol_options": _HTTP2} if route.upstream_http2 else {"http_protocol_options": _HTTP1},
            }
        },
    }
    if parse_ip(host):
        cluster["type"] = "STATIC"
    else:
        # Envoy tries all addresses of the name, like gate.
        cluster |= {"type": "LOGICAL_DNS", "dns_lookup_family": family}
    if upstream.is_ssl():
        cluster["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": _tls(route, upstream, host, bundle),
        }
    address = {"socket_address": {"address": host, "port_value": port}}
    digest = hashlib.sha256(json.dumps([cluster, address], sort_keys=True).encode()).hexdigest()[:24]
    name = f"upstream-{digest}"
    return {
        "@type": f"{TYPE}config.cluster.v3.Cluster",
        "name": name,
        **cluster,
        "load_assignment": endpoint(name, address),
    }


def _tls(route: Route, upstream: Upstream, host: str, bundle: str | None) -> Mapping[str, Any]:
    """Return the TLS settings of an upstream, the same as in `proxy/upstreams/upstream_tls.py`."""
    name = upstream.server_hostname or host
    common: Json = {
        "alpn_protocols": ["h2" if route.upstream_http2 else "http/1.1"],
        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2", "tls_maximum_protocol_version": "TLSv1_3"},
    }
    if not route.tls_skip_verify:
        custom = route.tls_custom_ca
        trusted: Json = {"filename": bundle} if custom is None else {"inline_string": custom.decode("ascii")}
        kind = "IP_ADDRESS" if parse_ip(name) else "DNS"
        common["validation_context"] = {
            "trusted_ca": trusted,
            "match_typed_subject_alt_names": [{"san_type": kind, "matcher": {"exact": name}}],
        }
    if route.tls_client_cert is not None and route.tls_client_key is not None:
        common["tls_certificates"] = [
            {
                "certificate_chain": {"inline_string": route.tls_client_cert.decode("ascii")},
                "private_key": {"inline_string": bytes(route.tls_client_key).decode("ascii")},
            }
        ]
    # RFC 6066 3: an IP address is not a server name.
    sni = {} if parse_ip(name) else {"sni": name}
    return {"@type": _CONTEXT, "common_tls_context": common, **sni}
