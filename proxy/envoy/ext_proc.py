"""External processor (envoy.service.ext_proc.v3): Envoy shows it each request before it carries it, and keeps the call open meanwhile.

What our own data plane would simply forward, Envoy carries: it is told the whole head that the upstream gets, and the cluster.
Everything else goes to our own data plane, through its internal listener: pages, refusals, redirects, websockets, what has a body, may
become a
stream of events, may be silent for longer than `timeout_idle` or has several upstreams (but for those that speak HTTP/2, which is
Envoy's alone).
There it is read and judged as if this had not happened, so nothing is decided here but that a request may pass.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import structlog
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from config.routes.route import Route
from foundation.errors import GateError
from proxy.envoy.authentication import require_our_envoy
from proxy.envoy.bootstrap import GATE
from proxy.envoy.carried_request import CarriedRequest, Context, without_all
from proxy.envoy.grants.keeper import GrantKeeper
from proxy.envoy.head import EnvoyRequestHead, set_header
from proxy.envoy.internal_listener import InternalListener
from proxy.envoy.listener import CLUSTER, HANDOFF_TOKEN
from proxy.envoy.timeouts import EnvoyTimeouts
from proxy.incoming import incoming_request
from proxy.own_paths import Owner
from proxy.service import ProxyService
from proxy.upstreams.request import Upstream
from proxy.verdict import Carry

log = structlog.get_logger(__name__)

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
NameOf = Callable[[Upstream, Route], str | None]


class ExtProcServer:
    """External processor's gRPC server.  `service` is asked at each request, as a reload replaces it.

    `cluster_of` says None for what Envoy doesn't know yet.
    """

    def __init__(
        self,
        service: Callable[[], ProxyService],
        internal_listener: InternalListener,
        cluster_of: NameOf,
        token: str,
        scheme: str,
        keeper: GrantKeeper | None = None,
    ):
        self._service = service
        self._internal_listener = internal_listener
        self._cluster_of = cluster_of
        self._token = token
        self._envoy_timeouts = EnvoyTimeouts(token)
        self._scheme = scheme
        self._keeper = keeper
        self._carried = 0
        self.is_idle = asyncio.Event()  # while Envoy carries nothing to upstreams
        self.is_idle.set()

    def services(self) -> tuple[grpc.GenericRpcHandler, ...]:
        process = grpc.stream_stream_rpc_method_handler(
            self.process, pb.ProcessingRequest.FromString, pb.ProcessingResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"Process": process}), self._envoy_timeouts.service()

    async def process(self, requests: object, context: Context) -> None:
        await require_our_envoy(context, self._token)
        message = await context.read()
        if message is grpc.aio.EOF or message.WhichOneof("request") != "request_headers":
            await _let_pass(context, message)  # an answer of Envoy's own to what it could not read
            return
        head = EnvoyRequestHead.of(message)
        carried = await self._how_carried(head)
        if carried is None:
            await self._to_gate(head, context)
            return
        self._carried += 1
        self.is_idle.clear()
        try:
            await carried.run(context)
        finally:
            self._carried -= 1
            if not self._carried:
                self.is_idle.set()

    async def _to_gate(self, head: EnvoyRequestHead, context: Context) -> None:
        handoff = self._internal_listener.admit(head)
        try:
            response = pb.CommonResponse()
            mutation = response.header_mutation
            set_header(mutation, CLUSTER.encode(), GATE.encode())
            set_header(mutation, HANDOFF_TOKEN.encode(), handoff)
            mutation.remove_headers.extend({name.decode("latin-1") for name, _ in head.headers if name.startswith(b"x-envoy-")})
            # Told of the end, and of nothing else.
            mode = ProcessingMode(response_trailer_mode=ProcessingMode.SEND)
            await context.write(pb.ProcessingResponse(request_headers=pb.HeadersResponse(response=response), mode_override=mode))
            await _let_pass(context, await context.read())
        finally:
            self._internal_listener.forget(handoff)

    async def _how_carried(self, head: EnvoyRequestHead) -> "CarriedRequest | None":
        """How Envoy carries it; None for what our own data plane must see, also to say what is wrong with it."""
        service = self._service()
        plane = service.dataplane
        try:
            incoming = incoming_request(head.scope(self._scheme))
            incoming.request = service.read(incoming)
            if service.owner(incoming.request) is not Owner.DATA_PLANE or incoming.is_connect or b"upgrade" in incoming.headers:
                return None
            log = plane.observer.begin(incoming)
            judged = await plane.judge.without_shadow(log)
            verdict = plane.verdicts.of(judged)
            if not isinstance(verdict, Carry):
                return None
            is_http2, forwarding = verdict.route.route.upstream_http2, plane.state.forwarding(verdict.route)
            if not is_http2 and (head.has_body or incoming.wants_events or forwarding.cluster or plane.state.may_be_silent(verdict.route)):
                # gate's plane reads a body as strictly, and as patiently, as ever, knows a stream, or an application that thinks, from a
                # client that does not read, and chooses between several upstreams; but HTTP/2 it does not speak.
                return None
            outgoing = await plane.outgoing(judged, verdict)
            cluster = self._cluster_of(outgoing.upstream, verdict.route.route)
            if cluster is None:
                return None
            judged = await plane.judge.with_shadow(judged, log)
        except GateError:
            return None
        if self._keeper is not None:
            self._keeper.consider(head, judged, verdict, outgoing, cluster)
        log.passes(judged)
        return CarriedRequest(plane, log, judged, outgoing, cluster, head, service.answered, self._envoy_timeouts)


async def _let_pass(context: Context, message: Any) -> None:
    """Whatever is still told of it stays as it is."""
    while message is not grpc.aio.EOF:
        match message.WhichOneof("request"):
            case "request_trailers":
                answer = pb.ProcessingResponse(request_trailers=without_all(message.request_trailers))
            case "response_trailers":
                answer = pb.ProcessingResponse(response_trailers=pb.TrailersResponse())
            case other:
                raise ValueError(f"Envoy asks about {other}")
        await context.write(answer)
        message = await context.read()
