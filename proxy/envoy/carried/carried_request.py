"""Request that Envoy carries: what Envoy is told of it, the answer where its upstream gives none, and its end."""

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from foundation.errors import UpstreamError, UpstreamTimeout
from foundation.telemetry.http_calls import CLIENT_LEFT
from proxy.answers.refusals import refusal_of
from proxy.answers.send import CapturedResponse, send_refusal
from proxy.envoy.carried.carried_trace import CarriedTrace
from proxy.envoy.carried.response_details import bad_status_in, is_late, is_malformed, trouble_in
from proxy.envoy.head import EnvoyRequestHead, rewritten
from proxy.envoy.resources.edge_headers import BODILESS, CLUSTER, HOST, JUDGED, MAY_STREAM, NUMBER, PATH, RESPONSE, Address
from proxy.forwarding.http import Ending, ForwardResult
from proxy.observe.access_log import RequestLog
from proxy.observe.request_metrics import RequestCounter
from proxy.planes.embedded import DataPlane
from proxy.planes.open_streams import Stream
from proxy.rewriting.header_names import Headers
from proxy.upstreams.request import OutgoingRequest
from proxy.upstreams.upstream_errors import MALFORMED, bad_status
from proxy.verdict import JudgedRequest

TIMEOUT = b"x-envoy-upstream-rq-timeout-ms"
# From the end of the request to the head of the answer.
HEAD_TIMEOUT = b"x-envoy-upstream-rq-per-try-timeout-ms"
_CLUSTER, _NUMBER, _HOST, _JUDGED = (name.encode() for name in (CLUSTER, NUMBER, HOST, JUDGED))
_FROM_UPSTREAM = "via_upstream"
# By what Envoy says of a response (%RESPONSE_FLAGS%); anything else that is said of one that has ended is the upstream's doing.
_ENDINGS = {"DC": Ending.CLIENT_LEFT, "UT": Ending.TIMED_OUT, "SI": Ending.SILENT}
_NO_TROUBLE = "-"


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
    def ending(self) -> Ending:
        if self.flags == _NO_TROUBLE:
            return Ending.COMPLETE
        return next((_ENDINGS[flag] for flag in self.flags.split(",") if flag in _ENDINGS), Ending.BROKE_OFF)


class CarriedRequest:
    """Request on its way through Envoy to its upstream.  `cut` resets the connection of its client."""

    def __init__(
        self,
        plane: DataPlane,
        log: RequestLog,
        judged: JudgedRequest,
        outgoing: OutgoingRequest,
        head: EnvoyRequestHead,
        answered: RequestCounter,
        trace: CarriedTrace | None = None,
    ):
        self._plane = plane
        self._log = log
        self._judged, self._incoming = judged, judged.incoming
        self._outgoing = outgoing
        self._head = head
        self._answered = answered
        self._trace, self._trouble = trace, "envoy has ended"
        # What the client asks for, and only Envoy can carry, may last; whether it does, the answer says.
        self._may_stream = "grpc" if judged.incoming.is_grpc else "events" if judged.incoming.wants_events else ""
        self._is_bounded_to_the_head = bool(self._may_stream) and outgoing.is_default_timeout
        self._ended_because: Ending | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._under_way = ExitStack()
        self._stream: Stream
        self._cut: Callable[[Address], None]

    def begin(self, cut: Callable[[Address], None]) -> None:
        """Begin: from now on it may be ended, until `tell` is called."""
        tracked = self._plane.tracked(self._judged, self._outgoing.selection, self._outgoing.statistics)
        self._stream, self._cut = self._under_way.enter_context(tracked), cut
        self._stream.end = partial(self._end, Ending.REVOKED)

    @property
    def number(self) -> str:
        return self._head.facts.number

    def told_to_envoy(self, cluster: str, mark: bytes) -> Headers:
        """What Envoy is told, which makes the whole head that the upstream gets.  ValueError where it can't be told that."""
        outgoing, head = self._outgoing, self._head
        (_, host), *headers = outgoing.headers
        told = [(_CLUSTER, cluster.encode()), (_NUMBER, self.number.encode()), (_HOST, host)]
        if self._may_stream:
            told.append((MAY_STREAM.encode(), self._may_stream.encode()))
            if self._incoming.is_grpc:
                headers.append((b"te", b"trailers"))  # which gRPC wants, and which is for each hop to say
        if outgoing.response_headers is not None:
            told.append((RESPONSE.encode(), outgoing.response_headers.told_to_envoy()))
        told += [(name, b"%d" % max(1, round(timeout * 1000))) for name, timeout in self._timeouts() if timeout != math.inf]
        told += rewritten(head, headers)
        is_marked = True
        if outgoing.target != head.target or head.is_doubtful:
            told.append((PATH.encode(), outgoing.target))
            is_marked = False
        if head.is_bodiless_by_word and not self._is_http2():
            told.append((BODILESS.encode(), b"1"))
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
            yield HEAD_TIMEOUT, max(self._plane.state.idle, timeout) if self._incoming.is_grpc else timeout
        else:
            yield TIMEOUT, timeout

    async def instead(self, details: str) -> CapturedResponse:
        """Page in place of an answer that the upstream did not give; `details` say why, in Envoy's words."""
        error, said = self._error(details), CapturedResponse()
        self._trouble = type(error).__name__
        if isinstance(error, UpstreamTimeout):
            self._stream.ending = Ending.TIMED_OUT
        await send_refusal(self._incoming, self._log.refused(refusal_of(error)), said)
        self._stream.status = self._log.status
        return said

    def _error(self, details: str) -> UpstreamError:
        upstream_errors, endpoint = self._plane.upstream_errors, self._outgoing.upstream.endpoint
        if (status := bad_status_in(details)) is not None:
            return upstream_errors.protocol_error(endpoint, bad_status(status, is_upgrade=False) or MALFORMED)
        if is_late(details):
            return upstream_errors.timeout(endpoint)
        if is_malformed(details):
            return upstream_errors.protocol_error(endpoint, MALFORMED)
        return upstream_errors.reported(endpoint, trouble_in(details))

    def is_no_stream(self) -> None:
        """Bound an answer that turned out to be no stream: Envoy does not bound the silence of what may be one."""
        most = min(self._plane.state.idle, self._outgoing.timeout or math.inf)
        if most != math.inf and self._patience is None:
            self._patience = asyncio.get_running_loop().call_later(most, self._end, Ending.TIMED_OUT)

    def tell(self, word: EnvoysWord | None) -> None:
        """Tell of its end: Envoy's word, None where it gave none before it ended."""
        log, stream = self._log, self._stream
        if self._patience is not None:
            self._patience.cancel()
        if word is not None:
            log.seconds_in_all = stream.seconds = word.seconds
        if word is not None and log.status is None:
            ending = self._ended_because or word.ending
            log.status = word.status or CLIENT_LEFT
            log.result = ForwardResult(log.status, word.sent, ending)
            stream.status, stream.ending = word.status or None, ending
            if ending in (Ending.TIMED_OUT, Ending.SILENT, Ending.REVOKED):
                log.problem = ending.value
            if word.details == _FROM_UPSTREAM:
                self._plane.upstream_errors.answered(self._outgoing.upstream.endpoint)
        elif log.status is None:
            log.status, stream.ending = CLIENT_LEFT, self._ended_because or Ending.STOPPED
            log.problem = "envoy has ended"
        self._under_way.close()
        if self._trace is None:
            log.tell()
        else:
            self._trace.tell(log, log.result, self._trouble)
        self._count(log.status, word)

    def _count(self, status: int, word: EnvoysWord | None) -> None:
        host, method = self._incoming.headers.get(b"host", b""), self._incoming.scope["method"].encode()
        if word is None:
            self._answered(host, method, status, 0.0, None, None)
        else:
            self._answered(host, method, status, word.seconds, word.received, word.sent)

    def hang_up(self) -> None:
        if self._head.facts.peer is not None:
            self._cut(self._head.facts.peer)

    def _end(self, why: Ending) -> None:
        if self._ended_because is None:  # two changes may end it
            self._ended_because = why
            self.hang_up()
