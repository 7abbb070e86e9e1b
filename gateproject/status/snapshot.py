"""Snapshot of a running gate: its readiness and metrics, as values for the status screen."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from prometheus_client.parser import text_string_to_metric_families

from foundation.readiness import ComponentStatus, ReadinessState

Page = Callable[[str, str], tuple[int, str]]
Labels = frozenset[tuple[str, str]]
_ROUTE = "envoy_cluster_name"
_TIME = "envoy_cluster_upstream_rq_time_bucket"
# With `workers`, each process has a sample. These metrics are not summed but reduced: the earliest start, the oldest configuration, the
# worst state.
_NOT_ADDED: Mapping[str, Callable[[Iterable[float]], float]] = {
    "process_start_time_seconds": min,
    "gate_config_last_reload_success": min,
    "gate_config_last_reload_success_timestamp": min,
    "gate_certificate_expiry_timestamp": min,
    "envoy_cluster_membership_healthy": min,
    "envoy_cluster_membership_total": max,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """Snapshot of one process. `trouble` is the error if there is none; `at` is a monotonic time in seconds."""

    address: str
    read_at: float
    is_ready: bool = False
    parts: tuple[ComponentStatus, ...] = ()
    samples: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    trouble: str = ""

    def value(self, name: str) -> float | None:
        """Return a metric summed over all labels, or None if it does not exist."""
        found = self.samples.get(name)
        return None if not found else _NOT_ADDED.get(name, sum)(found.values())

    def label(self, name: str, label: str) -> str:
        """Return a label value of a metric's first sample, or ""."""
        return next((dict(labels).get(label, "") for labels in self.samples.get(name, ())), "")

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return a metric by one of its labels, summed over the others."""
        found: dict[str, list[float]] = {}
        for labels, value in self.samples.get(name, {}).items():
            if key := dict(labels).get(label):
                found.setdefault(key, []).append(value)
        return {key: _NOT_ADDED.get(name, sum)(values) for key, values in found.items()}


@dataclass(frozen=True, slots=True)
class RouteRates:
    """Rates of a route between two snapshots, or since the start. Times are milliseconds, None without requests."""

    name: str
    per_second: float
    errors_per_second: float
    mean: float | None
    p95: float | None
    active: int
    healthy: int
    upstreams: int


def read(address: str, page: Page, clock: Callable[[], float] = time.monotonic) -> Reading:
    """Take a snapshot of the process with this `metrics_address`. Network errors are recorded, not raised."""
    read_at = clock()
    status, text = page(address, "/readyz?format=json")
    if status not in (200, 503):
        return Reading(
            address,
            read_at,
            trouble=text if status == 0 else f"{address}/readyz returned {status}. Check that this is gate's metrics_address",
        )
    try:
        report = json.loads(text)
        parts = tuple(ComponentStatus(name, ReadinessState(part["state"]), part["reason"]) for name, part in report["components"].items())
        status, text = page(address, "/metrics")
        samples = _samples(text) if status == 200 else {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reading(address, read_at, trouble=f"unexpected response from {address}. Check that this is gate's metrics_address")
    return Reading(address, read_at, report["ready"] is True, parts, samples)


def _samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    # TYPE comments are removed, because the parser requires counters to end in _total, and Envoy's do not.
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def rate(now: Reading, before: Reading, name: str) -> float | None:
    """Return the increase of a counter per second between two snapshots, or None if it is unknown."""
    newer, older = now.value(name), before.value(name)
    return None if newer is None else _per_second(newer - (older or 0.0), now, before)


def routes(now: Reading, before: Reading) -> list[RouteRates]:
    """Return the routes, most requests first."""
    requests, earlier = (each.by_label("envoy_cluster_upstream_rq_total", _ROUTE) for each in (now, before))
    failed, failed_earlier = (dict(_failures(each)) for each in (now, before))
    active, healthy, upstreams = (
        now.by_label(f"envoy_cluster_{name}", _ROUTE) for name in ("upstream_rq_active", "membership_healthy", "membership_total")
    )
    found = [
        RouteRates(
            name,
            _per_second(requests[name] - earlier.get(name, 0.0), now, before),
            _per_second(failed.get(name, 0.0) - failed_earlier.get(name, 0.0), now, before),
            *_times(now, before, name),
            int(active.get(name, 0)),
            int(healthy.get(name, 0)),
            int(upstreams.get(name, 0)),
        )
        for name in requests
    ]
    return sorted(found, key=lambda route: (-route.per_second, -route.active, route.name))


def _per_second(increase: float, now: Reading, before: Reading) -> float:
    """Return the rate; a restarted process counts from zero."""
    return max(0.0, increase) / max(now.read_at - before.read_at, 0.001)


def _failures(reading: Reading) -> Iterator[tuple[str, float]]:
    for labels, value in reading.samples.get("envoy_cluster_upstream_rq_xx", {}).items():
        names = dict(labels)
        if names.get("envoy_response_code_class") == "5":
            yield names.get(_ROUTE, ""), value


def _times(now: Reading, before: Reading, route: str) -> tuple[float | None, float | None]:
    """Return mean and 95th percentile between the snapshots, or since the start if no request ended in between."""
    for earlier in (before, None):
        total, count = (
            now.by_label(name, _ROUTE).get(route, 0.0) - (earlier.by_label(name, _ROUTE).get(route, 0.0) if earlier else 0.0)
            for name in ("envoy_cluster_upstream_rq_time_sum", "envoy_cluster_upstream_rq_time_count")
        )
        if count > 0:
            return total / count, _percentile(_buckets(now, route), _buckets(earlier, route) if earlier else {}, 0.95)
    return None, None


def _buckets(reading: Reading, route: str) -> dict[float, float]:
    found = {}
    for labels, value in reading.samples.get(_TIME, {}).items():
        names = dict(labels)
        if names.get(_ROUTE) == route:
            found[float(names["le"])] = value
    return found


def _percentile(now: Mapping[float, float], before: Mapping[float, float], part: float) -> float | None:
    """Return the upper bound of the bucket with this quantile; the last bucket has none."""
    counts = [(bound, value - before.get(bound, 0.0)) for bound, value in sorted(now.items())]
    total = counts[-1][1] if counts else 0.0
    for bound, count in counts:
        if total > 0 and count >= part * total:
            return bound if bound < inf else None
    return None
