"""Spans of traced requests; untraced requests create no objects.

A span has names, statuses, hosts and paths, but no queries, headers, cookies, user names or error messages.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

from foundation.telemetry.tracing import trace_context
from foundation.web.asgi_types import Header

Attributes = Mapping[str, str | int | bool]

SERVER, CLIENT, INTERNAL = "SERVER", "CLIENT", "INTERNAL"

_current: ContextVar["Span | None"] = ContextVar("span", default=None)


class Span:
    """Operation of a traced request, from its creation to the end of the `with` block or to `end`."""

    __slots__ = ("_inner", "_token", "_tracer", "b3_enabled", "is_open")

    def __init__(self, tracer: Any, inner: Any, *, b3_enabled: bool):
        self._tracer = tracer
        self._inner = inner
        self._token: Token[Span | None] | None = None
        self.b3_enabled = b3_enabled
        self.is_open = True

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if self._token is not None:
            _current.reset(self._token)
        if kind is not None:
            self.set_error(kind.__name__)
        self.end()

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make this the current span in a `with` block that does not end it."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def end(self, ended_at: int | None = None) -> None:
        """End the span now, or at a given time in nanoseconds since 1970."""
        self.is_open = False
        self._inner.end(ended_at)

    def at_offset(self, seconds: float) -> int:
        """Return the time that is `seconds` after the start of the span, in nanoseconds since 1970."""
        return int(self._inner.start_time) + round(seconds * 1e9)

    def set_attributes(self, attributes: Attributes) -> None:
        self._inner.set_attributes(attributes)

    def set_name(self, name: str) -> None:
        self._inner.update_name(name)

    def set_error(self, kind: str) -> None:
        """Mark the span as failed; `kind` is an error type, because messages may have secrets."""
        from opentelemetry.trace import StatusCode

        self._inner.set_attribute("error.type", kind)
        self._inner.set_status(StatusCode.ERROR)

    def child(self, name: str, kind: str, attributes: Attributes, started_at: int | None = None) -> "Span":
        """Start a child span, now or at a time in nanoseconds since 1970."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        inner = self._tracer.start_span(name, set_span_in_context(self._inner), SpanKind[kind], attributes, start_time=started_at)
        return Span(self._tracer, inner, b3_enabled=self.b3_enabled)

    @property
    def traceparent(self) -> str:
        ids = self._inner.get_span_context()
        return trace_context.traceparent(ids.trace_id, ids.span_id)

    def with_trace_headers(self, headers: Iterable[Header]) -> list[Header]:
        """Return `headers` with all trace headers replaced by those of this span."""
        ids = self._inner.get_span_context()
        others = [header for header in headers if header[0].lower() not in trace_context.TRACE_HEADERS]
        return others + trace_context.inject_headers(ids.trace_id, ids.span_id, ids.trace_state.to_header(), b3_enabled=self.b3_enabled)


class _NoSpan:
    """Null object for requests that are not traced."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def set_attributes(self, attributes: Attributes) -> None:
        """Do nothing. Callers check `if span:` if the attributes are expensive to build."""

    def set_name(self, name: str) -> None:
        pass

    def set_error(self, kind: str) -> None:
        pass

    def end(self, ended_at: int | None = None) -> None:
        pass

    @property
    def traceparent(self) -> str:
        return ""

    def with_trace_headers(self, headers: Iterable[Header]) -> list[Header]:
        return list(headers)


NO_SPAN = _NoSpan()
_NO_ATTRIBUTES: Attributes = {}

AnySpan = Span | _NoSpan


def span(name: str, kind: str = INTERNAL, attributes: Attributes = _NO_ATTRIBUTES) -> AnySpan:
    """Return a child of the current span for a `with` block, or `NO_SPAN` if the request is not traced."""
    parent = _current.get()
    # Background work that outlives its request is not traced.
    return parent.child(name, kind, attributes) if parent is not None and parent.is_open else NO_SPAN


# The current span, None if the request is not traced: the only cost of tracing for such a request.
active_span = _current.get


def current_span() -> AnySpan:
    return _current.get() or NO_SPAN
