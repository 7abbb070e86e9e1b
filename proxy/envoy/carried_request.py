"""Request that Envoy carries: what Envoy is told of it on the way there and back, and its end."""

import asyncio
import math
import time
from collections.abc import Iterator
from functools import partial
from typing import TypeAlias, cast

import grpc
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from foundation.errors import AccessEnded, GateError, UpstreamError, UpstreamTimeout
from foundation.tasks import spawn
from foundation.telemetry.http_calls import CLIENT_LEFT
from proxy.answers.refusals import refusal_of
from proxy.answers.send import CapturedResponse, send_refusal
from proxy.envoy.head import FRAMING, EnvoyRequestHead, rewritten, set_header
from proxy.envoy.listener import CLUSTER, MAY_STREAM
from proxy.envoy.response_details import is_late, is_malformed, trouble_in
from proxy.envoy.timeouts import EnvoyTimeout, EnvoyTimeouts
from proxy.forwarding.http import Ending
from proxy.observe.access_log import RequestLog
from proxy.observe.request_metrics import RequestCounter
from proxy.planes.embedded import DataPlane, count_ending
from proxy.rewriting.header_names import Headers
from proxy.upstreams.request import OutgoingRequest
from proxy.upstreams.upstream_errors import MALFORMED, bad_status
from proxy.verdict import JudgedRequest

TIMEOUT = b"x-envoy-upstream-rq-timeout-ms"
# From the end of the request to the head of the answer.
HEAD_TIMEOUT = b"x-envoy-upstream-rq-per-try-timeout-ms"
_FROM_UPSTREAM = "via_upstream"
# A trailer of a client has no use that is worth the doubt; of an upstream they are gRPC's outcome.
_CONNECTION = FRAMING | {b"connection", b"keep-alive", b"upgrade"}

# Trailers are asked for so that gate is told of the end, and may end what is carried.
ALL_HEADS = ProcessingMode(
    response_header_mode=ProcessingMode.SEND, request_trailer_mode=ProcessingMode.SEND, response_trailer_mode=ProcessingMode.SEND
)

Context: TypeAlias = grpc.aio.ServicerContext


class CarriedRequest:
    """Request on its way through Envoy to its upstream."""

    def __init__(
        self,
        plane: DataPlane,
        log: RequestLog,
        judged: JudgedRequest,
        outgoing: OutgoingRequest,
        cluster: str,
        request_head: EnvoyRequestHead,
        answered: RequestCounter,
        envoy_timeouts: EnvoyTimeouts,
    ):
        self._plane = plane
        self._log = log
        self._judged, self._incoming = judged, judged.incoming
        self._outgoing = outgoing
        self._cluster = cluster
        self._request_head = request_head
        self._answered_requests = answered
        self._envoy_timeouts = envoy_timeouts
        # What the client asks for, and only Envoy can carry, may last; whether it does, the answer says.
        self._may_stream = judged.incoming.is_grpc or judged.incoming.wants_events
        self._is_bounded_to_the_head = self._may_stream and outgoing.is_default_timeout
        self._began = 0.0
        self._has_ended = False  # as far as the application's word for it goes: many an answer ends without one
        self._ended_because = ""
        self._patience: asyncio.TimerHandle | None = None

    async def run(self, context: Context) -> None:
        """Run until Envoy has carried all of it, the client has left, or its access ends."""
        envoy_timeout = self._envoy_timeouts.begin()
        try:
            await self._carry(context, envoy_timeout)
        finally:
            if self._may_have_been_cut():
                # Envoy resets the call once it has ended it, and that cancels whatever is still done in it.
                await asyncio.shield(spawn(self._tell_when_heard(envoy_timeout), name="the end of what Envoy carried"))
            else:
                self._tell(envoy_timeout)

    async def _tell_when_heard(self, envoy_timeout: EnvoyTimeout) -> None:
        if (ending := await envoy_timeout.ending()) is not None:
            self._log.problem = ending.value
            if self._outgoing.statistics is not None:
                count_ending(self._outgoing.statistics, ending)
        self._tell(envoy_timeout)

    def _tell(self, envoy_timeout: EnvoyTimeout) -> None:
        log = self._log
        self._envoy_timeouts.forget(envoy_timeout)
        if log.status is None:
            log.status = CLIENT_LEFT
        log.tell()
        self._count(log.status)

    async def _carry(self, context: Context, envoy_timeout: EnvoyTimeout) -> None:
        task = cast("asyncio.Task[object]", asyncio.current_task())
        with self._plane.tracked(self._judged, self._outgoing.selection, self._outgoing.statistics) as stream:
            stream.end = partial(self._end, task, Ending.REVOKED.value)
            try:
                await self._converse(context, envoy_timeout)
            except asyncio.CancelledError:
                if not self._ended_because or task.uncancel() > 0:
                    raise
                self._log.problem = self._ended_because
                stream.status, stream.ending = self._log.status, Ending(self._ended_because)
                await self._cut(context)
            finally:
                if stream.ending is Ending.COMPLETE:
                    stream.status = self._log.status
                if self._patience is not None:
                    self._patience.cancel()

    def _may_have_been_cut(self) -> bool:
        """By one of the bounds that Envoy looks after: only then is it worth waiting for its word."""
        if self._has_ended or self._log.status is None or self._log.problem:
            return False
        timeout = math.inf if self._is_bounded_to_the_head else self._outgoing.timeout or math.inf
        silence = math.inf if self._may_stream else self._plane.state.idle
        # Envoy's clock began a moment before or after ours.
        return time.monotonic() - self._began >= 0.9 * min(timeout, silence)

    def _count(self, status: int) -> None:
        """Envoy alone knows how large its bodies are."""
        incoming = self._incoming
        host, seconds = incoming.headers.get(b"host", b""), time.monotonic() - incoming.started
        self._answered_requests(host, incoming.scope["method"].encode(), status, seconds, None, None)

    async def _converse(self, context: Context, envoy_timeout: EnvoyTimeout) -> None:
        self._began = time.monotonic()
        answer = pb.HeadersResponse(response=self._to_upstream())
        await context.write(pb.ProcessingResponse(request_headers=answer, mode_override=ALL_HEADS, dynamic_metadata=envoy_timeout.metadata))
        while (message := await context.read()) is not grpc.aio.EOF:
            match message.WhichOneof("request"):
                case "response_headers":
                    await context.write(await self._answered(message))
                case "request_trailers":
                    await context.write(pb.ProcessingResponse(request_trailers=without_all(message.request_trailers)))
                case "response_trailers":
                    self._has_ended = True
                    await context.write(pb.ProcessingResponse(response_trailers=self._trailers(message.response_trailers)))
                case other:
                    raise ValueError(f"Envoy asks about {other}")

    def _to_upstream(self) -> pb.CommonResponse:
        outgoing, is_grpc = self._outgoing, self._incoming.is_grpc
        (_, host), *headers = outgoing.headers
        if is_grpc:
            headers.append((b"te", b"trailers"))  # which gRPC wants, and which is for each hop to say
        if self._may_stream:
            headers.append((MAY_STREAM.encode(), b"1"))
        response = pb.CommonResponse(header_mutation=rewritten(self._request_head.headers, headers))
        mutation = response.header_mutation
        for name, value in ((b":path", outgoing.target), (b":authority", host), (CLUSTER.encode(), self._cluster.encode())):
            set_header(mutation, name, value)
        for name, timeout in self._timeouts():
            if timeout != math.inf:
                set_header(mutation, name, b"%d" % max(1, round(timeout * 1000)))
        return response

    def _timeouts(self) -> Iterator[tuple[bytes, float]]:
        """The default is not for a stream, but for the head of what may become one; a call of gRPC may think for longer."""
        timeout = self._outgoing.timeout or math.inf
        if self._is_bounded_to_the_head:
            yield HEAD_TIMEOUT, max(self._plane.state.idle, timeout) if self._incoming.is_grpc else timeout
        else:
            yield TIMEOUT, timeout

    async def _answered(self, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
        details = message.attributes["envoy.filters.http.ext_proc"].fields["response.code_details"].string_value
        headers = [
            (each.key.encode("latin-1"), each.raw_value or each.value.encode("latin-1"))
            for each in message.response_headers.headers.headers
        ]
        status = int(dict(headers)[b":status"])
        self._has_ended = message.response_headers.end_of_stream
        try:
            self._require_answer(details, status)
            after = self._plane.state.response_headers.for_client([pair for pair in headers if not pair[0].startswith(b":")])
        except UpstreamError as error:
            if isinstance(error, UpstreamTimeout) and self._outgoing.statistics is not None:
                count_ending(self._outgoing.statistics, Ending.TIMED_OUT)
            return await self._instead(error)
        self._log.status = status
        if self._may_stream and not self._is_stream(after):
            # Envoy does not bound the silence of what may be a stream, so this answer has to end within the same time.
            most = min(self._plane.state.idle, self._outgoing.timeout or math.inf)
            task = cast("asyncio.Task[object]", asyncio.current_task())
            if most != math.inf:
                self._patience = asyncio.get_running_loop().call_later(most, self._end, task, Ending.TIMED_OUT.value)
        common = pb.CommonResponse(header_mutation=rewritten(headers, after, left_alone=_CONNECTION))
        return pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=common))

    def _require_answer(self, details: str, status: int) -> None:
        """UpstreamError where the upstream gave none that can be passed on."""
        upstream_errors, endpoint = self._plane.upstream_errors, self._outgoing.upstream.endpoint
        if details != _FROM_UPSTREAM:
            if is_late(details):
                raise upstream_errors.timeout(endpoint)
            raise (
                upstream_errors.protocol_error(endpoint, MALFORMED)
                if is_malformed(details)
                else upstream_errors.reported(endpoint, trouble_in(details))
            )
        if bad := bad_status(status, is_upgrade=False):
            raise upstream_errors.protocol_error(endpoint, bad)
        upstream_errors.answered(endpoint)

    def _trailers(self, trailers: pb.HttpTrailers) -> pb.TrailersResponse:
        """gRPC's own outcome is all that any client of ours reads there."""
        if not self._incoming.is_grpc:
            return without_all(trailers)
        response = pb.TrailersResponse()
        names = {each.key for each in trailers.trailers.headers if each.key.lower() == "set-cookie"}
        response.header_mutation.remove_headers.extend(names)
        return response

    async def _instead(self, error: GateError) -> pb.ProcessingResponse:
        said = CapturedResponse()
        await send_refusal(self._incoming, self._log.refused(refusal_of(error)), said)
        answer = pb.ImmediateResponse(body=said.body)
        answer.status.code = said.status
        for name, value in said.headers:
            if name != b"content-length":
                set_header(answer.headers, name, value)
        return pb.ProcessingResponse(immediate_response=answer)

    async def _cut(self, context: Context) -> None:
        """Before the answer has begun the client is told why; later it must see a broken answer."""
        if self._log.status is None:
            await context.write(await self._instead(AccessEnded()))
            return
        await context.abort(grpc.StatusCode.ABORTED, "access ended")

    def _is_stream(self, headers: Headers) -> bool:
        kinds = (b"text/event-stream", b"application/grpc") if self._incoming.is_grpc else (b"text/event-stream",)
        return any(name == b"content-type" and value.lower().startswith(kinds) for name, value in headers)

    def _end(self, task: "asyncio.Task[object]", why: str) -> None:
        if not self._ended_because:  # two changes may end it: a second cancellation would end its cutting, too
            self._ended_because = why
            task.cancel()


def without_all(trailers: pb.HttpTrailers) -> pb.TrailersResponse:
    response = pb.TrailersResponse()
    response.header_mutation.remove_headers.extend({each.key for each in trailers.trailers.headers})
    return response
