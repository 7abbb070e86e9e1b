"""Authorization server for gate's Envoy (ext_authz, envoy.extensions.filters.http.ext_authz.v3), with HTTP/1.1 over a Unix socket.

Envoy sends the head of each request before it forwards it. If the embedded data plane would only forward the request, the response
has the upstream's complete head and its cluster, and Envoy forwards it. All other requests go to gate's internal listener: pages,
denials, redirects, WebSockets, MCP messages, large bodies, possible event streams, and responses that may be idle for longer than
`timeout_idle`.
Only Envoy can forward to HTTP/2 upstreams, so these exceptions do not apply to them.
The internal listener authorizes each request again, so this module can only decide that Envoy forwards a request.
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
from proxy.envoy.proxied.active_requests import ActiveRequests
from proxy.envoy.proxied.proxied_request import ProxiedRequest
from proxy.envoy.proxied.proxied_trace import ProxiedTrace
from proxy.envoy.resources.bootstrap import GATE
from proxy.envoy.resources.internal_headers import AUTHORIZED, CLUSTER, NOT_STREAMING_PATH, SCRIPT, TOKEN
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
    """Authorization server for Envoy.

    `service` is called for each request, because a reload replaces it. `find_cluster` returns None for a cluster that Envoy has not
    applied yet. `token` authenticates Envoy to gate; `secret` proves to Envoy that gate has authorized a request.
    """

    def __init__(
        self,
        service: Callable[[], ProxyService],
        active_requests: ActiveRequests,
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
        self._route_to_gate = _build_response([(CLUSTER.encode(), GATE.encode()), (AUTHORIZED.encode(), self._secret)])

    async def respond(self, head: bytes, body: bytes) -> bytes:
        """Respond to a request of Envoy. Raises PermissionError if the token is missing or wrong."""
        tokens = _TOKEN.findall(head)
        if len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token):
            raise PermissionError("the request is not from gate's Envoy")
        return await self.handle_script_call(head, body.decode("latin-1")) if _SCRIPT_HEADER in head else await self.handle_check(head)

    async def handle_check(self, text: bytes) -> bytes:
        """Respond to a check of a request head."""
        try:
            head = EnvoyRequestHead.parse(text)
            request = await self.authorize(head)
            if request is None:
                return self._route_to_gate
        except GateError:
            return self._route_to_gate
        try:
            response = _build_response(request.to_envoy_headers(self._secret))
        except ValueError:
            return self._route_to_gate
        self._active_requests.start(request)
        return response

    async def authorize(self, head: EnvoyRequestHead) -> ProxiedRequest | None:
        """Authorize a request that Envoy can forward.

        Return None for requests that gate must handle itself, including invalid ones. Raises GateError for requests that it would deny.
        """
        service = self._service()
        plane, pipeline = service.data_plane, service.data_plane.pipeline
        incoming = service.build_incoming(head.scope(self._scheme))
        if (
            service.parse_and_find_handler(incoming) is not RequestHandler.DATA_PLANE
            or incoming.is_connect
            or b"upgrade" in incoming.headers
        ):
            return None
        if not self._active_requests.can_reset or head.downstream.peer is None or is_misdirected(service, incoming, head.downstream):
            return None
        if plane.saved_forms.is_resubmit(incoming):
            return None  # its body identifies the saved form
        context = RequestContext(incoming)
        decision = await pipeline.authorize_only(context)
        verdict = pipeline.verdicts.build(decision)
        if not isinstance(verdict, Forward):
            return None
        if verdict.compiled_route.route.mcp is not None:
            return None  # policy compares the message, which only gate reads
        is_http2 = verdict.compiled_route.route.upstream_http2
        # If a HEAD response has a body, Envoy takes it for the next response on that connection.
        is_head = head.method == b"HEAD"
        if not is_http2 and (is_head or head.is_ambiguous or incoming.accepts_event_stream or (head.has_body and not head.can_buffer)):
            # gate streams a large body without losing an early response, sees the original header bytes, and can distinguish a stream from
            # a client that does not read. It does not support HTTP/2 upstreams.
            return None
        if not is_http2 and (
            plane.forwarding_table.allows_long_idle(verdict.compiled_route) or is_shared(service, incoming, head.downstream)
        ):
            return None  # gate allows slow responses, and can end a single request of a connection
        outgoing = await plane.build_upstream_request(decision, verdict)
        cluster = self._find_cluster(outgoing.upstream, verdict.compiled_route.route)
        if cluster is None or (outgoing.connection_use and not is_http2):
            return None  # gate dedicates a connection, or tracks whether the connection is authenticated
        decision = await pipeline.record_decision(decision, context)
        pipeline.recorder.report_session_activity(decision)
        # Only now, because otherwise the embedded data plane traces the request.
        trace = None if (tracing := current_tracer()) is None else ProxiedTrace.start(tracing, context, outgoing)
        return ProxiedRequest(plane, context, decision, outgoing, head, cluster, service.request_counter, trace)

    async def handle_script_call(self, head: bytes, body: str) -> bytes:
        """Respond to a call of the response script: with nothing, or with an error page."""
        number, _, details = body.partition("\n")
        if head.startswith(_NOT_STREAMING):
            self._active_requests.on_not_streaming(number)
            return _EMPTY_OK
        page = await self._active_requests.error_page(number, details)
        if page is None:
            return _EMPTY_OK
        headers = b"".join(b"%b\n%b\n" % pair for pair in page.headers if pair[0] != b"content-length")
        payload = b"%d %d\n%b%b" % (page.status, len(headers), headers, page.body)
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(payload), payload)


_TOKEN = re.compile(rb"\r\n%b: ([^\r]*)(?=\r\n)" % TOKEN.encode())
# Clients cannot send this header.
_SCRIPT_HEADER = b"\r\n%b: 1\r\n" % SCRIPT.encode()
_NOT_STREAMING = b"POST %b " % NOT_STREAMING_PATH.encode()


def _build_response(headers: Iterable[Header]) -> bytes:
    """Build a response with these headers. Raises ValueError if one of them contains a line break."""
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    text = b"".join(lines)
    if text.count(b"\n") != len(lines) or text.count(b"\r") != len(lines) or b"\0" in text:
        raise ValueError("a header holds a line break")
    return b"HTTP/1.1 200 OK\r\n%bcontent-length: 0\r\n\r\n" % text
