"""Trace of a request that Envoy forwards; its spans stay open until Envoy has logged the request."""

import time
from typing import Self

from foundation.telemetry.tracing.spans import INTERNAL, AnySpan, Span
from foundation.telemetry.tracing.tracer import Tracer
from proxy.observe.request_recorder import RequestContext, RequestRecorder
from proxy.observe.request_spans import decision_attributes, record_forward_result, start_request_span, upstream_span
from proxy.upstreams.outgoing_request import OutgoingRequest


class ProxiedTrace:
    """Spans of one request: `root`, and its child `upstream`, whose context the upstream receives."""

    def __init__(self, root: Span, upstream: AnySpan):
        self._root, self._upstream = root, upstream

    @classmethod
    def start(cls, tracer: Tracer, context: RequestContext, outgoing: OutgoingRequest) -> Self | None:
        """Start the spans of an authorized request, with its start time. Return None if it is not traced."""
        started_at = time.time_ns() - round((time.monotonic() - context.incoming.started_at) * 1e9)
        root = start_request_span(tracer, context.incoming, started_at)
        if root is None:
            return None
        if context.decision is not None:
            authorization_span = root.child("authorize", INTERNAL, decision_attributes(context.decision.authorization.decision), started_at)
            authorization_span.end(authorization_span.at_offset(context.decision_seconds or 0.0))
        with root.activate():
            return cls(root, upstream_span(outgoing))

    def record(self, recorder: RequestRecorder, context: RequestContext, error_name: str) -> None:
        """Record the completed request. `error_name` names the error if there is no result."""
        if context.result is None:
            self._upstream.set_error(error_name)
        else:
            record_forward_result(self._upstream, context.result)
        with self._root.activate():
            recorder.record(context)
        ended = None if context.total_seconds is None else self._root.at_offset(context.total_seconds)
        self._upstream.end(ended)
        self._root.end(ended)
