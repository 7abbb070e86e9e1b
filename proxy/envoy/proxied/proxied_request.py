"""Request that Envoy carries: what Envoy is told of it, the answer where its upstream gives none, and its end."""

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
from proxy.envoy.proxied.proxied_trace import CarriedTrace
from proxy.envoy.proxied.response_details import bad_status_in, is_late, is_malformed, trouble_in
from proxy.envoy.resources.internal_headers import BODILESS, CLUSTER, HOST, JUDGED, MAY_STREAM, NUMBER, PATH, RESPONSE, UPLOAD, Address
from proxy.envoy.resources.upstream_clusters import is_replaceable
from proxy.forwarding.http_forwarding import Ending, ForwardResult
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
# From the end of the request to the head of the answer.
HEAD_TIMEOUT = b"x-envoy-upstream-rq-per-try-timeout-ms"
_CLUSTER, _NUMBER, _HOST, _JUDGED = (name.encode() for name in (CLUSTER, NUMBER, HOST, JUDGED))
# Where nobody could be connected to, so that nothing was sent, it goes where the cluster leads next: to gate (clusters.py).
_ELSEWHERE = ((b"x-envoy-retry-on", b"connect-failure"), (b"x-envoy-max-retries", b"1"))
_FROM_UPSTREAM = "via_upstream"
# By what Envoy says of a response (%RESPONSE_FLAGS%); anything else that is said of one that has ended is the upstream's doing.
_ENDINGS = {"DC": Ending.CLIENT_LEFT, "UT": Ending.TIMED_OUT, "SI": Ending.SILENT}
_NO_TROUBLE = "-"
_TOOK_TOO_LONG = 408
# Parts of `timeout_read` after which gate ends a body that drips: somewhat later than Envoy ends one that is silent, with an answer.
_PATIENCE_WITH_DRIPS = 1.25


@dataclass(slots=True)  # not frozen: one is made for each request
class EnvoysWord:
    """Envoy's word about a request that has ended: sizes in bytes, `status` 0 where no answer had begun."""

    status: int
    seconds: float
    sent: int
    received: int
    flags: str
    details: str

    @property
    def is_of_silent_client(self) -> bool:
        """Whether Envoy has ended it because nothing more came of its body."""
        return self.status == _TOOK_TOO_LONG and self.details.startswith("stream_idle_timeout")

    @property
    def ending(self) -> Ending:
        if self.is_of_silent_client:
            return Ending.CLIENT_LEFT
        if self.flags == _NO_TROUBLE:
            return Ending.COMPLETE
        return next((_ENDINGS[flag] for flag in self.flags.split(",") if flag in _ENDINGS), Ending.BROKE_OFF)


class CarriedRequest:
    """Request on its way through Envoy to its upstream.  `cut` resets the connection of its client."""

    def __init__(
        self,
        plane: EmbeddedDataPlane,
        context: RequestContext,
        judged: RequestDecision,
        outgoing: OutgoingRequest,
        head: EnvoyRequestHead,
        cluster: str,
        answered: RequestCounter,
        trace: CarriedTrace | None = None,
    ):
        self._plane = plane
        self._context = context
        self._judged, self._incoming = judged, judged.incoming
        self._outgoing = outgoing
        self._head = head
        self.cluster = cluster  # that it goes to
        self._answered = answered
        self._trace, self._trouble = trace, "envoy has ended"
        # What the client asks for, and only Envoy can carry, may last; whether it does, the answer says.
        self._may_stream = "grpc" if judged.incoming.is_grpc else "events" if judged.incoming.accepts_event_stream else ""
        self._is_bounded_to_the_head = bool(self._may_stream) and outgoing.is_default_timeout
        self._ended_because: Ending | None = None
        self._took_too_long = False
        self._patience: asyncio.TimerHandle | None = None
        self._under_way = ExitStack()
        self._stream: Stream
        self._cut: Callable[[Address], None]
        self._began: float
        self._window_began: float  # of the last gap that was long enough, so far
        self._window_bytes: int

    def begin(self, cut: Callable[[Address], None]) -> None:
        """Begin: from now on it may be ended, until `tell` is called."""
        tracked = self._plane.track(self._judged, self._outgoing.selection, self._outgoing.statistics)
        self._stream, self._cut, self._began = self._under_way.enter_context(tracked), cut, time.monotonic()
        self._window_began, self._window_bytes = self._began, 0
        self._stream.end = partial(self._end, Ending.REVOKED)

    @property
    def number(self) -> str:
        return self._head.downstream.number

    @property
    def id(self) -> bytes:
        """Id of the request, that its upstream reads, too."""
        return self._incoming.request_id.encode()

    @property
    def is_replaceable(self) -> bool:
        """Whether gate asks another upstream where Envoy could not connect to this one."""
        route = self._judged.check.decision.route
        return route is not None and is_replaceable(route.route)

    def told_to_envoy(self, mark: bytes) -> Headers:
        """What Envoy is told, which makes the whole head that the upstream gets.  ValueError where it can't be told that."""
        outgoing, head = self._outgoing, self._head
        (_, host), *headers = outgoing.headers
        told = [(_CLUSTER, self.cluster.encode()), (_NUMBER, self.number.encode()), (_HOST, host)]
        if self._may_stream:
            told.append((MAY_STREAM.encode(), self._may_stream.encode()))
            if self._incoming.is_grpc:
                headers.append((b"te", b"trailers"))  # which gRPC wants, and which is for each hop to say
        if outgoing.response_headers is not None:
            told.append((RESPONSE.encode(), outgoing.response_headers.told_to_envoy()))
        if self.is_replaceable:
            told += _ELSEWHERE
        told += [(name, b"%d" % max(1, round(timeout * 1000))) for name, timeout in self._timeouts() if timeout != math.inf]
        told += header_mutations(head, headers, is_http2=self._is_http2())
        is_marked = True
        if outgoing.target != head.target or head.is_ambiguous:
            told.append((PATH.encode(), outgoing.target))
            is_marked = False
        if head.is_body_undeclared and not self._is_http2():
            told.append((BODILESS.encode(), b"1"))
            is_marked = False
        if outgoing.has_body and not self._is_http2():
            told.append((UPLOAD.encode(), b"1"))
            is_marked = False
        if is_marked:
            told.append((_JUDGED, mark))
        return told

    def _is_http2(self) -> bool:
        route = self._judged.check.decision.route
        return route is not None and route.route.upstream_http2

    def _timeouts(self) -> Iterator[tuple[bytes, float]]:
        """The default is not for a stream, but for the head of what may become one; a call of gRPC may think for longer."""
        timeout = self._outgoing.timeout or math.inf
        if self._is_bounded_to_the_head:
            yield HEAD_TIMEOUT, max(self._plane.forwarding_table.idle_timeout, timeout) if self._incoming.is_grpc else timeout
        else:
            yield TIMEOUT, timeout

    async def instead(self, details: str) -> CapturedResponse:
        """Page in place of an answer that the upstream did not give; `details` say why, in Envoy's words."""
        said = CapturedResponse()
        await self._refuse(self._error(details), said)
        return said

    async def _refuse(self, error: UpstreamError | AccessRevoked, send: Send) -> None:
        self._trouble = type(error).__name__
        if isinstance(error, UpstreamTimeout):
            self._stream.ending = Ending.TIMED_OUT
        await send_denial(self._incoming, self._context.record_denial(denial_from_error(error)), send)
        if isinstance(error, UpstreamError):
            self._stream.status = self._context.status

    async def carry_elsewhere(self, receive: Receive, send: Send) -> None:
        """Carry it after all: Envoy could not connect to its upstream, so nothing was sent.

        Why, Envoy does not say: where no other is left, and it was not for time, the same one is asked again, to learn the reason.
        """
        outgoing, was_late = self._outgoing, time.monotonic() - self._began >= CONNECT_TIMEOUT
        fault = ConnectFailure.TIMED_OUT if was_late else ConnectFailure.UNKNOWN
        error = self._plane.upstream_errors.reported(outgoing.upstream.endpoint, fault)
        try:
            if not self._moves_on() and was_late:
                raise error
            result = await self._plane.forward_request(outgoing, receive, send, self._stream)
            if result.ending is not Ending.COMPLETE:
                self._ended_because = result.ending
        except (AccessRevoked, UpstreamError) as error:
            await self._refuse(error, send)

    def _moves_on(self) -> bool:
        """Move to another upstream; False where there is none left.  The connection that failed was Envoy's, which has counted it."""
        outgoing = self._outgoing
        moves = outgoing.selection is not None and outgoing.selection.move_on(outgoing)
        if outgoing.statistics is not None:
            outgoing.statistics.retries += moves
        return moves

    def _error(self, details: str) -> UpstreamError:
        upstream_errors, endpoint = self._plane.upstream_errors, self._outgoing.upstream.endpoint
        if (status := bad_status_in(details)) is not None:
            return upstream_errors.protocol_error(endpoint, bad_status(status, is_upgrade=False) or MALFORMED)
        if is_late(details):
            return upstream_errors.timeout(endpoint)
        if is_malformed(details):
            return upstream_errors.protocol_error(endpoint, MALFORMED)
        return upstream_errors.reported(endpoint, trouble_in(details))

    def has_received(self, size: int, *, is_all: bool) -> None:
        """Note what has come of its body: a client that drips is cut off, by the measure of our own listener."""
        now = time.monotonic()
        if size - self._window_bytes >= MIN_BODY_PROGRESS_BYTES:
            self._window_began, self._window_bytes = now, size
        if not is_all and now - self._window_began > self._plane.forwarding_table.read_timeout * _PATIENCE_WITH_DRIPS:
            self._took_too_long = True
            self._end(Ending.CLIENT_LEFT)

    def is_no_stream(self) -> None:
        """Bound an answer that turned out to be no stream: Envoy does not bound the silence of what may be one."""
        most = min(self._plane.forwarding_table.idle_timeout, self._outgoing.timeout or math.inf)
        if most != math.inf and self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(most, self._end, Ending.TIMED_OUT)

    def tell(self, word: EnvoysWord | None) -> None:
        """Tell of its end: Envoy's word, None where it gave none before it ended."""
        context, stream = self._context, self._stream
        if self._patience is not None:
            self._patience.cancel()
        if word is not None:
            context.total_seconds = stream.duration_seconds = word.seconds
            self._took_too_long |= word.is_of_silent_client
        if word is not None and context.status is None:
            ending = self._ended_because or word.ending
            status = 0 if self._took_too_long else word.status
            context.status = status or CLIENT_CLOSED
            context.result = ForwardResult(context.status, word.sent, ending)
            stream.status, stream.ending = status or None, ending
            if ending in (Ending.TIMED_OUT, Ending.SILENT, Ending.REVOKED):
                context.log_detail = ending.value
            if word.details == _FROM_UPSTREAM:
                self._plane.upstream_errors.answered(self._outgoing.upstream.endpoint)
        elif context.status is None:
            context.status, stream.ending = CLIENT_CLOSED, self._ended_because or Ending.STOPPED
            context.log_detail = "envoy has ended"
        self._under_way.close()
        recorder = self._plane.pipeline.recorder
        if self._trace is None:
            recorder.record(context)
        else:
            self._trace.record(recorder, context, self._trouble)
        # The application's part in it is as if its client had left; for the listener it was too slow.
        self._count(_TOOK_TOO_LONG if self._took_too_long else context.status, word)

    def _count(self, status: int, word: EnvoysWord | None) -> None:
        host, method = self._incoming.headers.get(b"host", b""), self._incoming.scope["method"].encode()
        if word is None:
            self._answered(host, method, status, 0.0, None, None)
        else:
            self._answered(host, method, status, word.seconds, word.received, word.sent)

    def hang_up(self) -> None:
        if self._head.downstream.peer is not None:
            self._cut(self._head.downstream.peer)

    def _end(self, why: Ending) -> None:
        if self._ended_because is None:  # two changes may end it
            self._ended_because = why
            self.hang_up()
