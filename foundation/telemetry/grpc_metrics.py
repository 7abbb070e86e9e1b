"""gRPC call metrics: calls made or answered, by outcome, with duration and size."""

from collections.abc import Iterable

import grpc

from foundation.telemetry import metrics

# Whoever calls chooses the name: those that nobody serves share one.
UNKNOWN = ("unknown", "unknown")


class GrpcMetrics:
    """Metrics of one side: calls `answered` here, or `made` to one host."""

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
        """Register methods, `/package.Service/Method`, for labels of their own."""
        for method in methods:
            _, service, name = method.split("/")
            self._names[method] = (name, service)

    def observe(self, method: str, status: grpc.StatusCode, seconds: float, request_bytes: int, response_bytes: int) -> None:
        """Count a call.  Of what one method did with one outcome there is one series, so there are never more than our own methods make."""
        name = self._names.get(method, UNKNOWN)
        if (series := self._series.get((name, status))) is None:
            series = self._families.labels(*self._labels, *name, status.name)
            self._series[name, status] = series
        series.observe(seconds, request_bytes, response_bytes)
