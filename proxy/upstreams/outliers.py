"""Outlier detection: temporary ejection of upstreams that fail, computed from response statuses and the time."""

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from config.routes.upstreams.upstream_health import OutlierDetection

GATEWAY_FAILURES = frozenset({502, 503, 504})


@dataclass(slots=True, eq=False)
class OutlierState:
    """Outlier statistics of one upstream, from the responses to its requests."""

    ejected_until: float = 0.0
    ejections: int = 0
    consecutive_errors: int = 0  # consecutive statuses from 500
    gateway_failures: int = 0  # consecutive
    requests: int = 0  # in this interval
    failures: int = 0

    def is_ejected(self, now: float) -> bool:
        return now < self.ejected_until


class OutlierDetector:
    """Outlier detector of one cluster."""

    def __init__(self, settings: OutlierDetection, rng: random.Random):
        self._settings = settings
        self._rng = rng
        self._interval_started_at: float | None = None

    def record_response(self, outliers: Sequence[OutlierState], index: int, status: int, now: float) -> list[tuple[int, str]]:
        """Record a response. Return the new ejections as (index, reason)."""
        settings, outlier = self._settings, outliers[index]
        ejections = self._on_interval(outliers, now)
        outlier.requests += 1
        outlier.failures += status >= 500
        outlier.consecutive_errors = outlier.consecutive_errors + 1 if status >= 500 else 0
        outlier.gateway_failures = outlier.gateway_failures + 1 if status in GATEWAY_FAILURES else 0
        if outlier.consecutive_errors >= settings.consecutive_5xx:
            outlier.consecutive_errors = 0
            ejections += self._eject(outliers, index, now, settings.enforcing_consecutive_5xx, "consecutive 5xx")
        if outlier.gateway_failures >= settings.consecutive_gateway_failure:
            outlier.gateway_failures = 0
            ejections += self._eject(outliers, index, now, settings.enforcing_consecutive_gateway_failure, "consecutive gateway failures")
        return ejections

    def _on_interval(self, outliers: Sequence[OutlierState], now: float) -> list[tuple[int, str]]:
        """At the end of an interval, compare rates, and reduce the ejection count of upstreams that are not ejected."""
        if self._interval_started_at is None:
            self._interval_started_at = now
        if now - self._interval_started_at < self._settings.interval.total_seconds():
            return []
        self._interval_started_at = now
        ejections = self._success_rate_outliers(outliers, now) + self._failure_percentage_outliers(outliers, now)
        for outlier in outliers:
            if not outlier.is_ejected(now):
                outlier.ejections = max(0, outlier.ejections - 1)
            outlier.requests = outlier.failures = 0
        return ejections

    def _success_rate_outliers(self, outliers: Sequence[OutlierState], now: float) -> list[tuple[int, str]]:
        settings = self._settings
        rates = _success_rates(outliers, settings.success_rate_request_volume, now)
        if len(rates) < settings.success_rate_minimum_hosts:
            return []
        min_rate = statistics.fmean(rates.values()) - statistics.pstdev(rates.values()) * settings.success_rate_stdev_factor / 1000
        low = [index for index, rate in rates.items() if rate < min_rate]
        return [each for index in low for each in self._eject(outliers, index, now, settings.enforcing_success_rate, "low success rate")]

    def _failure_percentage_outliers(self, outliers: Sequence[OutlierState], now: float) -> list[tuple[int, str]]:
        settings = self._settings
        rates = _success_rates(outliers, settings.failure_percentage_request_volume, now)
        if len(rates) < settings.failure_percentage_minimum_hosts:
            return []
        high = [index for index, rate in rates.items() if 100 - rate >= settings.failure_percentage_threshold]
        return [each for index in high for each in self._eject(outliers, index, now, settings.enforcing_failure_percentage, "failures")]

    def _eject(self, outliers: Sequence[OutlierState], index: int, now: float, enforcing: int, reason: str) -> list[tuple[int, str]]:
        settings, outlier = self._settings, outliers[index]
        ejected = sum(each.is_ejected(now) for each in outliers)
        may_eject = ejected == 0 or (ejected + 1) * 100 <= settings.max_ejection_percent * len(outliers)
        if outlier.is_ejected(now) or not may_eject or self._rng.random() * 100 >= enforcing:
            return []
        outlier.ejections += 1
        base_seconds, max_seconds = settings.base_ejection_time.total_seconds(), settings.max_ejection_time.total_seconds()
        outlier.ejected_until = now + min(base_seconds * outlier.ejections, max(base_seconds, max_seconds))
        return [(index, reason)]


def _success_rates(outliers: Sequence[OutlierState], volume: int, now: float) -> dict[int, float]:
    return {
        index: 100 - 100 * outlier.failures / outlier.requests
        for index, outlier in enumerate(outliers)
        if outlier.requests >= volume and not outlier.is_ejected(now)
    }
