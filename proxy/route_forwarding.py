"""Forwarding table: the forwarding settings that follow from the configuration, computed once for each route."""

import math
from dataclasses import dataclass
from datetime import timedelta

from authorize.policy.compiled_route import CompiledRoute
from config.options import Options
from config.routes.route_identity_headers import IdentityHeaderNames
from config.routes.upstreams.upstream_credentials import injects_credentials
from foundation.web.asgi_types import Header
from proxy.incoming_request import IncomingRequest
from proxy.rewriting.connection_auth import ConnectionUse, connection_use
from proxy.rewriting.request_headers import Downstream, RequestHeaderRules, framing
from proxy.rewriting.response_headers import ResponseHeaderRules
from proxy.rewriting.target import HostRewrite, PathRewrite, build_target, strip_token, upstream_hostname
from proxy.upstreams.cluster import Cluster, Clusters, ClusterSelection
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from proxy.upstreams.route_statistics import RouteStatistics, route_label
from proxy.verdict import Forward


@dataclass(frozen=True, slots=True)
class RouteForwarding:
    """Forwarding settings of one route.  `timeout`, and `idle_timeout` of TCP tunnels, are in seconds, None for none.

    `upstream_host` is the upstream's host name, None for an IP address.  With several upstreams, the `cluster` selects both.
    """

    upstream: Upstream
    upstream_host: bytes | None
    cluster: Cluster | None
    headers: RequestHeaderRules
    path: PathRewrite
    host: HostRewrite
    timeout: float | None
    is_default_timeout: bool
    idle_timeout: float | None
    injects_credentials: bool  # of gate, for the upstream
    preserves_target: bool  # a path without a query is forwarded unchanged
    preserves_host: bool  # Host is forwarded unchanged
    statistics: RouteStatistics | None = None
    response_header_rules: ResponseHeaderRules | None = None  # if the route has its own rules

    @classmethod
    def build(
        cls,
        compiled: CompiledRoute,
        options: Options,
        identity_header_names: IdentityHeaderNames,
        clusters: Clusters,
        statistics: RouteStatistics | None = None,
    ) -> "RouteForwarding":
        route = compiled.route
        timeout = options.default_upstream_timeout if route.timeout is None else route.timeout
        return cls(
            upstream=Upstream.build(route),
            upstream_host=upstream_hostname(route.to[0].url),
            cluster=clusters.get(route),
            headers=RequestHeaderRules.build(route, options, identity_header_names),
            path=(path := PathRewrite.build(route, compiled.matched_prefix or None)),
            host=(host := HostRewrite.build(route)),
            timeout=timeout.total_seconds() if timeout > timedelta(0) else None,
            is_default_timeout=route.timeout is None,
            idle_timeout=route.idle_timeout.total_seconds() or None,
            injects_credentials=injects_credentials(route, options),
            preserves_target=path.is_noop,
            preserves_host=host == HostRewrite(),
            statistics=statistics,
            response_header_rules=ResponseHeaderRules.for_route(route, options),
        )

    def select_upstream(self, hash_key: str) -> tuple[Upstream, ClusterSelection | None]:
        """Select an upstream for a TCP tunnel.  Raises NoHealthyUpstream."""
        if self.cluster is None:
            return self.upstream, None
        selection = ClusterSelection(self.cluster, hash_key.encode())
        return selection.upstream, selection

    def build_request(self, incoming: IncomingRequest, verdict: Forward, credentials: tuple[Header, ...], hash_key: str) -> OutgoingRequest:
        """Return the upstream request of an allowed request, with gate's `credentials` for the upstream.

        `hash_key` identifies the client for sticky balancing.  Raises BadRequest if the request is ambiguous or cannot be forwarded on a
        shared connection, and NoHealthyUpstream.
        """
        scope, request = incoming.scope, incoming.request
        host = incoming.headers[b"host"]
        downstream = Downstream(incoming.peer, scope["scheme"], host, incoming.request_id)
        upstream, upstream_host, selection = self.upstream, self.upstream_host, None
        if self.cluster is not None:
            selection = ClusterSelection(
                self.cluster, hash_key.encode(), host_for_ip_members=host if self.host.uses_upstream_name else None
            )
            upstream, upstream_host = selection.upstream, selection.hostname
        query, path = scope["query_string"], request.path
        if self.preserves_target and not query and "gate.bare_query" not in scope:
            target = path.encode("ascii")
        else:
            target = build_target(self.path.apply(path), strip_token(query), is_bare="gate.bare_query" in scope)
        sent_host = host if self.preserves_host else self.host.apply(host, upstream_host, path, scope["headers"])
        has_body, content_length = framing(scope["headers"])
        added_headers = verdict.identity_headers + credentials
        headers = self.headers.for_upstream(scope["headers"], downstream, sent_host, added_headers, verdict.withheld)
        use = ConnectionUse.SHARED
        if b"authorization" in incoming.headers:
            use = connection_use(headers, is_http2=verdict.compiled_route.route.upstream_http2)
        return OutgoingRequest(
            upstream=upstream,
            method=request.method,
            target=target,
            headers=headers if verdict.upgrade is None else verdict.upgrade.for_upstream(headers),
            is_upgrade=verdict.upgrade is not None,
            has_body=has_body,
            content_length=content_length,
            timeout=self.timeout,
            is_default_timeout=self.is_default_timeout,
            selection=selection,
            statistics=self.statistics,
            response_header_rules=self.response_header_rules,
            connection_use=use,
        )


class ForwardingTable:
    """Forwarding settings of all routes.  Of routes with the same id only the first can match, so the table contains only that one."""

    def __init__(
        self,
        routes: tuple[CompiledRoute, ...],
        options: Options,
        previous: "ForwardingTable | None" = None,
        identity_header_names: IdentityHeaderNames | None = None,
    ):
        self._options = options
        has_metrics = options.has_route_metrics
        has_same_metrics = previous is not None and previous._options.has_route_metrics is has_metrics
        reusable = previous._by_route if has_same_metrics and previous is not None and previous._options.only_routes_differ(options) else {}
        self._identity_header_names = identity_header_names = (
            IdentityHeaderNames(options.policy) if identity_header_names is None else identity_header_names
        )
        identity_headers_changed = identity_header_names.changed_since(
            previous._identity_header_names if previous is not None else identity_header_names
        )
        previous_statistics = previous.statistics if previous is not None else {}
        # By label.  A label that remains keeps its counters.
        self.statistics: dict[str, RouteStatistics] = {}
        forwarded: dict[str, CompiledRoute] = {}
        for compiled in routes:
            if compiled.route.to and not compiled.route.redirect:
                forwarded.setdefault(compiled.id, compiled)
        self.clusters: Clusters = Clusters((each.route for each in forwarded.values()), previous.clusters if previous is not None else None)
        self._by_route: dict[str, tuple[CompiledRoute, RouteForwarding]] = {}
        for id, compiled in forwarded.items():
            if has_metrics and (label := route_label(compiled.route)) not in self.statistics:
                self.statistics[label] = previous_statistics.get(label) or RouteStatistics(label)
            entry = reusable.get(id)
            if entry is None or entry[0] is not compiled or identity_headers_changed(compiled.route):
                statistics = self.statistics.get(route_label(compiled.route))
                entry = (compiled, RouteForwarding.build(compiled, options, identity_header_names, self.clusters, statistics))
            self._by_route[id] = entry
        self.response_header_rules = ResponseHeaderRules.build(options)
        # Seconds that a client may leave a connection unused.
        self.idle_timeout = options.timeout_idle.total_seconds() or math.inf
        # Seconds that a client may pause within a request.
        self.read_timeout = options.timeout_read.total_seconds() or math.inf

    def __repr__(self) -> str:
        return f"<ForwardingTable {len(self._by_route)} routes>"

    def activate_statistics(self) -> tuple[RouteStatistics, ...]:
        """Return the statistics of the routes, updated for this table.  If routes share a label, the last one's upstreams count."""
        for compiled, forwarding in self._by_route.values() if self.statistics else ():
            if (statistics := forwarding.statistics) is not None:
                statistics.upstreams, statistics.cluster = len(compiled.route.to), forwarding.cluster
        return tuple(self.statistics.values())

    def allows_long_idle(self, compiled: CompiledRoute) -> bool:
        """Return whether the route's upstream may be idle for longer than its client may stop reading."""
        return (self.for_route(compiled).timeout or math.inf) > self.idle_timeout

    def for_route(self, compiled: CompiledRoute) -> RouteForwarding:
        return self._by_route[compiled.id][1]
