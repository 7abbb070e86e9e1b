"""Trace of a request that Envoy carries: its spans stay open until Envoy has told of its end."""

import time
from typing import Self

from foundation.telemetry.tracing.spans import INTERNAL, AnySpan, Span
from foundation.telemetry.tracing.tracer import Tracer
from proxy.observe.request_recorder import RequestContext, RequestRecorder
from proxy.observe.request_spans import decided, note_carried, request_span, upstream_span
from proxy.upstreams.outgoing_request import OutgoingRequest


class CarriedTrace:
    """Spans of one request: `root`, and `upstream` below it, of which the upstream hears."""

    def __init__(self, root: Span, upstream: AnySpan):
        self._root, self._upstream = root, upstream

    @classmethod
    def begin(cls, tracer: Tracer, context: RequestContext, outgoing: OutgoingRequest) -> Self | None:
        """Trace of a request that was judged, told as if it had begun with the request; None for one that is not traced."""
        began = time.time_ns() - round((time.monotonic() - context.incoming.started_at) * 1e9)
        root = request_span(tracer, context.incoming, began)
        if root is None:
            return None
        if context.decision is not None:
            judging = root.child("authorize", INTERNAL, decided(context.decision.check.decision), began)
            judging.end(judging.at_offset(context.decision_seconds or 0.0))
        with root.activate():
            return cls(root, upstream_span(outgoing))

    def record(self, recorder: RequestRecorder, context: RequestContext, trouble: str) -> None:
        """Record its end.  `trouble` is a word for why there is no result."""
        if context.result is None:
            self._upstream.set_error(trouble)
        else:
            note_carried(self._upstream, context.result)
        with self._root.activate():
            recorder.record(context)
        ended = None if context.total_seconds is None else self._root.at_offset(context.total_seconds)
        self._upstream.end(ended)
        self._root.end(ended)
