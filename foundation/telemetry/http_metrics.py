"""HTTP metrics: requests that gate serves or sends, by status, with duration and size."""

from functools import cache

from foundation.telemetry import metrics

# Clients choose methods and hosts, and applications choose statuses, so other methods and further series share one.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT"})
OTHER = "other"
# Status if the client disconnected before the response (nginx).
CLIENT_CLOSED = 499
MAX_SERIES = 500

Labels = tuple[str, str, str]  # host, method, status


class HttpMetrics:
    """Metrics of one side. Callers pass `other` as the host if it is not a configured one, which bounds the number of series."""

    def __init__(self, families: metrics.CallFamilies, service: str):
        self._families = families
        self._service = service
        self._series: dict[Labels, metrics.CallMetrics] = {}

    # Cached per side and service, so that series and their limit survive a reload.
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
        """Count a request. `status` is three digits or the outcome; body sizes are None if they were not counted."""
        self.series(host, method, status).observe(seconds, request_bytes, response_bytes)

    def series(self, host: str, method: str, status: str) -> metrics.CallMetrics:
        """Return the metrics for these label values."""
        labels = (host, method, status)
        if (series := self._series.get(labels)) is not None:
            return series
        if method not in METHODS:
            labels = (host, OTHER, status)
        if len(self._series) >= MAX_SERIES and labels not in self._series:
            labels = (OTHER, OTHER, OTHER)
        if (series := self._series.get(labels)) is None:
            series = self._series[labels] = self._families.labels(self._service, *labels)
        return series
