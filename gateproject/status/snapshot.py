"""Reading of a running gate: its readiness and its metrics, as numbers that a screen shows."""

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
# With `workers` each process has its own sample.  These say the same of every process, and are not added up: the earliest start, the
# oldest configuration, the worst of what each of them sees.
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
    """Reading of one process.  `trouble` says why there is none; `at` is when, in seconds of a clock that never goes back."""

    address: str
    at: float
    is_ready: bool = False
    parts: tuple[ComponentStatus, ...] = ()
    samples: Mapping[str, Mapping[Labels, float]] = field(default_factory=dict)
    trouble: str = ""

    def value(self, name: str) -> float | None:
        """Return a metric over all its labels; None where there is no such metric."""
        found = self.samples.get(name)
        return None if not found else _NOT_ADDED.get(name, sum)(found.values())

    def label(self, name: str, label: str) -> str:
        """Value of a label of a metric's first sample, "" for none."""
        return next((dict(labels).get(label, "") for labels in self.samples.get(name, ())), "")

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return a metric by one of its labels, over all others."""
        found: dict[str, list[float]] = {}
        for labels, value in self.samples.get(name, {}).items():
            if key := dict(labels).get(label):
                found.setdefault(key, []).append(value)
        return {key: _NOT_ADDED.get(name, sum)(values) for key, values in found.items()}


@dataclass(frozen=True, slots=True)
class RouteReading:
    """Reading of a route between two readings of its process, or since its start.  Times are milliseconds, None where nothing was asked."""

    name: str
    per_second: float
    errors_per_second: float
    mean: float | None
    p95: float | None
    active: int
    healthy: int
    upstreams: int


def read(address: str, page: Page, clock: Callable[[], float] = time.monotonic) -> Reading:
    """Reading of the process whose `metrics_address` this is.  Never raises for what a network does."""
    at = clock()
    status, text = page(address, "/readyz?format=json")
    if status not in (200, 503):
        return Reading(
            address, at, trouble=text if status == 0 else f"{address}/readyz returned {status}. Check that this is gate's metrics_address"
        )
    try:
        told = json.loads(text)
        parts = tuple(ComponentStatus(name, ReadinessState(part["state"]), part["reason"]) for name, part in told["parts"].items())
        status, text = page(address, "/metrics")
        samples = _samples(text) if status == 200 else {}
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reading(address, at, trouble=f"unexpected response from {address}. Check that this is gate's metrics_address")
    return Reading(address, at, told["ready"] is True, parts, samples)


def _samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    # Without its comments nothing is taken for a counter whose name must end in _total: Envoy's names don't.
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")) + "\n"
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def rate(now: Reading, before: Reading, name: str) -> float | None:
    """Increase of a counter for each second between two readings; None where nothing is known of it."""
    newer, older = now.value(name), before.value(name)
    return None if newer is None else _per_second(newer - (older or 0.0), now, before)


def routes(now: Reading, before: Reading) -> list[RouteReading]:
    """Routes, those that are asked most first."""
    asked, earlier = (each.by("envoy_cluster_upstream_rq_total", _ROUTE) for each in (now, before))
    failed, failed_earlier = (dict(_failures(each)) for each in (now, before))
    active, healthy, upstreams = (
        now.by(f"envoy_cluster_{name}", _ROUTE) for name in ("upstream_rq_active", "membership_healthy", "membership_total")
    )
    found = [
        RouteReading(
            name,
            _per_second(asked[name] - earlier.get(name, 0.0), now, before),
            _per_second(failed.get(name, 0.0) - failed_earlier.get(name, 0.0), now, before),
            *_times(now, before, name),
            int(active.get(name, 0)),
            int(healthy.get(name, 0)),
            int(upstreams.get(name, 0)),
        )
        for name in asked
    ]
    return sorted(found, key=lambda route: (-route.per_second, -route.active, route.name))


def _per_second(increase: float, now: Reading, before: Reading) -> float:
    """A process that was started again counts from zero."""
    return max(0.0, increase) / max(now.at - before.at, 0.001)


def _failures(reading: Reading) -> Iterator[tuple[str, float]]:
    for labels, value in reading.samples.get("envoy_cluster_upstream_rq_xx", {}).items():
        of = dict(labels)
        if of.get("envoy_response_code_class") == "5":
            yield of.get(_ROUTE, ""), value


def _times(now: Reading, before: Reading, route: str) -> tuple[float | None, float | None]:
    """Mean and 95th percentile of what ended between the two, or, where nothing did, since the start."""
    for earlier in (before, None):
        total, count = (
            now.by(name, _ROUTE).get(route, 0.0) - (earlier.by(name, _ROUTE).get(route, 0.0) if earlier else 0.0)
            for name in ("envoy_cluster_upstream_rq_time_sum", "envoy_cluster_upstream_rq_time_count")
        )
        if count > 0:
            return total / count, _percentile(_buckets(now, route), _buckets(earlier, route) if earlier else {}, 0.95)
    return None, None


def _buckets(reading: Reading, route: str) -> dict[float, float]:
    found = {}
    for labels, value in reading.samples.get(_TIME, {}).items():
        of = dict(labels)
        if of.get(_ROUTE) == route:
            found[float(of["le"])] = value
    return found


def _percentile(now: Mapping[float, float], before: Mapping[float, float], part: float) -> float | None:
    """Upper end of the bucket in which this part of all lies; the last one has none."""
    counts = [(bound, value - before.get(bound, 0.0)) for bound, value in sorted(now.items())]
    total = counts[-1][1] if counts else 0.0
    for bound, count in counts:
        if total > 0 and count >= part * total:
            return bound if bound < inf else None
    return None
