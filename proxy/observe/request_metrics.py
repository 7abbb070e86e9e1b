"""Request metrics: requests that end, by a host that is ours, whatever clients say."""

from collections.abc import Collection

from authorize.policy.paths.canonical import canonical_host
from foundation.errors import BadRequest
from foundation.telemetry.http_metrics import OTHER, HttpMetrics
from foundation.telemetry.metrics import CallMetrics

_MOST_SPELLINGS = 1000


class RequestCounter:
    """Request counter.  `hosts` are those of routes and of our own pages, wildcards as they are written."""

    def __init__(self, service: str, hosts: Collection[str]):
        self._calls = HttpMetrics.server(service)
        self._hosts = frozenset(hosts)
        self._known: dict[tuple[bytes, bytes, int], CallMetrics] = {}

    def __call__(self, host: bytes, method: bytes, status: int, seconds: float, received: int | None, sent: int | None) -> None:
        """`host` as the client wrote it; empty, as the method, where there was no request to be read."""
        asked = (host, method, status)
        (self._known.get(asked) or self._series(asked)).observe(seconds, received, sent)

    def _series(self, asked: tuple[bytes, bytes, int]) -> CallMetrics:
        host, method, status = asked
        name = self._name(host)
        series = self._calls.series(name, method.decode(), str(status))
        if name is not OTHER and len(self._known) < _MOST_SPELLINGS:
            self._known[asked] = series
        return series

    def _name(self, raw: bytes) -> str:
        try:
            host, _ = canonical_host(raw)
        except BadRequest:
            return OTHER
        wildcard = f"*.{host.partition('.')[2]}"
        return host if host in self._hosts else wildcard if wildcard in self._hosts else OTHER
