"""Forward auth: responses to a front proxy.  `/verify?uri=` returns 200, 401 or 403; `/?uri=` also redirects to sign-in."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from authorize.policy.compiled_route import CompiledRoute
from config.options import Options
from config.routes.route_identity_headers import is_per_request, reserved_headers
from foundation.errors import BadRequest, GateError
from foundation.web.asgi_types import Headers, Receive, Send
from proxy.incoming_request import IncomingRequest
from proxy.observe.request_recorder import RequestContext
from proxy.planes.original_request import ALL_HEADERS, OriginalRequest, parse_original_request
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.reserved_paths import is_reserved_path
from proxy.responses.renderer import send_denial, send_response
from proxy.rewriting.request_headers import RequestHeaderRules
from proxy.rewriting.reserved_headers import FORWARDED_HEADER_NAMES, fold, is_identity_header, is_override_header, is_reserved_header
from proxy.sign_in.sign_in_urls import requested_url
from proxy.verdict import Enforcer, Forward, Redirect, RequestDecision, SignIn
from proxy.verdict_builder import NO_ROUTE_ERROR, RESERVED_PATH_ERROR, NotDelegable, deny_for_error

VERIFY = "/verify"

# Request headers that the response depends on, in addition to the URL, for caches in the front proxy.
VARY = b", ".join(
    sorted([b"cookie", b"authorization", b"origin", b"access-control-request-method", b"sec-websocket-version", *ALL_HEADERS])
)

# Headers that a front proxy may send to gate, in exactly this spelling.  The example files remove the client's from forwarded requests.
# X-Request-Id contains neither an identity nor a URL, and many clients send it.
FRONT_PROXY_NAMES = ALL_HEADERS | FORWARDED_HEADER_NAMES | {b"x-forwarded-prefix", b"x-forwarded-server", b"x-request-id"}

BuiltinPages = Callable[[IncomingRequest, Receive, Send], Awaitable[None]]


class ForwardAuth:
    """Forward-auth plane.  `/verify` returns only 200, 401, 403 and 503, because front proxies know no others; `/` may also redirect."""

    def __init__(self, options: Options, pipeline: AuthorizationPipeline):
        self._pipeline, self._authorize = pipeline, pipeline.authorizer
        self._headers = RequestHeaderRules.for_delegation(options)
        self._cache_seconds = options.forward_auth_cache.total_seconds()

    async def __call__(self, incoming: IncomingRequest, receive: Receive, send: Send, builtin_pages: BuiltinPages) -> None:
        # Because errors for gRPC clients have status 200, which a front proxy would read as permission.
        incoming = replace(incoming, headers={name: value for name, value in incoming.headers.items() if name != b"content-type"})
        enforcer = Enforcer.FORWARD_AUTH_STATUS_ONLY if incoming.request.path == VERIFY else Enforcer.FORWARD_AUTH
        pipeline, context, send_denied = self._pipeline, RequestContext(incoming), _DenyOnlySend(incoming, send)
        try:
            original = self._original(incoming)
            context.incoming = replace(incoming, request=original.request)
            if is_reserved_path(original.request.path):
                await self._serve_reserved_path(context.incoming, original, enforcer, receive, send_denied, builtin_pages)
                context.status = send_denied.status
                return
            decision = await pipeline.authorize(context)
            verdict = pipeline.verdicts.build(decision, enforcer)
            if isinstance(verdict, Forward):
                pipeline.recorder.report_session_activity(decision)
                context.status = 200
                await send_response(send, 200, self._allow_headers(decision, verdict), b"")
                return
            if isinstance(verdict, SignIn):
                # Start on the route's host, because the cookie that binds a sign-in to its browser belongs there.
                query = urlencode({"gate_redirect_uri": requested_url(decision.incoming, original.scheme)})
                verdict = Redirect(302, f"{original.origin}/.gate/sign_in?{query}")
            context.record_response(verdict, await pipeline.renderer.send(decision.incoming, verdict, send_denied, decision.now))
        except GateError as error:
            await send_denial(context.incoming, context.record_denial(deny_for_error(error, enforcer)), send_denied)
        finally:
            pipeline.recorder.record(context)

    def _original(self, incoming: IncomingRequest) -> OriginalRequest:
        if incoming.request.path not in (VERIFY, "/"):
            raise NoSuchPath(f"forward auth responds at / and {VERIFY} only")
        _reject_forged_headers(incoming)
        original = parse_original_request(incoming, self._authorize.default_ports)
        # Because the peer is the front proxy, the client's address is unknown if the peer is not trusted.
        address = incoming.request.source_ip if incoming.is_trusted else ""
        original = replace(original, request=replace(original.request, source_ip=address, headers=incoming.scope["headers"]))
        request = original.request
        if not self._authorize.serves_host(request.host, request.port):
            raise NotDelegable(f"{NO_ROUTE_ERROR}: {request.host_port}")
        if original.scheme != self._authorize.scheme_for(request.host, request.port):
            raise NotDelegable("the routes of this host have another scheme")
        return original

    async def _serve_reserved_path(
        self,
        incoming: IncomingRequest,
        original: OriginalRequest,
        enforcer: Enforcer,
        receive: Receive,
        send_denied: Send,
        builtin_pages: BuiltinPages,
    ) -> None:
        """Serve a page below `/.gate/`.  The front proxy passes gate's response to the browser unless its status is 2xx."""
        if enforcer is Enforcer.FORWARD_AUTH_STATUS_ONLY or original.request.method not in ("", "GET"):
            raise NotDelegable(RESERVED_PATH_ERROR)
        scope = {**incoming.scope, "method": "GET", "query_string": original.request.query.encode("latin-1")}
        await builtin_pages(replace(incoming, scope=scope), receive, send_denied)

    def _allow_headers(self, decision: RequestDecision, verdict: Forward) -> Headers:
        """Return the headers that the front proxy copies into the forwarded request.

        An absent identity header has an empty value, which replaces the client's header of that name.
        """
        identity_headers, incoming = dict(verdict.identity_headers), decision.incoming
        names = (*self._authorize.identity_header_names, *reserved_headers(verdict.compiled_route.route))
        headers: Headers = [(name, identity_headers.get(name, b"")) for name in names]
        headers += [
            pair for pair in self._headers.remaining_credentials(incoming.scope["headers"], verdict.withheld) if pair[0] not in names
        ]
        return [*headers, (b"x-request-id", incoming.request_id.encode()), *self._cache_headers(decision, verdict.compiled_route)]

    def _cache_headers(self, decision: RequestDecision, route: CompiledRoute) -> Headers:
        seconds, identity = self._cache_seconds, decision.authorization.identity
        if route.has_policy or route.is_time_dependent or is_per_request(route.route):
            # Because the decision may differ for the next request, or at another time.
            seconds = 0
        elif identity is not None:
            seconds = min(seconds, identity.expires_at - decision.now)
        if int(seconds) <= 0:
            return [(b"cache-control", b"no-store")]
        return [(b"cache-control", b"private, max-age=%d" % seconds), (b"vary", VARY)]


class NoSuchPath(BadRequest):
    status = 404


class _DenyOnlySend:
    """ASGI `send` that replaces a 2xx response with a 403, because a front proxy forwards a request on any 2xx."""

    def __init__(self, incoming: IncomingRequest, send: Send):
        self._incoming, self._send = incoming, send
        self._is_replaced = False
        self.status = 0

    async def __call__(self, message: dict[str, Any]) -> None:
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status < 300:
                self._is_replaced, self.status = True, 403
                await send_denial(
                    self._incoming, deny_for_error(NotDelegable(RESERVED_PATH_ERROR), Enforcer.FORWARD_AUTH_STATUS_ONLY), self._send
                )
                return
        await self._send(message)


def _reject_forged_headers(incoming: IncomingRequest) -> None:
    """Raise NotDelegable for a header that only gate or a proxy may set, unless a front proxy sends it to gate.

    The front proxy forwards the client's headers, and gate can't remove one of them.
    """
    for name, folded in [(name, fold(name)) for name in incoming.client_header_names]:
        if name.lower() in FRONT_PROXY_NAMES or not is_reserved_header(folded):
            continue
        if is_identity_header(folded):
            raise NotDelegable("it has a header that is reserved for gate")
        if is_override_header(folded):
            raise NotDelegable(f"it has the header {folded.decode('ascii')}, which may change the method or URL in the application")
        raise NotDelegable(f"it has a header that an application may read as {folded.decode('ascii')}, which only proxies may set")
