"""HTTP call metrics: requests made or answered, by outcome, with duration and size."""

from functools import cache

from foundation.telemetry import metrics

# Whoever asks chooses method and host, and applications choose their statuses: beyond these, one series is shared.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"})
OTHER = "other"
# The status where the client left before there was an answer.
CLIENT_CLOSED = 499
MAX_SERIES = 500

Named = tuple[str, str, str]  # host, method, status


class HttpMetrics:
    """Metrics of one side, by a `service` and a host that the caller keeps few: it names the host `other` where nobody knows it."""

    def __init__(self, families: metrics.CallFamilies, service: str):
        self._families = families
        self._service = service
        self._series: dict[Named, metrics.CallMetrics] = {}

    # One for each side and service, or each reload would have series, and a bound, of its own.
    @classmethod
    @cache
    def server(cls, service: str) -> "HttpMetrics":
        return cls(metrics.http_server, service)

    @classmethod
    @cache
    def client(cls, service: str) -> "HttpMetrics":
        return cls(metrics.http_client, service)

    def observe(
        self, host: str, method: str, status: str, seconds: float, request_bytes: int | None = None, response_bytes: int | None = None
    ) -> None:
        """Count a call; `status` is three digits, or what became of the request instead; of bodies that nobody counted there is no size."""
        self.series(host, method, status).observe(seconds, request_bytes, response_bytes)

    def series(self, host: str, method: str, status: str) -> metrics.CallMetrics:
        """Metrics that such a call counts in."""
        named = (host, method, status)
        if (known := self._series.get(named)) is not None:
            return known
        if method not in METHODS:
            named = (host, OTHER, status)
        if len(self._series) >= MAX_SERIES and named not in self._series:
            named = (OTHER, OTHER, OTHER)
        if (series := self._series.get(named)) is None:
            series = self._series[named] = self._families.labels(self._service, *named)
        return series
