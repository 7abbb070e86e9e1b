"""Tracer: decides before anything is made of a request whether it is traced; the back-end is told by a thread of its own."""

import random
import threading
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Protocol

from foundation.telemetry.tracing.spans import SERVER, Span
from foundation.telemetry.tracing.trace_context import TRACEPARENT, ParentSpan, parent_of
from foundation.values import HostPort, Url
from foundation.web.asgi_types import Header

# What back-ends are called elsewhere -> the specification's word.
SAME_AS = {"datadog": "monitor", "jaeger": "thrift", "zipkin": "span"}


class TracerSettings(Protocol):
    """Values of the configuration: which back-end is sent spans, where it is, and of what part of the requests (0 to 1)."""

    certificate_authority: bytes | None
    tracing_provider: str | None
    tracing_sample_rate: Decimal
    tracing_monitor_address: HostPort
    tracing_thrift_collector_endpoint: Url | None
    tracing_thrift_agent_endpoint: HostPort | None
    tracing_span_endpoint: Url | None

    @property
    def service_label(self) -> str: ...


# Of traces that others began and want kept, so many a second: whoever is believed may pass on what a client wrote.
MOST_JOINED = 50
QUEUE = 2048  # spans
SEND_EVERY = 2000  # milliseconds
LONGEST_VALUE = 256  # characters
MOST_FACTS = 32  # of one span

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
    """Tracer of one configuration, built off the event loop; nothing runs before `start`, and everything ends with `stop`."""

    def __init__(self, options: TracerSettings, clock: Callable[[], float] = time.monotonic, chance: Callable[[], float] = random.random):
        from foundation.telemetry.tracing.export import exporter

        self.settings = _settings(options)
        back_end = str(SAME_AS.get(str(options.tracing_provider), options.tracing_provider))
        self._rate = float(options.tracing_sample_rate)
        self._speaks_b3 = back_end == "span"
        self._service = options.service_label
        self._clock, self._chance = clock, chance
        self._window, self._joined = 0.0, 0
        self._exporter = exporter(back_end, target_of(options, back_end), self._service, options.certificate_authority)
        self._provider: Any = None
        self._tracer: Any = None

    @classmethod
    def of(cls, options: TracerSettings, previous: "Tracer | None" = None) -> "Tracer | None":
        """The tracer, None where nothing is traced; `previous` where nothing of it has changed."""
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
        # Everything is said here, so that no environment variable of OpenTelemetry changes what is sent, or where.
        limits = SpanLimits(max_span_attributes=MOST_FACTS, max_span_attribute_length=LONGEST_VALUE, max_links=1, max_events=0)
        resource = Resource({"service.name": self._service})
        self._provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, span_limits=limits, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(self._exporter, QUEUE, SEND_EVERY, 512, 10_000))
        self._tracer = self._provider.get_tracer("gate")

    def stop(self, timeout: float = 2.0) -> None:
        """Send what is left.  A back-end that takes no spans is left after `timeout` seconds."""
        if self._provider is None:
            return
        end = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        end.start()
        end.join(timeout)

    def begin(self, name: str, headers: Iterable[Header], *, is_trusted: bool, at: int | None = None) -> Span | None:
        """The first span of a request, to be entered by `with`; None for one that is not traced.  It began `at` nanoseconds since 1970,
        or now.

        Who is trusted says which trace it belongs to, and whether that is kept, within a bound.  Anybody else's trace is no more
        than linked from ours, where chance lets it be kept.
        """
        if self._tracer is None:
            return None
        parent = parent_of(headers, reads_b3=self._speaks_b3) if is_trusted else None
        if not self._keeps(parent):
            return None
        linked = None if is_trusted else parent_of(headers, reads_b3=self._speaks_b3)
        return self._started(name, parent, linked, at)

    def join(self, name: str, named: str) -> Span | None:
        """The span of a call by one of our own services, which names its span only where it is kept."""
        return self.begin(name, [(TRACEPARENT.encode(), named.encode("latin-1", "replace"))], is_trusted=True) if named else None

    def _keeps(self, parent: ParentSpan | None) -> bool:
        if parent is None or parent.is_sampled is None:
            return self._chance() < self._rate
        return parent.is_sampled and self._may_join()

    def _may_join(self) -> bool:
        now = self._clock()
        if now - self._window >= 1:
            self._window, self._joined = now, 0
        self._joined += 1
        return self._joined <= MOST_JOINED

    def _started(self, name: str, parent: ParentSpan | None, linked: ParentSpan | None, at: int | None) -> Span:
        from opentelemetry.context import Context
        from opentelemetry.trace import Link, NonRecordingSpan, SpanKind, set_span_in_context

        empty = Context()  # never what a library may have put there
        above = empty if parent is None else set_span_in_context(NonRecordingSpan(_remote(parent)), empty)
        links = () if linked is None else (Link(_remote(linked)),)
        inner = self._tracer.start_span(name, above, SpanKind[SERVER], links=links, start_time=at)
        return Span(self._tracer, inner, writes_b3=self._speaks_b3)


def _remote(parent: ParentSpan) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([parent.state]) if parent.state else None
    return SpanContext(parent.trace_id, parent.span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED), trace_state=state)


def target_of(options: TracerSettings, back_end: str) -> Url | HostPort:
    """The address that spans go to; ValueError where there is none, which the settings' rules have refused before."""
    target = {
        "monitor": options.tracing_monitor_address,
        "thrift": options.tracing_thrift_collector_endpoint or options.tracing_thrift_agent_endpoint,
        "span": options.tracing_span_endpoint,
        "otlp": options.tracing_span_endpoint,
    }[back_end]
    if target is None:
        raise ValueError("a tracing provider without its endpoint is refused when the configuration is loaded")
    return target


def _settings(options: TracerSettings) -> tuple[object, ...]:
    return tuple(getattr(options, name) for name in _SETTINGS)


_in_force: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """Take over a tracer in this process; the one of before sends what it has, beside everything else."""
    global _in_force
    before = _in_force
    if tracer is not None:
        tracer.start()
    _in_force = tracer
    if before is not None and before is not tracer:
        threading.Thread(target=before.stop, name="replaced tracer", daemon=True).start()


def stop() -> None:
    """Stop the tracer at the end of the process: waits for the last spans, for a moment."""
    if _in_force is not None:
        _in_force.stop()


def in_force() -> Tracer | None:
    return _in_force
