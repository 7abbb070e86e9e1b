"""Spans of the few requests that are traced; of all others nothing is ever made.

A span holds names, statuses, hosts and paths: no query, no header, no cookie, nobody's name, and no error's words.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Self

from foundation.telemetry.tracing import trace_context
from foundation.web.asgi_types import Header

Facts = Mapping[str, str | int | bool]

SERVER, CLIENT, INTERNAL = "SERVER", "CLIENT", "INTERNAL"

_current: ContextVar["Span | None"] = ContextVar("span", default=None)


class Span:
    """A piece of work of a request that is traced: it lasts from its making to the end of the `with` block, or to `end`."""

    __slots__ = ("_inner", "_token", "_tracer", "is_open", "writes_b3")

    def __init__(self, tracer: Any, inner: Any, *, writes_b3: bool):
        self._tracer = tracer
        self._inner = inner
        self._token: Token[Span | None] | None = None
        self.writes_b3 = writes_b3
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
            self.fail(kind.__name__)
        self.end()

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Context in which it is the span of now, and at whose end it goes on."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def end(self, at: int | None = None) -> None:
        """End now, or at a time that somebody else has measured, in nanoseconds since 1970."""
        self.is_open = False
        self._inner.end(at)

    def after(self, seconds: float) -> int:
        """So long after its beginning, in nanoseconds since 1970."""
        return int(self._inner.start_time) + round(seconds * 1e9)

    def note(self, facts: Facts) -> None:
        self._inner.set_attributes(facts)

    def name(self, name: str) -> None:
        self._inner.update_name(name)

    def fail(self, kind: str) -> None:
        """Mark as failed; `kind` is a word for what went wrong: an error's own words may hold anything."""
        from opentelemetry.trace import StatusCode

        self._inner.set_attribute("error.type", kind)
        self._inner.set_status(StatusCode.ERROR)

    def below(self, name: str, kind: str, facts: Facts, at: int | None = None) -> "Span":
        """A span below this one, that began `at` nanoseconds since 1970, or now."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        inner = self._tracer.start_span(name, set_span_in_context(self._inner), SpanKind[kind], facts, start_time=at)
        return Span(self._tracer, inner, writes_b3=self.writes_b3)

    @property
    def traceparent(self) -> str:
        own = self._inner.get_span_context()
        return trace_context.traceparent(own.trace_id, own.span_id)

    def in_headers(self, headers: Iterable[Header]) -> list[Header]:
        """`headers` with this trace in the place of any other."""
        own = self._inner.get_span_context()
        kept = [header for header in headers if header[0].lower() not in trace_context.NAMES]
        return kept + trace_context.headers_of(own.trace_id, own.span_id, own.trace_state.to_header(), writes_b3=self.writes_b3)


class _NoSpan:
    """The span of a request that is not traced: the same, and nothing."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def note(self, facts: Facts) -> None:
        """Ask `if span:` first where making the facts takes time."""

    def name(self, name: str) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass

    def end(self, at: int | None = None) -> None:
        pass

    @property
    def traceparent(self) -> str:
        return ""

    def in_headers(self, headers: Iterable[Header]) -> list[Header]:
        return list(headers)


NO_SPAN = _NoSpan()
_NOTHING: Facts = {}

AnySpan = Span | _NoSpan


def span(name: str, kind: str = INTERNAL, facts: Facts = _NOTHING) -> AnySpan:
    """A span below the one of now, to be entered by `with`; where nothing is traced, one that is nothing."""
    above = _current.get()
    # What a request left running goes on without it: its work belongs to no request any more.
    return above.below(name, kind, facts) if above is not None and above.is_open else NO_SPAN


# Is this request traced?  None for nearly all, who pay for no more than this question.
active = _current.get


def current() -> AnySpan:
    return _current.get() or NO_SPAN
