"""Trace of a request that Envoy carries: its spans stay open until Envoy has told of its end."""

import time
from typing import Self

from foundation.telemetry.tracing.spans import INTERNAL, AnySpan, Span
from foundation.telemetry.tracing.tracer import Tracer
from proxy.forwarding.http import ForwardResult
from proxy.observe.access_log import RequestLog
from proxy.observe.spans import decided, note_carried, request_span, upstream_span
from proxy.upstreams.request import OutgoingRequest


class CarriedTrace:
    """Spans of one request: `root`, and `upstream` below it, of which the upstream hears."""

    def __init__(self, root: Span, upstream: AnySpan):
        self._root, self._upstream = root, upstream

    @classmethod
    def begin(cls, tracer: Tracer, log: RequestLog, outgoing: OutgoingRequest) -> Self | None:
        """Trace of a request that was judged, told as if it had begun with the request; None for one that is not traced."""
        began = time.time_ns() - round((time.monotonic() - log.incoming.started) * 1e9)
        root = request_span(tracer, log.incoming, began)
        if root is None:
            return None
        if log.judged is not None:
            judging = root.below("authorize", INTERNAL, decided(log.judged.check.decision), began)
            judging.end(judging.after(log.seconds or 0.0))
        with root.resumed():
            return cls(root, upstream_span(outgoing))

    def tell(self, log: RequestLog, result: ForwardResult | None, trouble: str) -> None:
        """Tell of its end with the log's line.  `trouble` is a word for why there is no result."""
        if result is None:
            self._upstream.fail(trouble)
        else:
            note_carried(self._upstream, result)
        with self._root.resumed():
            log.tell()
        ended = None if log.seconds_in_all is None else self._root.after(log.seconds_in_all)
        self._upstream.end(ended)
        self._root.end(ended)
