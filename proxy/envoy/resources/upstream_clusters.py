"""Envoy's clusters: the upstreams of all routes, one cluster for each address with its TLS rules and its HTTP."""

import hashlib
import json
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from config.routes.route import Route
from foundation.values import parse_ip
from proxy.envoy.resources.bootstrap import TYPE, UNCONNECTED, Json, endpoint
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.route_statistics import route_label, stat_name
from proxy.upstreams.upstream_client import CONNECT_TIMEOUT, KEEPALIVE_TIMEOUT, MAX_RESPONSE_HEADER_COUNT

_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_CONTEXT = f"{TYPE}extensions.transport_sockets.tls.v3.UpstreamTlsContext"
_FAMILIES = {"AUTO": "ALL", "V4_ONLY": "V4_ONLY", "V6_ONLY": "V6_ONLY"}
# Of all requests at once: a route has no such bound in gate's own data plane.  What bounds connections are Envoy's file descriptors.
_UNBOUNDED = {"max_connections": 1_000_000, "max_pending_requests": 1_000_000, "max_requests": 1_000_000, "max_retries": 3}
# So much is read ahead of a client that does not read; and all streams of a connection have room beside each other, so that those of
# who does not read hold up nobody else's.
_AHEAD, _MOST_STREAMS = 256 * 1024, 100
_HTTP1 = {"enable_trailers": True}
_HTTP2 = {
    "initial_stream_window_size": _AHEAD,
    "initial_connection_window_size": _MOST_STREAMS * _AHEAD,
    "max_concurrent_streams": _MOST_STREAMS,
}
_ELSE_GATE = "-else-gate"
_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")


class ClusterKey(NamedTuple):
    """All of a route that its upstream's cluster follows from; `statistics` is its name in them."""

    origin: str
    tls: tuple[object, ...]
    upstream_http2: bool
    statistics: str


class EnvoyClusters:
    """Envoy clusters of one configuration.  Names follow from the content, so that what is the same keeps its connections over a reload.

    With `by_route` each route has its own, whose statistics are told by the route's label; else routes to one upstream share one.
    `resources` are JSON, by name.  Those of `previous` that are the same are taken from it, because of ten thousand routes that is most.
    At most `max_connections` lead to one upstream.  `may_be_refused`: something new of the operator's is in them, in which Envoy may find a
    mistake that gate has not found.
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
        self.may_be_refused, self._max_connections = False, max_connections
        self._by_route, self._family, self._bundle = by_route, _FAMILIES[dns_lookup_family], system_bundle()
        is_alike = previous is not None and previous._kind() == self._kind()
        before, resources = (previous._names, previous.resources) if is_alike and previous is not None else ({}, {})
        self.resources: dict[str, str] = {}
        self._names: dict[ClusterKey, str | None] = {}  # None where Envoy can't verify it as gate would
        for route in routes:
            for position, target in enumerate(route.to):
                key = self._key(target.url.origin, route)
                if key not in self._names:
                    self._names[key] = name = before[key] if key in before else self._made(key, route, position)
                    if name is not None and name in resources:
                        self.resources[name] = resources[name]
                if is_replaceable(route) and (name := self._names[key]) is not None and (other := _else_gate(name)) not in self.resources:
                    self.resources[other] = resources.get(other) or json.dumps(_or_gate(name))

    def _kind(self) -> tuple[object, ...]:
        return self._by_route, self._family, self._bundle, self._max_connections

    def _made(self, key: ClusterKey, route: Route, position: int) -> str | None:
        if not _can_verify(route, upstream := Upstream.build(route, position), self._bundle):
            return None
        thresholds = {**_UNBOUNDED, "max_connections": self._max_connections}
        cluster = _cluster(route, upstream, self._family, self._bundle, key.statistics, thresholds)
        name: str = cluster["name"]
        self.resources[name] = json.dumps(cluster)
        self.may_be_refused |= route.tls_custom_ca is not None or route.tls_client_cert is not None
        return name

    def __repr__(self) -> str:
        return f"<EnvoyClusters of {len(self._names)} upstreams>"

    def name(self, upstream: Upstream, route: Route) -> str | None:
        """Name of the cluster of a route's upstream; None where Envoy can't reach it as gate would."""
        name = self._names.get(self._key(upstream.origin, route))
        return _else_gate(name) if name is not None and is_replaceable(route) else name

    def _key(self, origin: str, route: Route) -> ClusterKey:
        tls = (route.tls_skip_verify, route.tls_custom_ca, route.tls_client_cert, route.tls_client_key, route.tls_server_name)
        return ClusterKey(origin, tls, route.upstream_http2, stat_name(route_label(route)) if self._by_route else "")


def is_replaceable(route: Route) -> bool:
    """Whether another upstream stands in for one that can't be connected to.  gate chooses it, and speaks no HTTP/2 to it."""
    return len(route.to) > 1 and not route.upstream_http2


def _else_gate(name: str) -> str:
    return name + _ELSE_GATE


def with_parts(name: str) -> tuple[str, ...]:
    """Name of a cluster, and that of the one which it leads to first."""
    return (name, name.removesuffix(_ELSE_GATE)) if name.endswith(_ELSE_GATE) else (name,)


def _or_gate(name: str) -> Json:
    """Cluster that leads to one of these, and where Envoy could not connect there, or knows no address, to gate (connect_failover.py)."""
    ways = [{"name": name}, {"name": UNCONNECTED}]
    return {
        "@type": f"{TYPE}config.cluster.v3.Cluster",
        "name": _else_gate(name),
        "connect_timeout": f"{CONNECT_TIMEOUT:.0f}s",
        "per_connection_buffer_limit_bytes": _AHEAD,
        "lb_policy": "CLUSTER_PROVIDED",
        "circuit_breakers": {"thresholds": [{**_UNBOUNDED, "max_retries": 1_000_000}]},
        "cluster_type": {
            "name": "envoy.clusters.composite",
            "typed_config": {"@type": f"{TYPE}extensions.clusters.composite.v3.ClusterConfig", "clusters": ways},
        },
    }


def system_bundle() -> str | None:
    """Path of the CA bundle that this system trusts, which OpenSSL would use."""
    own = ssl.get_default_verify_paths().cafile
    return next((path for path in (own, *_BUNDLES) if path is not None and Path(path).is_file()), None)


def _can_verify(route: Route, upstream: Upstream, bundle: str | None) -> bool:
    return not upstream.is_ssl() or route.tls_skip_verify or route.tls_custom_ca is not None or bundle is not None


def _cluster(route: Route, upstream: Upstream, family: str, bundle: str | None, statistics: str, thresholds: Json) -> Json:
    host, port = upstream.host.strip("[]"), upstream.port
    cluster: Json = {
        **({"alt_stat_name": statistics} if statistics else {}),
        "connect_timeout": f"{CONNECT_TIMEOUT:.0f}s",
        "per_connection_buffer_limit_bytes": _AHEAD,
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
        # All addresses of the name are tried, as our own connections do it.
        cluster |= {"type": "LOGICAL_DNS", "dns_lookup_family": family}
    if upstream.is_ssl():
        cluster["transport_socket"] = {
            "name": "envoy.transport_sockets.tls",
            "typed_config": _tls(route, upstream, host, bundle),
        }
    place = {"socket_address": {"address": host, "port_value": port}}
    digest = hashlib.sha256(json.dumps([cluster, place], sort_keys=True).encode()).hexdigest()[:24]
    name = f"upstream-{digest}"
    return {
        "@type": f"{TYPE}config.cluster.v3.Cluster",
        "name": name,
        **cluster,
        "load_assignment": endpoint(name, place),
    }


def _tls(route: Route, upstream: Upstream, host: str, bundle: str | None) -> Mapping[str, Any]:
    """As `proxy/upstreams/upstream_tls.py` says it to OpenSSL."""
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
    # RFC 6066 3: an address is no server name.
    sni = {} if parse_ip(name) else {"sni": name}
    return {"@type": _CONTEXT, "common_tls_context": common, **sni}
