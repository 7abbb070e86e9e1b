"""Tracer: samples requests before any span is created, and exports spans on a background thread."""

import random
import threading
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Protocol

from foundation.telemetry.tracing.spans import SERVER, Span
from foundation.telemetry.tracing.trace_context import TRACEPARENT, ParentSpan, extract_parent
from foundation.values import HostPort, Url
from foundation.web.asgi_types import Header

# Product name -> value of tracing_provider.
PROVIDER_ALIASES = {"datadog": "monitor", "jaeger": "thrift", "zipkin": "span"}


class TracingConfig(Protocol):
    """Configuration values: the backend, its address, and the share of requests that are traced (0 to 1)."""

    certificate_authority: bytes | None
    tracing_provider: str | None
    tracing_sample_rate: Decimal
    tracing_monitor_address: HostPort
    tracing_thrift_collector_endpoint: Url | None
    tracing_thrift_agent_endpoint: HostPort | None
    tracing_span_endpoint: Url | None

    @property
    def service_label(self) -> str: ...


# Maximum remote traces per second, because a trusted proxy may pass on headers that a client wrote.
MAX_REMOTE_PER_SECOND = 50
MAX_QUEUED_SPANS = 2048  # spans
EXPORT_INTERVAL_MILLISECONDS = 2000  # milliseconds
MAX_VALUE_LENGTH = 256  # characters
MAX_ATTRIBUTES = 32  # per span

_SETTINGS = (
    "tracing_provider",
    "tracing_sample_rate",
    "tracing_monitor_address",
    "tracing_thrift_collector_endpoint",
    "tracing_thrift_agent_endpoint",
    "tracing_span_endpoint",
    "certificate_authority",
    "services",
)


class Tracer:
    """Tracer of one configuration, built off the event loop and inactive until `start`."""

    def __init__(
        self, options: TracingConfig, clock: Callable[[], float] = time.monotonic, random_value: Callable[[], float] = random.random
    ):
        from foundation.telemetry.tracing.export import exporter

        self.settings = _settings(options)
        backend = str(PROVIDER_ALIASES.get(str(options.tracing_provider), options.tracing_provider))
        self._rate = float(options.tracing_sample_rate)
        self._b3_enabled = backend == "span"
        self._service = options.service_label
        self._clock, self._random_value = clock, random_value
        self._window, self._remote_traces = 0.0, 0
        self._exporter = exporter(backend, export_target(options, backend), self._service, options.certificate_authority)
        self._provider: Any = None
        self._tracer: Any = None

    @classmethod
    def from_options(cls, options: TracingConfig, previous: "Tracer | None" = None) -> "Tracer | None":
        """Return the tracer, or None without tracing_provider; `previous` is reused if no setting has changed."""
        if options.tracing_provider is None:
            return None
        return previous if previous is not None and previous.settings == _settings(options) else cls(options)

    def start(self) -> None:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import SpanLimits, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ALWAYS_ON

        if self._provider is not None:
            return
        # All parameters are explicit, so that OpenTelemetry's environment variables change nothing.
        limits = SpanLimits(max_span_attributes=MAX_ATTRIBUTES, max_span_attribute_length=MAX_VALUE_LENGTH, max_links=1, max_events=0)
        resource = Resource({"service.name": self._service})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, span_limits=limits, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, MAX_QUEUED_SPANS, EXPORT_INTERVAL_MILLISECONDS, 512, 10_000))
        self._tracer = self._provider.get_tracer("gate")

    def stop(self, timeout: float = 2.0) -> None:
        """Export the remaining spans, waiting at most `timeout` seconds for the backend."""
        if self._provider is None:
            return
        end = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        end.start()
        end.join(timeout)

    def start_root(self, name: str, headers: Iterable[Header], *, is_trusted: bool, started_at: int | None = None) -> Span | None:
        """Return the root span of a request for a `with` block, or None if the request is not sampled.

        It starts now, or at `at` in nanoseconds since 1970. A trusted peer determines the trace and, up to a rate limit, the sampling
        decision. The trace of any other peer is only linked, if gate samples the request.
        """
        if self._tracer is None:
            return None
        parent = extract_parent(headers, b3_enabled=self._b3_enabled) if is_trusted else None
        if not self._is_sampled(parent):
            return None
        linked = None if is_trusted else extract_parent(headers, b3_enabled=self._b3_enabled)
        return self._start_span(name, parent, linked, started_at)

    def start_remote(self, name: str, traceparent: str) -> Span | None:
        """Return the span of a call by another gate service, which sends `traceparent` only for sampled spans."""
        return (
            self.start_root(name, [(TRACEPARENT.encode(), traceparent.encode("latin-1", "replace"))], is_trusted=True)
            if traceparent
            else None
        )

    def _is_sampled(self, parent: ParentSpan | None) -> bool:
        if parent is None or parent.is_sampled is None:
            return self._random_value() < self._rate
        return parent.is_sampled and self._allow_remote()

    def _allow_remote(self) -> bool:
        now = self._clock()
        if now - self._window >= 1:
            self._window, self._remote_traces = now, 0
        self._remote_traces += 1
        return self._remote_traces <= MAX_REMOTE_PER_SECOND

    def _start_span(self, name: str, parent: ParentSpan | None, linked: ParentSpan | None, started_at: int | None) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, set_span_in_context

        empty = Context()  # without a context that a library may have set
        parent_context = empty if parent is None else set_span_in_context(NonRecordingSpan(_remote(parent)), empty)
        links = () if linked is None else (Link(_remote(linked)),)
        inner = self._tracer.start_span(name, parent_context, SpanKind[SERVER], links=links, start_time=started_at)
        return Span(self._tracer, inner, b3_enabled=self._b3_enabled)


def _remote(parent: ParentSpan) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([parent.state]) if parent.state else None
    return SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED), trace_state=state)


def export_target(options: TracingConfig, backend: str) -> Url | HostPort:
    """Return the address of a backend. Raise ValueError if it is missing, which the configuration rejects."""
    target = {
        "monitor": options.tracing_monitor_address,
        "thrift": options.tracing_thrift_collector_endpoint or options.tracing_thrift_agent_endpoint,
        "span": options.tracing_span_endpoint,
        "otlp": options.tracing_span_endpoint,
    }[backend]
    if target is None:
        raise ValueError("a tracing provider without its endpoint is refused when the configuration is loaded")
    return target


def _settings(options: TracingConfig) -> tuple[object, ...]:
    return tuple(getattr(options, name) for name in _SETTINGS)


_current: Tracer | None = None


def set_tracer(tracer: Tracer | None) -> None:
    """Set the tracer of this process; the previous one exports its remaining spans in the background."""
    global _current
    before = _current
    if tracer is not None:
        tracer.start()
    _current = tracer
    if before is not None and before is not tracer:
        threading.Thread(target=before.stop, name="replaced tracer", daemon=True).start()


def stop() -> None:
    """Stop the tracer at the end of the process, waiting briefly for the last spans."""
    if _current is not None:
        _current.stop()


def current_tracer() -> Tracer | None:
    return _current
