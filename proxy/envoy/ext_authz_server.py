"""Judge: Envoy shows it the head of each request before it carries it (ext_authz, envoy.extensions.filters.http.ext_authz.v3), over a Unix
socket, in HTTP/1.1.

What our own data plane would simply forward, Envoy carries: it is told the whole head that the upstream gets, and the cluster.
Everything else goes to our own data plane, through its internal listener: pages, refusals, redirects, websockets, what has a large body,
may become a stream of events, or may be silent for longer than `timeout_idle` (but for upstreams that speak HTTP/2, Envoy's alone).
There it is read and judged as if this had not happened, so nothing is decided here but that a request may pass.
"""

import hmac
import re
from collections.abc import Callable, Iterable

import structlog

from config.routes.route import Route
from foundation.errors import GateError
from foundation.telemetry.tracing.tracer import current_tracer
from foundation.web.asgi_types import Header
from proxy.envoy.envoy_request_head import EnvoyRequestHead
from proxy.envoy.proxied.active_requests import CarriedRequests
from proxy.envoy.proxied.proxied_request import CarriedRequest
from proxy.envoy.proxied.proxied_trace import CarriedTrace
from proxy.envoy.resources.bootstrap import GATE
from proxy.envoy.resources.internal_headers import CLUSTER, JUDGED, NO_STREAM, SCRIPT, TOKEN
from proxy.envoy.shared_connection import is_misdirected, is_shared
from proxy.observe.request_recorder import RequestContext
from proxy.reserved_paths import RequestHandler
from proxy.service import ProxyService
from proxy.upstreams.outgoing_request import Upstream
from proxy.verdict import Forward

log = structlog.get_logger(__name__)

ClusterLookup = Callable[[Upstream, Route], str | None]
_EMPTY_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


# enforcement-point: Authorization: Decisions for Envoy
class ExtAuthzServer:
    """Judge's server.  `service` is asked at each request, as a reload replaces it.

    `cluster_of` says None for what Envoy doesn't know yet.  `token` is Envoy's proof, `mark` gate's, that a request was judged.
    """

    def __init__(
        self,
        service: Callable[[], ProxyService],
        active_requests: CarriedRequests,
        find_cluster: ClusterLookup,
        token: str,
        secret: str,
        scheme: str,
    ):
        self._service = service
        self._active_requests = active_requests
        self._find_cluster = find_cluster
        self._token, self._secret = token.encode(), secret.encode()
        self._scheme = scheme
        self._route_to_gate = _build_response([(CLUSTER.encode(), GATE.encode()), (JUDGED.encode(), self._secret)])

    async def respond(self, head: bytes, body: bytes) -> bytes:
        """Answer to a question of Envoy's.  PermissionError for anybody else's."""
        tokens = _TOKEN.findall(head)
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token):
            raise PermissionError("not our Envoy")
        return await self.handle_script_call(head, body.decode("latin-1")) if _SCRIPT_HEADER in head else await self.handle_check(head)

    async def handle_check(self, text: bytes) -> bytes:
        """Answer to the head of a request."""
        try:
            head = EnvoyRequestHead.parse(text)
            request = await self.authorize(head)
            if request is None:
                return self._route_to_gate
        except GateError:
            return self._route_to_gate
        try:
            response = _build_response(request.told_to_envoy(self._secret))
        except ValueError:
            return self._route_to_gate
        self._active_requests.begin(request)
        return response

    async def authorize(self, head: EnvoyRequestHead) -> CarriedRequest | None:
        """How Envoy carries it; None for what our own data plane must see, also to say what is wrong with it.

        Raises GateError for what it would refuse.
        """
        service = self._service()
        plane, pipeline = service.data_plane, service.data_plane.pipeline
        incoming = service.receive(head.scope(self._scheme))
        if service.find_handler(incoming) is not RequestHandler.DATA_PLANE or incoming.is_connect or b"upgrade" in incoming.headers:
            return None
        if not self._active_requests.can_end or head.downstream.peer is None or is_misdirected(service, incoming, head.downstream):
            return None
        if plane.saved_forms.is_resubmit(incoming):
            return None  # its body says what it stands for
        context = RequestContext(incoming)
        judged = await pipeline.authorize_only(context)
        verdict = pipeline.verdicts.build(judged)
        if not isinstance(verdict, Forward):
            return None
        is_http2 = verdict.route.route.upstream_http2
        is_head = head.method == b"HEAD"  # where a body comes all the same, Envoy would take it for the next answer on that connection
        if not is_http2 and (is_head or head.is_ambiguous or incoming.accepts_event_stream or (head.has_body and not head.can_buffer)):
            # gate's plane passes a large body on as it comes, and loses no answer meanwhile, sees what was sent as it was sent, and knows a
            # stream from a client that does not read; but HTTP/2 it does not speak.
            return None
        if not is_http2 and (plane.forwarding_table.allows_long_idle(verdict.route) or is_shared(service, incoming, head.downstream)):
            return None  # it knows an application that thinks, and ends one request of a connection alone
        outgoing = await plane.build_upstream_request(judged, verdict)
        cluster = self._find_cluster(outgoing.upstream, verdict.route.route)
        if cluster is None or (outgoing.connection_use and not is_http2):
            return None  # gate's plane gives it a connection of its own, or looks whether the connection is authenticated
        judged = await pipeline.evaluate_shadow(judged, context)
        pipeline.recorder.record_allowed(judged)
        # Only now, as gate's own plane traces what it carries.
        trace = None if (tracing := current_tracer()) is None else CarriedTrace.begin(tracing, context, outgoing)
        return CarriedRequest(plane, context, judged, outgoing, head, cluster, service.request_counter, trace)

    async def handle_script_call(self, head: bytes, body: str) -> bytes:
        """What the script for answers is told: nothing, or a page."""
        number, _, details = body.partition("\n")
        if head.startswith(_NO_STREAM):
            self._active_requests.is_no_stream(number)
            return _EMPTY_OK
        page = await self._active_requests.instead(number, details)
        if page is None:
            return _EMPTY_OK
        headers = b"".join(b"%b\n%b\n" % pair for pair in page.headers if pair[0] != b"content-length")
        payload = b"%d %d\n%b%b" % (page.status, len(headers), headers, page.body)
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(payload), payload)


_TOKEN = re.compile(rb"\r\n%b: ([^\r]*)(?=\r\n)" % TOKEN.encode())
# No client can say this.
_SCRIPT_HEADER = b"\r\n%b: 1\r\n" % SCRIPT.encode()
_NO_STREAM = b"POST %b " % NO_STREAM.encode()


def _build_response(headers: Iterable[Header]) -> bytes:
    """Answer with these headers.  ValueError where one of them would be more than a line."""
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    text = b"".join(lines)
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\0" in text:
        raise ValueError("a header holds a line break")
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: 0\r\n\r\n" % text
