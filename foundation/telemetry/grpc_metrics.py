"""gRPC metrics: calls that gate serves or makes, by status, with duration and size."""

from collections.abc import Iterable

import grpc

from foundation.telemetry import metrics

# Callers choose method names, so unregistered methods share one series.
UNKNOWN = ("unknown", "unknown")


class GrpcMetrics:
    """Metrics of one side: the `server`, or the `client` of one host."""

    def __init__(self, families: metrics.CallFamilies, *labels: str):
        self._families = families
        self._labels = labels
        self._names: dict[str, tuple[str, str]] = {}
        self._series: dict[tuple[tuple[str, str], grpc.StatusCode], metrics.CallMetrics] = {}

    @classmethod
    def server(cls, service: str) -> "GrpcMetrics":
        return cls(metrics.grpc_server, service)

    @classmethod
    def client(cls, service: str, host: str) -> "GrpcMetrics":
        return cls(metrics.grpc_client, service, host)

    def register_methods(self, methods: Iterable[str]) -> None:
        """Register methods (`/package.Service/Method`), which get separate series."""
        for method in methods:
            _, service, name = method.split("/")
            self._names[method] = (name, service)

    def observe(self, method: str, status: grpc.StatusCode, seconds: float, request_bytes: int, response_bytes: int) -> None:
        """Count a call. There is one series per registered method and status, so their number is bounded."""
        name = self._names.get(method, UNKNOWN)
        if (series := self._series.get((name, status))) is None:
            series = self._families.labels(*self._labels, *name, status.name)
            self._series[name, status] = series
        series.observe(seconds, request_bytes, response_bytes)
