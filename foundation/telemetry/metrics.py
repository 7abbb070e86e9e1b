"""Declarations of all metrics, except those that follow Envoy's names."""

import platform
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

registry = CollectorRegistry()
Kind = TypeVar("Kind", Counter, Gauge, Histogram)


class DeclaredMetric(NamedTuple):
    """Declared metric; `labels` excludes `service`, which every sample has."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]


declared: list[DeclaredMetric] = []


def _declare(kind: str, name: str, help: str, labels: Sequence[str]) -> None:
    exposed = f"{name}_total" if kind == "counter" else name
    declared.append(DeclaredMetric(exposed, kind, help, tuple(label for label in labels if label != "service")))


def _declared(kind: type[Kind], name: str, help: str, labels: Sequence[str] = (), **keys: Any) -> Kind:
    _declare(kind.__name__.lower(), name, help, labels)
    return kind(name, help, labels, registry=registry, **keys)


_counter, _gauge, _histogram = partial(_declared, Counter), partial(_declared, Gauge), partial(_declared, Histogram)

decisions = _counter(
    "gate_decisions",
    "Policy decisions by `outcome` (as in the log) and deciding `reason`, which is empty for `no route`. Re-evaluations do not count.",
    ["outcome", "reason"],
)
mcp_decisions = _counter(
    "gate_mcp_decisions",
    "Decisions on MCP messages by `outcome`, `method`, and `tool` of a `tools/call`. Other methods than MCP's, and tools beyond the first "
    "200 that were allowed, are `other`.",
    ["method", "tool", "outcome"],
)
shadow_decisions = _counter(
    "gate_shadow_decisions",
    "Decisions with rules in `mode: shadow`, by the outcome with these rules (`outcome`) and the enforced one (`enforced`).",
    ["route", "outcome", "enforced"],
)
decisions_dropped = _counter("gate_decision_log_dropped", "Decisions missing in the decision log because its queue was full.")
spans_dropped = _counter("gate_trace_spans_dropped", "Trace spans dropped because the tracing backend did not accept them.")
log_lines_dropped = _counter("gate_log_lines_dropped", "Log lines dropped because standard output was not read in time.")
sessions_cached = _gauge("gate_sessions_cached", "Sessions cached by this process: those that it has authorized requests for.")
clock_skew = _gauge("gate_clock_skew_seconds", "Difference between this machine's clock and the store's clock.")
fd_exhausted = _counter(
    "gate_fd_exhausted",
    "Times the process was short of file descriptors: `clients` (new connections wait) or `upstreams` (requests get 503).",
    ["affected"],
)
unreadable_records = _counter("gate_unreadable_records", "Stored records ignored because they could not be decrypted or parsed.", ["type"])

oauth_tokens = _counter(
    "gate_oauth_tokens",
    "Requests for OAuth tokens by `grant_type` and `outcome`: `issued`, `pending` (a device polls), `refused`, `revoked` (a code or "
    "refresh token was used twice), `unavailable`. Revocations have the grant type `revocation`.",
    ["grant_type", "outcome"],
)
sign_ins_rejected = _counter("gate_sign_ins_rejected", "Sign-ins rejected because too many were waiting for the identity provider.")
session_refresh_failures = _counter(
    "gate_session_refresh_failures",
    "Sessions ended by a failed refresh: the provider refused it (`refused`), sent an invalid one (`invalid`) or none (`unreachable`).",
    ["reason"],
)

workers_serving = _gauge("gate_workers_serving", "Worker processes that accept connections.")
worker_exits = _counter("gate_worker_exits", "Unexpected exits of worker processes, which are restarted.")

upstream_healthy = _gauge(
    "gate_upstream_healthy", "Whether active health checks consider the upstream healthy (1) or not (0).", ["upstream"]
)
upstream_ejections = _counter("gate_upstream_ejections", "Ejections of the upstream by outlier detection.", ["upstream"])
envoy_up = _gauge("gate_envoy_up", "Whether the last scrape of Envoy's admin interface succeeded. With `data_plane: envoy`.")
envoy_resource_usage = _gauge(
    "gate_envoy_resource_usage_ratio", "Envoy's resource usage as a fraction of its limit: `heap` or `connections`.", ["resource"]
)
envoy_unconfirmed_resets = _counter(
    "gate_envoy_unconfirmed_resets", "Restarts of Envoy because it did not confirm the end of connections within a second."
)
tunnels = _gauge("gate_tunnels", "Open TCP tunnels.", ["route"])
tunnel_bytes = _counter(
    "gate_tunnel_bytes",
    "Bytes relayed by TCP tunnels, counted on close: `up` from the client, `down` to it.",
    ["route", "direction"],
)
directory_last_success = _gauge(
    "gate_directory_last_success_timestamp",
    "Time of the last complete directory sync by this process, Unix seconds.",
    ["provider"],
)
directory_sync_duration = _histogram(
    "gate_directory_sync_duration_seconds",
    "Duration of directory syncs by result: `success` or `error`.",
    ["provider", "result"],
    buckets=(0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
)
directory_requests = _counter("gate_directory_requests", "Requests sent to the provider's directory API.", ["provider"])
directory_entries = _gauge("gate_directory_entries", "Users and groups in the last directory sync.", ["provider", "kind"])
directory_lookups = _counter("gate_directory_lookups", "Group lookups at sign-in by result: `success` or `error`.", ["provider", "result"])

certificate_expiry = _gauge("gate_certificate_expiry_timestamp", "Expiry (notAfter) of a served certificate, Unix seconds.", ["name"])
autocert_orders = _counter("gate_autocert_orders", "ACME orders by result: `obtained` or `failed`.", ["result"])

kvstore_connections = _gauge("kvstore_conns", "Connections to the kvstore.")
kvstore_idle_connections = _gauge("kvstore_idle_conns", "Idle connections to the kvstore.")
kvstore_wait_count = _counter("kvstore_wait_count", "Calls that waited for a kvstore connection.")
kvstore_wait_duration = _counter("kvstore_wait_duration_ms", "Time that calls waited for a kvstore connection, milliseconds.")
storage_operation_duration = _histogram(
    "storage_operation_duration_ms",
    "Duration of store operations, milliseconds: `get`, `put`, `delete`, `list` or `clear_deleted`.",
    ["operation", "result", "backend", "service"],
    buckets=(0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
)

_MILLISECONDS = (0.1, 0.3, 0.6, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_BYTES = tuple(2**power for power in range(4, 21, 2))  # 16 bytes to 1 MiB

# HTTP metrics have many series (hosts, methods, statuses), so each has few buckets.
_HTTP_MILLISECONDS = (2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
_HTTP_BYTES = tuple(2**power for power in (8, 10, 12, 14, 16, 18, 20, 23, 26, 30))  # 256 bytes to 1 GiB


class Distribution:
    """Counts of a histogram: the sum, and the number of values up to each of the `bounds`."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]):
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, number: float) -> None:
        self._counts[bisect_left(self._bounds, number)] += 1
        self._sum += number

    def snapshot(self) -> tuple[list[tuple[str, float]], float]:
        """Return the cumulative count up to each bound, and the sum."""
        up_to = accumulate(list(self._counts))
        return list(zip((*map(floatToGoString, self._bounds), "+Inf"), up_to, strict=True)), self._sum


class CallMetrics:
    """Metrics of completed calls with the same labels; a gRPC stream is one call."""

    __slots__ = ("milliseconds", "request_bytes", "requests", "response_bytes")

    def __init__(self, milliseconds: Sequence[float], sizes: Sequence[float]):
        self.requests = 0
        self.milliseconds = Distribution(milliseconds)
        self.request_bytes, self.response_bytes = Distribution(sizes), Distribution(sizes)

    def observe(self, seconds: float, request_bytes: int | None, response_bytes: int | None) -> None:
        """Count a call; a size of None was not measured."""
        self.requests += 1
        self.milliseconds.observe(seconds * 1000)
        if request_bytes is not None:
            self.request_bytes.observe(request_bytes)
        if response_bytes is not None:
            self.response_bytes.observe(response_bytes)


class CallFamilies(Collector):
    """Metric families of calls, by labels.

    Counts are plain numbers on the event loop, because the library's metrics take a lock and scan their buckets linearly.
    """

    def __init__(
        self,
        prefix: str,
        calls: str,
        labels: Sequence[str],
        *,
        milliseconds: Sequence[float] = _MILLISECONDS,
        sizes: Sequence[float] = _BYTES,
    ):
        self._labels = labels
        self._bounds = milliseconds, sizes
        self._series: dict[tuple[str, ...], CallMetrics] = {}
        self._requests = f"{prefix}_requests", f"Number of {calls}."
        self._distributions = (
            ("milliseconds", f"{prefix}_request_duration_ms", f"Duration of {calls}, milliseconds."),
            ("request_bytes", f"{prefix}_request_size_bytes", f"Request size of {calls}, bytes."),
            ("response_bytes", f"{prefix}_response_size_bytes", f"Response size of {calls}, bytes."),
        )
        _declare("counter", *self._requests, labels)
        for _, name, help in self._distributions:
            _declare("histogram", name, help, labels)
        registry.register(self)

    def labels(self, *labels: str) -> CallMetrics:
        """Return the metrics of calls with these labels."""
        if (series := self._series.get(labels)) is None:
            series = self._series[labels] = CallMetrics(*self._bounds)
        return series

    def collect(self) -> Iterable[Metric]:
        """Yield the families; safe in any thread."""
        series = list(self._series.items())
        requests = CounterMetricFamily(*self._requests, labels=self._labels)
        for labels, each in series:
            requests.add_metric(labels, each.requests)
        yield requests
        for attribute, name, help in self._distributions:
            family = HistogramMetricFamily(name, help, labels=self._labels)
            for labels, each in series:
                family.add_metric(labels, *getattr(each, attribute).snapshot())
            yield family


def _grpc(side: str, calls: str, *labels: str) -> CallFamilies:
    return CallFamilies(f"grpc_{side}", f"gRPC calls {calls}", [*labels, "grpc_method", "grpc_service", f"grpc_{side}_status"])


def _http(side: str, calls: str) -> CallFamilies:
    labels = ["service", "host", "http_method", "http_status"]
    return CallFamilies(f"http_{side}", calls, labels, milliseconds=_HTTP_MILLISECONDS, sizes=_HTTP_BYTES)


grpc_client = _grpc("client", "made by gate", "service", "host")
grpc_server = _grpc("server", "served by gate", "service")
http_client = _http("client", "HTTP requests to the identity provider and its directory")
http_server = _http("server", "HTTP requests from clients, answered by gate or forwarded")

build_info = _gauge("gate_build_info", "Constant 1, with the version of gate as labels.", ["service", "version", "revision", "python"])
config_checksum = _gauge("gate_config_checksum_int64", "Checksum of the active configuration.", ["service"])
config_last_reload_success = _gauge(
    "gate_config_last_reload_success",
    "Whether the last configuration reload succeeded (1), or was rejected and the previous configuration stays active (0).",
    ["service"],
)
config_last_reload_success_timestamp = _gauge(
    "gate_config_last_reload_success_timestamp", "Time at which the active configuration was loaded, Unix seconds.", ["service"]
)


def watch_connections(count: Callable[[], tuple[int, int]]) -> None:
    """Set the kvstore connection gauges from `count`, which returns (all, idle) and is called at each scrape."""
    kvstore_connections.set_function(lambda: count()[0])
    kvstore_idle_connections.set_function(lambda: count()[1])


def set_certificate_expiries(source: str, expiries: Mapping[str, float]) -> None:
    """Replace the certificate expiries of one source; `expiries` maps names to Unix seconds."""
    before, _expiries[source] = _expiries.get(source, {}), expiries
    for name in before.keys() | expiries.keys():
        if found := [each[name] for each in _expiries.values() if name in each]:
            certificate_expiry.labels(name).set(min(found))
        else:
            certificate_expiry.remove(name)


_expiries: dict[str, Mapping[str, float]] = {}


def record_directory_sync(provider: str, synced_at: float, entries: Mapping[str, int]) -> None:
    """Record a complete directory sync at `synced_at` (Unix seconds), with the number of entries of each kind."""
    directory_last_success.labels(provider).set(synced_at)
    for kind, number in entries.items():
        directory_entries.labels(provider, kind).set(number)
    _synced_directories.setdefault(provider, set()).update(entries)


def remove_directories(current: Collection[str]) -> None:
    """Remove the series of providers without a directory, whose age would otherwise trigger alerts."""
    for provider in _synced_directories.keys() - set(current):
        directory_last_success.remove(provider)
        for kind in _synced_directories.pop(provider):
            directory_entries.remove(provider, kind)


_synced_directories: dict[str, set[str]] = {}


def set_build_info(service: str, version: str) -> None:
    """Set `gate_build_info`; `version` is `v<release>+<revision>`."""
    release, _, revision = version.removeprefix("v").partition("+")
    build_info.labels(service, release, revision, platform.python_version()).set(1)


def record_config_loaded(service: str, checksum: int, loaded: float) -> None:
    config_checksum.labels(service).set(checksum)
    config_last_reload_success.labels(service).set(1)
    config_last_reload_success_timestamp.labels(service).set(loaded)


def record_config_rejected(service: str) -> None:
    config_last_reload_success.labels(service).set(0)
