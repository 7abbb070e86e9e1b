"""Request metrics: completed requests by configured host; other hosts share one label."""

from collections.abc import Collection

from authorize.policy.paths.canonical import canonical_host
from foundation.errors import BadRequest
from foundation.telemetry.http_metrics import OTHER, HttpMetrics
from foundation.telemetry.metrics import CallMetrics

_MAX_CACHED_LABELS = 1000


class RequestCounter:
    """Request counter.  `hosts` are the hosts of routes and of gate's pages, with wildcards as configured."""

    def __init__(self, service: str, hosts: Collection[str]):
        self._calls = HttpMetrics.server(service)
        self._hosts = frozenset(hosts)
        self._series_cache: dict[tuple[bytes, bytes, int], CallMetrics] = {}

    def __call__(self, host: bytes, method: bytes, status: int, seconds: float, received: int | None, sent: int | None) -> None:
        """Count a request.  `host` is the client's; it and `method` are empty if the request could not be parsed."""
        key = (host, method, status)
        (self._series_cache.get(key) or self._series(key)).observe(seconds, received, sent)

    def _series(self, key: tuple[bytes, bytes, int]) -> CallMetrics:
        host, method, status = key
        name = self._host_label(host)
        series = self._calls.series(name, method.decode(), str(status))
        if name is not OTHER and len(self._series_cache) < _MAX_CACHED_LABELS:
            self._series_cache[key] = series
        return series

    def _host_label(self, raw: bytes) -> str:
        try:
            host, _ = canonical_host(raw)
        except BadRequest:
            return OTHER
        wildcard = f"*.{host.partition('.')[2]}"
        return host if host in self._hosts else wildcard if wildcard in self._hosts else OTHER
