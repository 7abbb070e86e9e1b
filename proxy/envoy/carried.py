"""One request that Envoy carries: what it is told on the way there and back, and its end."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import grpc
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from authorize.client import Check
from gateproject.errors import AccessEnded, GateError, UpstreamError, UpstreamTimeout
from gateproject.telemetry.http_calls import CLIENT_LEFT
from proxy.answered import Answered
from proxy.dataplane import DataPlane
from proxy.envoy.head import FRAMING, Told, rewritten, set_header
from proxy.envoy.listener import CLUSTER
from proxy.incoming import Incoming
from proxy.story import Story
from proxy.troubles import explain_trouble
from proxy.upstreams.client import OutgoingRequest

TIMEOUT = b"x-envoy-upstream-rq-timeout-ms"
_FROM_UPSTREAM = "via_upstream"
_TIMED_OUT = ("response_timeout", "request_overall_timeout", "stream_idle_timeout")
# A trailer of a client has no use that is worth the doubt; of an upstream they are gRPC's outcome.
_CONNECTION = FRAMING | {b"connection", b"keep-alive", b"upgrade"}

# Trailers are asked for so that gate is told of the end, and may end what is carried.
ALL_HEADS = ProcessingMode(
    response_header_mode=ProcessingMode.SEND, request_trailer_mode=ProcessingMode.SEND, response_trailer_mode=ProcessingMode.SEND
)

Context: TypeAlias = grpc.aio.ServicerContext


class Carried:
    """One request that Envoy carries to its upstream."""

    def __init__(
        self,
        plane: DataPlane,
        story: Story,
        check: Check,
        judged_at: int,
        outgoing: OutgoingRequest,
        cluster: str,
        told: Told,
        answered: Answered,
    ):
        self._plane = plane
        self._story = story
        self._check = check
        self._judged_at = judged_at
        self._outgoing = outgoing
        self._cluster = cluster
        self._told = told
        self._answered_requests = answered
        self._is_revoked = False

    @property
    def _incoming(self) -> Incoming:
        return self._story.incoming

    async def run(self, context: Context) -> None:
        """Until Envoy has carried all of it, the client has left, or its access ends."""
        story, place, stream = self._story, self._outgoing.place, self._plane.begin(self._incoming, self._check, self._judged_at)
        stream.end = self._revoke(cast("asyncio.Task[object]", asyncio.current_task()))
        if place is not None:
            place.begin()
        try:
            await self._converse(context)
            story.status = story.status or CLIENT_LEFT
        except asyncio.CancelledError:
            if not self._is_revoked or cast("asyncio.Task[object]", asyncio.current_task()).uncancel() > 0:
                raise
            story.problem = "access ended"
            await self._cut(context)
        finally:
            self._plane.streams.close(stream)
            if place is not None:
                place.end(story.status)
            if story.status is None:
                story.status = CLIENT_LEFT
            story.tell()
            self._count(story.status)

    def _count(self, status: int) -> None:
        """Envoy alone knows how large its bodies are."""
        incoming = self._incoming
        host, seconds = incoming.headers.get(b"host", b""), time.monotonic() - incoming.started
        self._answered_requests(host, incoming.scope["method"].encode(), status, seconds, None, None)

    async def _converse(self, context: Context) -> None:
        answer = pb.HeadersResponse(response=self._to_upstream())
        await context.write(pb.ProcessingResponse(request_headers=answer, mode_override=ALL_HEADS))
        while (message := await context.read()) is not grpc.aio.EOF:
            match message.WhichOneof("request"):
                case "response_headers":
                    await context.write(await self._answered(message))
                case "request_trailers":
                    await context.write(pb.ProcessingResponse(request_trailers=without_all(message.request_trailers)))
                case "response_trailers":
                    await context.write(pb.ProcessingResponse(response_trailers=self._trailers(message.response_trailers)))
                case other:
                    raise ValueError(f"Envoy asks about {other}")

    def _to_upstream(self) -> pb.CommonResponse:
        outgoing, is_grpc = self._outgoing, self._incoming.is_grpc
        (_, host), *headers = outgoing.headers
        if is_grpc:
            headers.append((b"te", b"trailers"))  # which gRPC wants, and which is for each hop to say
        response = pb.CommonResponse(header_mutation=rewritten(self._told.headers, headers))
        mutation = response.header_mutation
        for name, value in ((b":path", outgoing.target), (b":authority", host), (CLUSTER.encode(), self._cluster.encode())):
            set_header(mutation, name, value)
        if (timeout := self._timeout()) is not None:
            set_header(mutation, TIMEOUT, b"%d" % max(1, round(timeout * 1000)))
        return response

    def _timeout(self) -> float | None:
        """The default is not for what lasts by its nature."""
        lasts = self._incoming.is_grpc or b"text/event-stream" in self._incoming.headers.get(b"accept", b"")
        return None if self._outgoing.is_default_timeout and lasts else self._outgoing.timeout

    async def _answered(self, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
        details = message.attributes["envoy.filters.http.ext_proc"].fields["response.code_details"].string_value
        headers = [
            (each.key.encode("latin-1"), each.raw_value or each.value.encode("latin-1"))
            for each in message.response_headers.headers.headers
        ]
        status = int(dict(headers)[b":status"])
        try:
            if details != _FROM_UPSTREAM:
                raise _trouble(details)
            if status == 101:
                raise UpstreamError("the upstream changed protocols unasked")
            after = self._plane.state.response_headers.for_client([pair for pair in headers if not pair[0].startswith(b":")])
        except UpstreamError as error:
            self._story.status, self._story.problem = error.status, str(error)
            return await self._instead(error)
        self._story.status = status
        common = pb.CommonResponse(header_mutation=rewritten(headers, after, left_alone=_CONNECTION))
        return pb.ProcessingResponse(response_headers=pb.HeadersResponse(response=common))

    def _trailers(self, trailers: pb.HttpTrailers) -> pb.TrailersResponse:
        """gRPC's own outcome is all that any client of ours reads there."""
        if not self._incoming.is_grpc:
            return without_all(trailers)
        response = pb.TrailersResponse()
        names = {each.key for each in trailers.trailers.headers if each.key.lower() == "set-cookie"}
        response.header_mutation.remove_headers.extend(names)
        return response

    async def _instead(self, error: GateError) -> pb.ProcessingResponse:
        said = _Said()
        await explain_trouble(self._incoming, error, said)
        return pb.ProcessingResponse(immediate_response=said.answer())

    async def _cut(self, context: Context) -> None:
        """Before the answer has begun the client is told why; later it must see a broken answer."""
        if self._story.status is None:
            error = AccessEnded()
            self._story.status = error.status
            await context.write(await self._instead(error))
            return
        await context.abort(grpc.StatusCode.ABORTED, "access ended")

    def _revoke(self, task: "asyncio.Task[object]") -> Callable[[], None]:
        def revoke() -> None:
            if not self._is_revoked:  # two changes may end it: a second cancellation would end its cutting, too
                self._is_revoked = True
                task.cancel()

        return revoke


def _trouble(details: str) -> UpstreamError:
    if details.startswith(_TIMED_OUT):
        return UpstreamTimeout("the upstream did not answer in time")
    return UpstreamError(f"no answer of the upstream: {details.partition('{')[0]}")


def without_all(trailers: pb.HttpTrailers) -> pb.TrailersResponse:
    response = pb.TrailersResponse()
    response.header_mutation.remove_headers.extend({each.key for each in trailers.trailers.headers})
    return response


class _Said:
    """An ASGI `send` whose message becomes an answer of Envoy's."""

    def __init__(self) -> None:
        self._answer = pb.ImmediateResponse()

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._answer.status.code = message["status"]
            for name, value in message["headers"]:
                if name != b"content-length":
                    set_header(self._answer.headers, name, value)
        else:
            self._answer.body += message.get("body", b"")

    def answer(self) -> pb.ImmediateResponse:
        return self._answer
