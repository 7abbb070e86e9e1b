"""Statistics of each route's requests, under the names of Envoy's Prometheus metrics for clusters.

They are plain numbers that the event loop counts, because a metric of the library takes a lock each time. Another thread renders them.
"""

import hashlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from config.routes.route import Route
from foundation.telemetry.exposition import MetricFamilies, MetricFamilyText, escape_label

if TYPE_CHECKING:
    from proxy.upstreams.cluster import Cluster

# Milliseconds, the buckets of Envoy's histograms.
BUCKETS = (0.5, 1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000)
PREFIX = "envoy_cluster_"
_COUNTER, _GAUGE, _HISTOGRAM = "counter", "gauge", "histogram"
_SWITCHING_PROTOCOLS = 101


def route_label(route: Route) -> str:
    """Return the label of a route in metrics: its name, else its id. Routes with the same name share their statistics."""
    return route.name or route.id


def stat_name(label: str) -> str:
    """Return the name of a route's clusters in Envoy's statistics, because dots in a label would split an Envoy name."""
    return f"route-{hashlib.sha256(label.encode()).hexdigest()[:16]}"


class RouteStatistics:
    """Statistics of one route. Call `start` and then `finish`, once each, for each forwarded request."""

    __slots__ = (
        "active",
        "buckets",
        "cluster",
        "codes",
        "connect_failures",
        "connections",
        "label",
        "milliseconds",
        "none_healthy",
        "open_connections",
        "received_resets",
        "requests",
        "retries",
        "sent_resets",
        "timeouts",
        "upstream_bytes_received",
        "upstream_bytes_sent",
        "upstreams",
    )

    def __init__(self, label: str):
        self.label = label
        self.active = self.requests = self.retries = self.timeouts = self.received_resets = self.sent_resets = 0
        self.connections = self.open_connections = self.connect_failures = self.none_healthy = 0
        self.upstream_bytes_received = self.upstream_bytes_sent = 0
        self.codes: Counter[int] = Counter()
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.milliseconds = 0.0
        self.upstreams = 0
        self.cluster: Cluster | None = None

    def __repr__(self) -> str:
        return f"<RouteStatistics {self.label}: {self.requests} requests>"

    def start(self) -> None:
        self.requests += 1
        self.active += 1

    def finish(self, status: int | None, duration_seconds: float) -> None:
        """Record the end of a request.

        `status` is that of the upstream's response or of gate's error response; None if the client disconnected first.
        """
        self.active -= 1
        if status is None:
            return
        self.codes[status] += 1
        if status != _SWITCHING_PROTOCOLS:  # the duration of a WebSocket would distort those of requests
            milliseconds = duration_seconds * 1000
            self.buckets[bisect_left(BUCKETS, milliseconds)] += 1
            self.milliseconds += milliseconds

    def record_none_healthy(self, status: int) -> None:
        """Count a request for which no upstream was healthy."""
        self.codes[status] += 1
        self.requests += 1
        self.none_healthy += 1

    def record_connection_opened(self) -> None:
        self.connections += 1
        self.open_connections += 1

    def record_connection_closed(self) -> None:
        self.open_connections -= 1


# Name after `envoy_cluster_` as Envoy documents it, type, help text, and function that reads the value.
SCALARS: tuple[tuple[str, str, str, Callable[[RouteStatistics], int]], ...] = (
    (
        "upstream_rq_total",
        _COUNTER,
        "Requests to upstreams, including retries.",
        lambda s: s.requests + s.retries,
    ),
    ("upstream_rq_active", _GAUGE, "Active requests.", lambda s: s.active),
    ("upstream_rq_retry", _COUNTER, "Retries, at the same or another upstream.", lambda s: s.retries),
    ("upstream_rq_timeout", _COUNTER, "Requests that timed out.", lambda s: s.timeouts),
    ("upstream_rq_rx_reset", _COUNTER, "Responses reset by the upstream.", lambda s: s.received_resets),
    ("upstream_rq_tx_reset", _COUNTER, "Requests reset because the client disconnected or access ended.", lambda s: s.sent_resets),
    ("upstream_cx_total", _COUNTER, "Connections opened to upstreams.", lambda s: s.connections),
    ("upstream_cx_active", _GAUGE, "Open connections to upstreams.", lambda s: s.open_connections),
    ("upstream_cx_connect_fail", _COUNTER, "Failed connection attempts.", lambda s: s.connect_failures),
    ("upstream_cx_none_healthy", _COUNTER, "Requests refused because no upstream was healthy.", lambda s: s.none_healthy),
    (
        "upstream_cx_rx_bytes_total",
        _COUNTER,
        "Bytes received from upstreams, including headers; for tunnels counted on close.",
        lambda s: s.upstream_bytes_received,
    ),
    (
        "upstream_cx_tx_bytes_total",
        _COUNTER,
        "Bytes sent to upstreams, including headers; for tunnels counted on close.",
        lambda s: s.upstream_bytes_sent,
    ),
    ("membership_total", _GAUGE, "Upstreams of the route, healthy or not.", lambda s: s.upstreams),
    (
        "membership_healthy",
        _GAUGE,
        "Healthy upstreams of the route.",
        lambda s: s.upstreams if s.cluster is None else s.cluster.available(),
    ),
)
RESPONSES, RESPONSE_CLASSES, DURATION = "upstream_rq", "upstream_rq_xx", "upstream_rq_time"
LABELLED = (
    (RESPONSES, _COUNTER, "Responses by status code, including error responses of gate in place of the upstream's."),
    (RESPONSE_CLASSES, _COUNTER, "Responses by status code class (first digit)."),
    (DURATION, _HISTOGRAM, "Time from the decision to the end of the response, milliseconds, without WebSockets."),
)
# Reason of an ejection in the outlier detector, to its name in Envoy's statistics.
_EJECTION_STATS = {
    "consecutive 5xx": "consecutive_5xx",
    "consecutive gateway failures": "consecutive_gateway_failure",
    "low success rate": "success_rate",
    "failures": "failure_percentage",
}
_EJECTIONS = "outlier_detection_ejections_"
EJECTIONS: tuple[tuple[str, str, str, Callable[["Cluster"], int]], ...] = (
    (f"{_EJECTIONS}active", _GAUGE, "Upstreams currently ejected by outlier detection.", lambda c: c.ejected()),
    (f"{_EJECTIONS}enforced_total", _COUNTER, "Ejections by outlier detection.", lambda c: c.ejections.total()),
    *(
        (f"{_EJECTIONS}enforced_{name}", _COUNTER, f"Ejections because of {reason}.", lambda c, reason=reason: c.ejections[reason])
        for reason, name in _EJECTION_STATS.items()
    ),
)


class ActiveRouteStatistics:
    """Statistics of the current configuration's routes. A reload that removes a route removes its statistics immediately."""

    def __init__(self) -> None:
        self._statistics: tuple[RouteStatistics, ...] = ()

    def __repr__(self) -> str:
        return f"<ActiveRouteStatistics of {len(self._statistics)} routes>"

    def activate(self, statistics: Iterable[RouteStatistics]) -> None:
        self._statistics = tuple(statistics)

    def labels(self) -> dict[str, str]:
        """Return the labels by their names in Envoy's statistics."""
        return {stat_name(each.label): each.label for each in self._statistics}

    def families(self, service: str) -> MetricFamilies:
        """Return the metric families as text lines. Any thread may call it."""
        labelled = [
            (f'{{service="{escape_label(service)}",envoy_cluster_name="{escape_label(each.label)}"', each) for each in self._statistics
        ]
        if not labelled:
            return {}
        families = {
            PREFIX + name: MetricFamilyText(kind, help, [f"{PREFIX}{name}{labels}}} {read(each)}" for labels, each in labelled])
            for name, kind, help, read in SCALARS
        }
        for name, kind, help in LABELLED:
            families[PREFIX + name] = MetricFamilyText(kind, help, [])
        for labels, each in labelled:
            _add_responses(families, labels, each)
        clusters = [(labels, cluster) for labels, each in labelled if (cluster := each.cluster) is not None]
        if clusters:
            for name, kind, help, read_cluster in EJECTIONS:
                lines = [f"{PREFIX}{name}{labels}}} {read_cluster(cluster)}" for labels, cluster in clusters]
                families[PREFIX + name] = MetricFamilyText(kind, help, lines)
        return families


def _add_responses(families: MetricFamilies, labels: str, statistics: RouteStatistics) -> None:
    codes = dict(statistics.codes)
    if not codes:
        return
    name = PREFIX + RESPONSES
    families[name].lines.extend(f'{name}{labels},envoy_response_code="{code}"}} {count}' for code, count in sorted(codes.items()))
    classes: Counter[int] = Counter()
    for code, count in codes.items():
        classes[code // 100] += count
    name = PREFIX + RESPONSE_CLASSES
    families[name].lines.extend(f'{name}{labels},envoy_response_code_class="{each}"}} {count}' for each, count in sorted(classes.items()))
    name, below, lines = PREFIX + DURATION, 0, families[PREFIX + DURATION].lines
    for bound, count in zip((*BUCKETS, "+Inf"), list(statistics.buckets), strict=True):
        below += count
        lines.append(f'{name}_bucket{labels},le="{bound}"}} {below}')
    lines.append(f"{name}_sum{labels}}} {statistics.milliseconds}")
    lines.append(f"{name}_count{labels}}} {below}")
