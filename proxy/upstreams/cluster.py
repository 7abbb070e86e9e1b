"""Clusters: the upstreams of a route, with selection, retries on connection failures, and active requests per upstream."""

import random
import ssl
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from config.routes.route import Route
from config.routes.upstreams.upstream_health import HealthCheck
from foundation.errors import UpstreamError
from foundation.telemetry import metrics
from proxy.rewriting.target import upstream_hostname
from proxy.upstreams import upstream_tls
from proxy.upstreams.load_balancers import HashTable, balancer
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from proxy.upstreams.outliers import OutlierDetector, OutlierState

log = structlog.get_logger(__name__)

MAX_ATTEMPTS = 3  # upstreams per request, if connections fail


class NoHealthyUpstream(UpstreamError):
    """Error of a request for which a cluster has no available upstream."""

    status = 503


@dataclass(slots=True, eq=False)
class MemberState:
    """State of one upstream. `active` counts active requests, `failing` contains the indexes of failing health checks."""

    active: int = 0
    failing: frozenset[int] = frozenset()
    outlier: OutlierState = field(default_factory=OutlierState)

    @property
    def is_healthy(self) -> bool:
        return not self.failing

    def is_available(self, now: float) -> bool:
        return not self.failing and now >= self.outlier.ejected_until


@dataclass(frozen=True, slots=True, eq=False)
class ClusterMember:
    """Member of a cluster.

    `hostname` is None for an IP address. `http2` is the TLS context of gRPC health checks, None if they need none.
    """

    name: str
    upstream: Upstream
    hostname: bytes | None
    checks: tuple[HealthCheck, ...] = ()
    http2: ssl.SSLContext | None = None
    state: MemberState = field(default_factory=MemberState)


class Cluster:
    """Upstreams of one route, among which it balances requests."""

    def __init__(self, route: Route, members: tuple[ClusterMember, ...], rng: random.Random, clock: Callable[[], float] = time.monotonic):
        self.members = members
        self._clock = clock
        self._detector = None if route.outlier_detection is None else OutlierDetector(route.outlier_detection, rng)
        self._has_checks = self._detector is not None or bool(route.health_checks)
        self._balancer = balancer(route, tuple(member.name for member in members), rng)
        self._all = tuple(range(len(members)))
        self.ejections: Counter[str] = Counter()  # by reason
        self.is_sticky = isinstance(self._balancer, HashTable)

    def choose(self, key: bytes = b"", excluded: Collection[int] = ()) -> int:
        """Return the index of the member for a request. Raises NoHealthyUpstream if none is available."""
        eligible = tuple(index for index in self._all if index not in excluded) if excluded else self._all
        if self._has_checks:
            now = self._clock()
            eligible = tuple(index for index in eligible if self.members[index].state.is_available(now))
        if not eligible:
            raise NoHealthyUpstream("no upstream of the route is healthy")
        if len(eligible) == 1:
            return eligible[0]
        return self._balancer.choose(eligible, [member.state.active for member in self.members], key)

    def record_response(self, index: int, status: int) -> None:
        """Record the response status of a request for outlier detection."""
        if self._detector is None:
            return
        outliers = [member.state.outlier for member in self.members]
        for ejected, reason in self._detector.record_response(outliers, index, status, self._clock()):
            name = self.members[ejected].name
            metrics.upstream_ejections.labels(name).inc()
            self.ejections[reason] += 1
            log.warning("upstream ejected", upstream=name, reason=reason)

    def available(self) -> int:
        """Return the number of members that are healthy and not ejected."""
        now = self._clock()
        return sum(member.state.is_available(now) for member in self.members)

    def ejected(self) -> int:
        now = self._clock()
        return sum(member.state.outlier.is_ejected(now) for member in self.members)

    def health(self, member: ClusterMember) -> str:
        """Return the health of one member as text for operators."""
        if not member.state.is_healthy:
            return "unhealthy"
        if member.state.outlier.is_ejected(self._clock()):
            return "ejected"
        return "healthy" if self._has_checks else "not checked"


class ClusterSelection:
    """Selection of an upstream for one request. Call `start` and then `finish`, once each."""

    __slots__ = ("_cluster", "_host_for_ip_members", "_key", "_member", "_tried")

    def __init__(self, cluster: Cluster, key: bytes, *, host_for_ip_members: bytes | None = None):
        """Select an upstream.

        `host_for_ip_members` is the Host for upstreams that are IP addresses, if requests carry the upstream's host name; None if all
        upstreams get the same Host. Raises NoHealthyUpstream.
        """
        self._cluster, self._key, self._host_for_ip_members = cluster, key, host_for_ip_members
        self._tried: list[int] = [cluster.choose(key)]
        self._member = cluster.members[self._tried[0]]

    @property
    def upstream(self) -> Upstream:
        return self._member.upstream

    @property
    def hostname(self) -> bytes | None:
        return self._member.hostname

    def start(self) -> None:
        self._member.state.active += 1

    def finish(self, status: int | None) -> None:
        """Finish the request.

        `status` is that of the response or of gate's error response; None if the client disconnected first.
        """
        self._member.state.active -= 1
        if status is not None:
            self._cluster.record_response(self._tried[-1], status)

    def move_to_next_member(self, request: OutgoingRequest) -> bool:
        """Move a request that could not be sent to another upstream. Return False if none is left."""
        if not self.select_next():
            return False
        request.upstream = self.upstream
        if self._host_for_ip_members is not None:
            request.headers = [(b"host", self.hostname or self._host_for_ip_members), *request.headers[1:]]
        return True

    def select_next(self) -> bool:
        """Select another upstream. Return False if none is left."""
        if len(self._tried) == min(MAX_ATTEMPTS, len(self._cluster.members)):
            return False
        try:
            index = self._cluster.choose(self._key, self._tried)
        except NoHealthyUpstream:
            return False
        self._tried.append(index)
        self.finish(NoHealthyUpstream.status)
        self._member = self._cluster.members[index]
        self.start()
        return True


class Clusters:
    """Clusters of one configuration. Unchanged clusters and upstreams keep their state across reloads."""

    def __init__(self, routes: Iterable[Route], previous: "Clusters | None" = None):
        self._clusters: dict[str, Cluster] = {}
        self._members: dict[object, ClusterMember] = {}
        rng = random.Random()  # noqa: S311 - the selection is no secret
        clusters, members = (previous._clusters, previous._members) if previous is not None else ({}, {})
        for route in filter(_needs_cluster, routes):
            key = _cluster_key(route)
            cluster = self._clusters.get(key) or clusters.get(key)
            if cluster is None:
                cluster = Cluster(route, tuple(self._member(route, position, members) for position in range(len(route.to))), rng)
            self._clusters[key] = cluster
            self._members |= {_member_key(route, member.upstream): member for member in cluster.members}

    def get(self, route: Route) -> Cluster | None:
        """Return the cluster of a route; None if the route needs no selection."""
        return self._clusters.get(_cluster_key(route)) if _needs_cluster(route) else None

    def members(self) -> Collection[ClusterMember]:
        return self._members.values()

    def _member(self, route: Route, position: int, previous: Mapping[object, ClusterMember]) -> ClusterMember:
        upstream = Upstream.build(route, position)
        key = _member_key(route, upstream)
        member = self._members.get(key) or previous.get(key)
        if member is None:
            url = route.to[position].url
            speaks_grpc = upstream.is_ssl() and any(check.grpc_health_check for check in route.health_checks)
            http2 = upstream_tls.client_context(route, "h2") if speaks_grpc else None
            member = ClusterMember(url.origin, upstream, upstream_hostname(url), route.health_checks, http2)
        self._members[key] = member
        return member


def _needs_cluster(route: Route) -> bool:
    return len(route.to) > 1 or (bool(route.to) and (bool(route.health_checks) or route.outlier_detection is not None))


def _member_key(route: Route, upstream: Upstream) -> object:
    return upstream.connection_key, repr((route.health_checks, route.outlier_detection))


def _cluster_key(route: Route) -> str:
    """Return a key that is equal for clusters that can share their state."""
    settings = (route.lb_policy, route.least_request_lb_config, route.ring_hash_lb_config, route.maglev_lb_config)
    watched = (route.health_checks, route.outlier_detection)
    return repr((route.to, settings, watched, id(upstream_tls.client_context(route)), route.tls_server_name))
