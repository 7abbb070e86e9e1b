"""Request that Envoy forwards: the headers for Envoy, the error page if the upstream does not respond, and its completion."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from foundation.connection_errors import ConnectFailure
from foundation.errors import AccessRevoked, UpstreamError, UpstreamTimeout
from foundation.telemetry.http_metrics import CLIENT_CLOSED
from foundation.web.asgi_types import Headers, Receive, Send
from proxy.envoy.envoy_request_head import EnvoyRequestHead, header_mutations
from proxy.envoy.proxied.proxied_trace import ProxiedTrace
from proxy.envoy.proxied.response_details import connection_fault, invalid_status, is_malformed, is_response_timeout
from proxy.envoy.resources.internal_headers import (
    AUTHORIZED,
    BODY_UNDECLARED,
    BUFFER_BODY,
    CLUSTER,
    HOST,
    MAY_STREAM,
    PATH,
    RESPONSE_RULES,
    STREAM_ID,
    Address,
)
from proxy.envoy.resources.upstream_clusters import can_fail_over
from proxy.forwarding.forward_result import ForwardResult, TerminationReason
from proxy.listener.listener_limits import MIN_BODY_PROGRESS_BYTES
from proxy.observe.request_metrics import RequestCounter
from proxy.observe.request_recorder import RequestContext
from proxy.planes.embedded import EmbeddedDataPlane
from proxy.planes.open_streams import Stream
from proxy.responses.denials import denial_from_error
from proxy.responses.renderer import CapturedResponse, send_denial
from proxy.upstreams.outgoing_request import OutgoingRequest
from proxy.upstreams.upstream_client import CONNECT_TIMEOUT
from proxy.upstreams.upstream_errors import MALFORMED, bad_status
from proxy.verdict import RequestDecision

TIMEOUT = b"x-envoy-upstream-rq-timeout-ms"
# From the end of the request to the response head.
HEAD_TIMEOUT = b"x-envoy-upstream-rq-per-try-timeout-ms"
_CLUSTER, _STREAM_ID, _HOST, _AUTHORIZED = (name.encode() for name in (CLUSTER, STREAM_ID, HOST, AUTHORIZED))
# If the connection fails, nothing was sent, and Envoy retries at the cluster's next member, which is gate (upstream_clusters.py).
_RETRY_ON_CONNECT_FAILURE = ((b"x-envoy-retry-on", b"connect-failure"), (b"x-envoy-max-retries", b"1"))
_VIA_UPSTREAM = "via_upstream"
# By Envoy's %RESPONSE_FLAGS%; any other flag means that the upstream reset the connection.
_ENDINGS = {"DC": TerminationReason.CLIENT_DISCONNECTED, "UT": TerminationReason.TIMEOUT, "SI": TerminationReason.IDLE_TIMEOUT}
_NO_FLAGS = "-"
_REQUEST_TIMEOUT = 408
# Multiple of `timeout_read` after which gate ends a slow body; later than Envoy's own timeout of an idle one, which has a response.
_SLOW_BODY_FACTOR = 1.25


@dataclass(slots=True)  # not frozen: one is made for each request
class RequestSummary:
    """Access log entry of a completed request. Sizes are in bytes; `status` is 0 if no response was sent."""

    status: int
    seconds: float
    sent: int
    received: int
    flags: str
    details: str

    @property
    def is_client_timeout(self) -> bool:
        """Whether Envoy ended the request because its body was idle for too long."""
        return self.status == _REQUEST_TIMEOUT and self.details.startswith("stream_idle_timeout")

    @property
    def ending(self) -> TerminationReason:
        if self.is_client_timeout:
            return TerminationReason.CLIENT_DISCONNECTED
        if self.flags == _NO_FLAGS:
            return TerminationReason.COMPLETE
        return next((_ENDINGS[flag] for flag in self.flags.split(",") if flag in _ENDINGS), TerminationReason.UPSTREAM_RESET)


class ProxiedRequest:
    """Request that Envoy forwards to its upstream."""

    def __init__(
        self,
        plane: EmbeddedDataPlane,
        context: RequestContext,
        decision: RequestDecision,
        outgoing: OutgoingRequest,
        head: EnvoyRequestHead,
        cluster: str,
        count_request: RequestCounter,
        trace: ProxiedTrace | None = None,
    ):
        self._plane = plane
        self._context = context
        self._decision, self._incoming = decision, decision.incoming
        self._outgoing = outgoing
        self._head = head
        self.cluster = cluster  # destination
        self._count_request = count_request
        self._trace, self._error_name = trace, "envoy has ended"
        # A requested stream that only Envoy can forward; the response shows whether it is one.
        self._may_stream = "grpc" if decision.incoming.is_grpc else "events" if decision.incoming.accepts_event_stream else ""
        self._timeout_covers_head_only = bool(self._may_stream) and outgoing.is_default_timeout
        self._forced_ending: TerminationReason | None = None
        self._is_client_too_slow = False
        self._response_timer: asyncio.TimerHandle | None = None
        self._tracking = ExitStack()
        self._stream: Stream
        self._reset: Callable[[Address], None]
        self._started_at: float
        self._progress_at: float  # when the body last made enough progress
        self._progress_bytes: int

    def start(self, reset: Callable[[Address], None]) -> None:
        """Start tracking. Until `complete` is called, the request can be terminated; `reset` resets the client's connection."""
        tracked = self._plane.track(self._decision, self._outgoing.selection, self._outgoing.statistics)
        self._stream, self._reset, self._started_at = self._tracking.enter_context(tracked), reset, time.monotonic()
        self._progress_at, self._progress_bytes = self._started_at, 0
        self._stream.revoke = partial(self._terminate, TerminationReason.ACCESS_ENDED)

    @property
    def stream_id(self) -> str:
        return self._head.downstream.stream_id

    @property
    def id(self) -> bytes:
        """Request id, which is also sent to the upstream."""
        return self._incoming.request_id.encode()

    @property
    def can_fail_over(self) -> bool:
        """Whether gate selects another upstream if Envoy cannot connect to this one."""
        route = self._decision.authorization.decision.compiled_route
        return route is not None and can_fail_over(route.route)

    def to_envoy_headers(self, secret: bytes) -> Headers:
        """Return the headers for Envoy, from which it builds the upstream's request head. Raises ValueError if they cannot express it."""
        outgoing, head = self._outgoing, self._head
        (_, host), *headers = outgoing.headers
        headers_for_envoy = [(_CLUSTER, self.cluster.encode()), (_STREAM_ID, self.stream_id.encode()), (_HOST, host)]
        if self._may_stream:
            headers_for_envoy.append((MAY_STREAM.encode(), self._may_stream.encode()))
            if self._incoming.is_grpc:
                headers.append((b"te", b"trailers"))  # gRPC requires it, and each hop sends its own
        if outgoing.response_header_rules is not None:
            headers_for_envoy.append((RESPONSE_RULES.encode(), outgoing.response_header_rules.to_envoy_rules()))
        if self.can_fail_over:
            headers_for_envoy += _RETRY_ON_CONNECT_FAILURE
        headers_for_envoy += [(name, b"%d" % max(1, round(timeout * 1000))) for name, timeout in self._timeouts() if timeout != math.inf]
        headers_for_envoy += header_mutations(head, headers, is_http2=self._is_http2())
        is_final = True
        if outgoing.target != head.target or head.is_ambiguous:
            headers_for_envoy.append((PATH.encode(), outgoing.target))
            is_final = False
        if head.is_body_undeclared and not self._is_http2():
            headers_for_envoy.append((BODY_UNDECLARED.encode(), b"1"))
            is_final = False
        if outgoing.has_body and not self._is_http2():
            headers_for_envoy.append((BUFFER_BODY.encode(), b"1"))
            is_final = False
        if is_final:
            headers_for_envoy.append((_AUTHORIZED, secret))
        return headers_for_envoy

    def _is_http2(self) -> bool:
        route = self._decision.authorization.decision.compiled_route
        return route is not None and route.route.upstream_http2

    def _timeouts(self) -> Iterator[tuple[bytes, float]]:
        """Yield the timeouts for Envoy.

        A default timeout does not apply to a stream, only to its response head; the head of a gRPC call may take as long as an idle
        connection.
        """
        timeout = self._outgoing.timeout or math.inf
        if self._timeout_covers_head_only:
            yield HEAD_TIMEOUT, max(self._plane.forwarding_table.idle_timeout, timeout) if self._incoming.is_grpc else timeout
        else:
            yield TIMEOUT, timeout

    async def error_page(self, details: str) -> CapturedResponse:
        """Return the error page for a missing upstream response; `details` are Envoy's response code details."""
        captured = CapturedResponse()
        await self._refuse(self._error(details), captured)
        return captured

    async def _refuse(self, error: UpstreamError | AccessRevoked, send: Send) -> None:
        self._error_name = type(error).__name__
        if isinstance(error, UpstreamTimeout):
            self._stream.termination = TerminationReason.TIMEOUT
        await send_denial(self._incoming, self._context.record_denial(denial_from_error(error)), send)
        if isinstance(error, UpstreamError):
            self._stream.status = self._context.status

    async def fail_over(self, receive: Receive, send: Send) -> None:
        """Forward the request by gate, because Envoy could not connect to its upstream and nothing was sent.

        Envoy does not report the reason. If no other upstream is left, gate tries the same one again to find it, unless it was a
        timeout.
        """
        outgoing, is_timeout = self._outgoing, time.monotonic() - self._started_at >= CONNECT_TIMEOUT
        failure = ConnectFailure.TIMED_OUT if is_timeout else ConnectFailure.UNKNOWN
        error = self._plane.upstream_errors.record_failure(outgoing.upstream.endpoint, failure)
        try:
            if not self._select_next() and is_timeout:
                raise error
            result = await self._plane.forward_request(outgoing, receive, send, self._stream)
            if result.termination is not TerminationReason.COMPLETE:
                self._forced_ending = result.termination
        except (AccessRevoked, UpstreamError) as error:
            await self._refuse(error, send)

    def _select_next(self) -> bool:
        """Select the next upstream; return False if none is left. Envoy has counted the failed connection."""
        outgoing = self._outgoing
        selected = outgoing.selection is not None and outgoing.selection.move_to_next_member(outgoing)
        if outgoing.statistics is not None:
            outgoing.statistics.retries += selected
        return selected

    def _error(self, details: str) -> UpstreamError:
        upstream_errors, endpoint = self._plane.upstream_errors, self._outgoing.upstream.endpoint
        if (status := invalid_status(details)) is not None:
            return upstream_errors.record_protocol_error(endpoint, bad_status(status, is_upgrade=False) or MALFORMED)
        if is_response_timeout(details):
            return upstream_errors.record_timeout(endpoint)
        if is_malformed(details):
            return upstream_errors.record_protocol_error(endpoint, MALFORMED)
        return upstream_errors.record_failure(endpoint, connection_fault(details))

    def on_body_progress(self, size: int, *, is_all: bool) -> None:
        """Check the progress of the request body, and reset a client that is slower than gate's listener allows."""
        now = time.monotonic()
        if size - self._progress_bytes >= MIN_BODY_PROGRESS_BYTES:
            self._progress_at, self._progress_bytes = now, size
        if not is_all and now - self._progress_at > self._plane.forwarding_table.read_timeout * _SLOW_BODY_FACTOR:
            self._is_client_too_slow = True
            self._terminate(TerminationReason.CLIENT_DISCONNECTED)

    def on_not_streaming(self) -> None:
        """Start the timeout of a response that is no stream, because Envoy has no idle timeout for a possible one."""
        timeout = min(self._plane.forwarding_table.idle_timeout, self._outgoing.timeout or math.inf)
        if timeout != math.inf and self._response_timer is None:
            self._response_timer = asyncio.get_running_loop().call_later(timeout, self._terminate, TerminationReason.TIMEOUT)

    def complete(self, summary: RequestSummary | None) -> None:
        """Record the completed request. `summary` is None if Envoy exited before it wrote one."""
        context, stream = self._context, self._stream
        if self._response_timer is not None:
            self._response_timer.cancel()
        if summary is not None:
            context.total_seconds = stream.duration_seconds = summary.seconds
            self._is_client_too_slow |= summary.is_client_timeout
        if summary is not None and context.status is None:
            ending = self._forced_ending or summary.ending
            status = 0 if self._is_client_too_slow else summary.status
            context.status = status or CLIENT_CLOSED
            context.result = ForwardResult(context.status, summary.sent, ending)
            stream.status, stream.termination = status or None, ending
            if ending in (TerminationReason.TIMEOUT, TerminationReason.IDLE_TIMEOUT, TerminationReason.ACCESS_ENDED):
                context.log_detail = ending.value
            if summary.details == _VIA_UPSTREAM:
                self._plane.upstream_errors.record_success(self._outgoing.upstream.endpoint)
        elif context.status is None:
            context.status, stream.termination = CLIENT_CLOSED, self._forced_ending or TerminationReason.SHUTDOWN
            context.log_detail = "envoy has ended"
        self._tracking.close()
        recorder = self._plane.pipeline.recorder
        if self._trace is None:
            recorder.record(context)
        else:
            self._trace.record(recorder, context, self._error_name)
        # The request log has a client disconnect, the listener's count a request timeout.
        self._count(_REQUEST_TIMEOUT if self._is_client_too_slow else context.status, summary)

    def _count(self, status: int, summary: RequestSummary | None) -> None:
        host, method = self._incoming.headers.get(b"host", b""), self._incoming.scope["method"].encode()
        if summary is None:
            self._count_request(host, method, status, 0.0, None, None)
        else:
            self._count_request(host, method, status, summary.seconds, summary.received, summary.sent)

    def reset_client(self) -> None:
        if self._head.downstream.peer is not None:
            self._reset(self._head.downstream.peer)

    def _terminate(self, ending: TerminationReason) -> None:
        if self._forced_ending is None:  # two events may terminate it
            self._forced_ending = ending
            self.reset_client()
