"""Metrics: every one is declared here, once."""

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
    """Declared metric; `labels` beside `service`, which every sample has."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...]


declared: list[DeclaredMetric] = []


def _declare(kind: str, name: str, help: str, labels: Sequence[str]) -> None:
    written = f"{name}_total" if kind == "counter" else name
    declared.append(DeclaredMetric(written, kind, help, tuple(label for label in labels if label != "service")))


def _declared(kind: type[Kind], name: str, help: str, labels: Sequence[str] = (), **keys: Any) -> Kind:
    _declare(kind.__name__.lower(), name, help, labels)
    return kind(name, help, labels, registry=registry, **keys)


_counter, _gauge, _histogram = partial(_declared, Counter), partial(_declared, Gauge), partial(_declared, Histogram)

shadow_decisions = _counter(
    "gate_shadow_decisions",
    "Requests that something in `mode: shadow` bears on: what it would have come to, and what it did come to (`enforced`).",
    ["route", "outcome", "enforced"],
)
decisions_not_kept = _counter(
    "gate_decision_log_dropped", "Decisions that the decision log should have kept and did not: they came too fast."
)
spans_not_sent = _counter("gate_trace_spans_dropped", "Spans that the tracing back-end did not take.")
log_lines_dropped = _counter("gate_log_lines_dropped", "Lines of the log that nobody read in time.")
sessions_known = _gauge(
    "gate_sessions_known", "Sessions that this process has decided by since its start, or since it lost the change stream; ended ones go."
)
clock_skew = _gauge("gate_clock_skew_seconds", "By how much this machine's clock is ahead of the store's.")
descriptors_short = _counter(
    "gate_file_descriptors_short",
    "How often there was no file descriptor to spare: for a new client, who then waits, or for an upstream, whose request is a 503.",
    ["for"],
)
unreadable_records = _counter("gate_unreadable_records", "Stored records that were left out because they don't decrypt or parse.", ["type"])

sign_ins_turned_away = _counter(
    "gate_sign_ins_turned_away", "Sign-ins for which there was no place among those that wait for the provider."
)
sessions_not_renewed = _counter(
    "gate_sessions_not_renewed",
    "Sessions that a refresh has ended: the provider's word (`refused`), an answer that can't be believed (`wrong`), none (`unreachable`).",
    ["reason"],
)

workers_serving = _gauge("gate_workers_serving", "Processes that serve `address` at the moment; there are as many as `workers` says.")
worker_ends = _counter("gate_worker_ends", "How often a process after the first has ended by itself, and was started again.")

upstream_healthy = _gauge("gate_upstream_healthy", "1 while its health checks say so, else 0.", ["upstream"])
upstream_ejections = _counter(
    "gate_upstream_ejections", "How often an upstream was left out for a while because of its answers.", ["upstream"]
)
envoy_up = _gauge("gate_envoy_up", "1 while Envoy's own statistics are told here, 0 where it does not answer; with `data_plane: envoy`.")
envoy_pressure = _gauge("gate_envoy_pressure", "How much of what Envoy may have it has, 0 to 1: heap or connections.", ["resource"])
tunnels = _gauge("gate_tunnels", "Tunnels for TCP that are open.", ["route"])
tunnel_bytes = _counter(
    "gate_tunnel_bytes",
    "What tunnels for TCP have carried, counted when they end: `up` from the client, `down` to it.",
    ["route", "direction"],
)
directory_last_success = _gauge(
    "gate_directory_last_success_timestamp",
    "When the directory of a provider was last read as a whole by this process, Unix seconds.",
    ["provider"],
)
directory_sync_duration = _histogram(
    "gate_directory_sync_duration_seconds",
    "How long a reading of a provider's directory took, and how it ended: success or error.",
    ["provider", "result"],
    buckets=(0.1, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600),
)
directory_requests = _counter("gate_directory_requests", "Requests sent to a provider's directory.", ["provider"])
directory_entries = _gauge("gate_directory_entries", "Users and groups at the last reading, by provider.", ["provider", "kind"])
directory_look_ups = _counter("gate_directory_look_ups", "People looked up at sign-in: success or error.", ["provider", "result"])

certificate_expiry = _gauge(
    "gate_certificate_expiry_timestamp", "When a certificate that is shown ends, Unix seconds; with `autocert` on.", ["name"]
)
autocert_orders = _counter("gate_autocert_orders", "Certificates asked of the authority by this process: obtained or failed.", ["result"])

kvstore_conns = _gauge("kvstore_conns", "Connections to the kvstore.")
kvstore_idle_conns = _gauge("kvstore_idle_conns", "Those of them that nobody uses.")
kvstore_wait_count = _counter("kvstore_wait_count", "How often a call had to wait for a connection.")
kvstore_wait_duration = _counter("kvstore_wait_duration_ms", "How long calls waited for one, milliseconds.")
storage_operation_duration = _histogram(
    "storage_operation_duration_ms",
    "How long the kvstore or the database took: get, put, delete, list or clear_deleted.",
    ["operation", "result", "backend", "service"],
    buckets=(0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
)

_MILLISECONDS = (0.1, 0.3, 0.6, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_BYTES = tuple(2**power for power in range(4, 21, 2))  # 16 bytes to 1 MiB

# Hosts, methods and statuses make many series of what is told of HTTP, so each has few buckets.
_HTTP_MILLISECONDS = (2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000)
_HTTP_BYTES = tuple(2**power for power in (8, 10, 12, 14, 16, 18, 20, 23, 26, 30))  # 256 bytes to 1 GiB


class Distribution:
    """Numbers as a histogram tells them: how many, their sum, and how many up to each of the `bounds`."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]):
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, number: float) -> None:
        self._counts[bisect_left(self._bounds, number)] += 1
        self._sum += number

    def told(self) -> tuple[list[tuple[str, float]], float]:
        """(number up to each bound, sum)."""
        up_to = accumulate(list(self._counts))
        return list(zip((*map(floatToGoString, self._bounds), "+Inf"), up_to, strict=True)), self._sum


class CallMetrics:
    """Metrics of calls of one kind, when they end; of a gRPC stream all of it together."""

    __slots__ = ("milliseconds", "request_bytes", "requests", "response_bytes")

    def __init__(self, milliseconds: Sequence[float], sizes: Sequence[float]):
        self.requests = 0
        self.milliseconds = Distribution(milliseconds)
        self.request_bytes, self.response_bytes = Distribution(sizes), Distribution(sizes)

    def ended(self, seconds: float, request_bytes: int | None, response_bytes: int | None) -> None:
        """Count a call; None: nobody counted."""
        self.requests += 1
        self.milliseconds.observe(seconds * 1000)
        if request_bytes is not None:
            self.request_bytes.observe(request_bytes)
        if response_bytes is not None:
            self.response_bytes.observe(response_bytes)


class CallFamilies(Collector):
    """Families of metrics of calls, by labels.

    Counted on the event loop with plain numbers: a metric of the library takes a lock each time, and looks at its buckets one by one.
    """

    def __init__(
        self,
        prefix: str,
        words: str,
        labels: Sequence[str],
        *,
        milliseconds: Sequence[float] = _MILLISECONDS,
        sizes: Sequence[float] = _BYTES,
    ):
        self._labels = labels
        self._bounds = milliseconds, sizes
        self._series: dict[tuple[str, ...], CallMetrics] = {}
        self._requests = f"{prefix}_requests", f"How many: {words}."
        self._distributions = (
            ("milliseconds", f"{prefix}_request_duration_ms", f"How long they took, milliseconds: {words}."),
            ("request_bytes", f"{prefix}_request_size_bytes", f"How large what was asked was: {words}."),
            ("response_bytes", f"{prefix}_response_size_bytes", f"How large the answers were: {words}."),
        )
        _declare("counter", *self._requests, labels)
        for _, name, help in self._distributions:
            _declare("histogram", name, help, labels)
        registry.register(self)

    def labels(self, *labels: str) -> CallMetrics:
        """Metrics of the calls with these labels."""
        if (series := self._series.get(labels)) is None:
            series = self._series[labels] = CallMetrics(*self._bounds)
        return series

    def collect(self) -> Iterable[Metric]:
        """Families; called in any thread."""
        series = list(self._series.items())
        requests = CounterMetricFamily(*self._requests, labels=self._labels)
        for labels, each in series:
            requests.add_metric(labels, each.requests)
        yield requests
        for attribute, name, help in self._distributions:
            family = HistogramMetricFamily(name, help, labels=self._labels)
            for labels, each in series:
                family.add_metric(labels, *getattr(each, attribute).told())
            yield family


def _rpc(side: str, did: str, *labels: str) -> CallFamilies:
    return CallFamilies(f"grpc_{side}", f"gRPC calls that were {did}", [*labels, "grpc_method", "grpc_service", f"grpc_{side}_status"])


def _http(side: str, words: str) -> CallFamilies:
    labels = ["service", "host", "http_method", "http_status"]
    return CallFamilies(f"http_{side}", words, labels, milliseconds=_HTTP_MILLISECONDS, sizes=_HTTP_BYTES)


grpc_client = _rpc("client", "made", "service", "host")
grpc_server = _rpc("server", "answered", "service")
http_client = _http("client", "requests to the identity provider and its directory")
http_server = _http("server", "requests that were answered here, or carried to an upstream")

build_info = _gauge("gate_build_info", "Always 1: what runs.", ["service", "version", "revision", "python"])
config_checksum = _gauge("gate_config_checksum_int64", "Of the configuration in force: the same number where it is the same.", ["service"])
config_last_reload_success = _gauge(
    "gate_config_last_reload_success", "1, or 0 where the last attempt was refused and an older one stays.", ["service"]
)
config_last_reload_success_timestamp = _gauge(
    "gate_config_last_reload_success_timestamp", "When the configuration in force was loaded, Unix seconds.", ["service"]
)


def watch_connections(count: Callable[[], tuple[int, int]]) -> None:
    """Gauges of the kvstore's connections: `count` gives all and the idle ones; asked whenever somebody reads the metrics."""
    kvstore_conns.set_function(lambda: count()[0])
    kvstore_idle_conns.set_function(lambda: count()[1])


def set_certificate_expiries(ends: Mapping[str, float]) -> None:
    """Expiry of certificates, by a name that each is for; those that are no longer shown are told no more."""
    for name in _told_certificates - set(ends):
        certificate_expiry.remove(name)
        _told_certificates.discard(name)
    for name, seconds in ends.items():
        certificate_expiry.labels(name).set(seconds)
        _told_certificates.add(name)


_told_certificates: set[str] = set()


def set_directory_read(provider: str, at: float, entries: Mapping[str, int]) -> None:
    """A good reading of this provider's directory at `at` (Unix seconds), with so many entries of each kind."""
    directory_last_success.labels(provider).set(at)
    for kind, number in entries.items():
        directory_entries.labels(provider, kind).set(number)
    _told_directories.setdefault(provider, set()).update(entries)


def forget_directories(kept: Collection[str]) -> None:
    """Directories of providers that have none any more are told no more: their age would be an alert for ever."""
    for provider in _told_directories.keys() - set(kept):
        directory_last_success.remove(provider)
        for kind in _told_directories.pop(provider):
            directory_entries.remove(provider, kind)


_told_directories: dict[str, set[str]] = {}


def set_build_info(service: str, version: str) -> None:
    """Build information; `version` is `v<release>+<revision>`."""
    release, _, revision = version.removeprefix("v").partition("+")
    build_info.labels(service, release, revision, platform.python_version()).set(1)


def configuration_in_force(service: str, checksum: int, loaded: float) -> None:
    config_checksum.labels(service).set(checksum)
    config_last_reload_success.labels(service).set(1)
    config_last_reload_success_timestamp.labels(service).set(loaded)


def configuration_refused(service: str) -> None:
    config_last_reload_success.labels(service).set(0)
