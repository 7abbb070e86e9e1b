"""May this request pass?  Asked by another proxy: `/verify?uri=` answers 200, 401 or 403, `/?uri=` leads to sign-in besides."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from authorize.client import Authorizer, Check
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Outcome
from gateproject.config.options import Options
from gateproject.errors import BadRequest, GateError
from proxy.answers import Headers, send_error, send_redirect, send_response
from proxy.carried_elsewhere import NOT_IN_A_VERDICT, Refused, is_websocket, require_no_token, require_websocket_may_open
from proxy.dataplane import Carrying
from proxy.headers import TrustedPeers, credentials_left, fold, is_identity_header, is_internal_header, is_steering_header
from proxy.incoming import Incoming, Receive, Send, source_ip
from proxy.original_request import ALL_HEADERS, Original, original_request
from proxy.own_paths import is_own_page
from proxy.redirects import redirect_to
from proxy.refusals import Refusals
from proxy.sign_in import return_url
from proxy.story import Story
from proxy.troubles import explain_trouble

VERIFY = "/verify"

UNKNOWN = "no application is configured at this address"
SETUP_ADVICE = "This is about how the front proxy is set up, or about an unusual address; its operator finds more in gate's log."
# What an answer depends on besides the URL: a cache in the front proxy must tell these apart.
VARY = b", ".join(
    sorted([b"cookie", b"authorization", b"origin", b"access-control-request-method", b"sec-websocket-version", *ALL_HEADERS])
)

OwnPages = Callable[[Incoming, Receive, Send], Awaitable[None]]


class ForwardAuth:
    """`/verify` has three answers and 503, since front proxies know no others; `/` may also redirect."""

    def __init__(self, options: Options, authorize: Authorizer, carrying: Carrying, clock: Callable[[], float]):
        self._authorize = authorize
        self._carrying = carrying
        self._clock = clock
        self._trusted = TrustedPeers(options.trusted_proxies)
        self._refusals = Refusals(options, authorize.is_route_origin, authorize.may_administer)
        self._cookie_name = options.cookie_name
        self._cache_seconds = options.forward_auth_cache.total_seconds()

    async def __call__(self, incoming: Incoming, receive: Receive, send: Send, own_pages: OwnPages) -> None:
        # Errors for gRPC clients have the status 200, which means something else to a front proxy.
        incoming = replace(incoming, headers={name: value for name, value in incoming.headers.items() if name != b"content-type"})
        story = Story(incoming, self._trusted, self._authorize, self._carrying.decisions)
        is_verify, refuse = incoming.request.path == VERIFY, _NeverSuccess(incoming, send)
        try:
            original = self._original(incoming)
            judged = story.incoming = replace(incoming, request=original.request)
            if is_own_page(original.request.path):
                await self._own_page(judged, original, is_verify, receive, refuse, own_pages)
            else:
                require_no_token(original.request.query)
                check = await story.judge()
                self._refuse_credentials(check)
                if await self._may_pass(judged, original, check, is_verify, refuse):
                    story.status = 200
                    await send_response(send, 200, self._permission(judged, check), b"")
        except BadRequest as error:
            story.problem = error.in_full
            await send_error(
                incoming, refuse, 403 if is_verify else error.status, f"This request is refused: {error}.", advice=SETUP_ADVICE
            )
        except GateError as error:
            story.problem = str(error)
            await explain_trouble(incoming, error, refuse)
        finally:
            story.status = story.status or refuse.status
            story.tell()

    def _original(self, incoming: Incoming) -> Original:
        if incoming.request.path not in (VERIFY, "/"):
            raise NoSuchPath(f"forward auth answers at / and {VERIFY} only")
        _refuse_what_is_not_the_clients(incoming)
        is_trusted = incoming.peer in self._trusted
        original = original_request(incoming, self._authorize.default_ports, is_trusted=is_trusted)
        # The peer is the front proxy: where its word does not count, nobody knows who asks it.
        address = source_ip(incoming, self._trusted) if is_trusted else ""
        original = replace(original, request=replace(original.request, source_ip=address, headers=incoming.scope["headers"]))
        request = original.request
        if not self._authorize.knows_host(request.host, request.port):
            raise Refused(f"{UNKNOWN}: {request.host_port}")
        if original.scheme != self._authorize.scheme_of(request.host, request.port):
            raise Refused("the routes of this host have another scheme")
        return original

    async def _may_pass(self, judged: Incoming, original: Original, check: Check, is_verify: bool, refuse: Send) -> bool:
        """True, or the answer is given.  Raises BadRequest."""
        decision = check.decision
        if decision.route is None:
            raise Refused(UNKNOWN)
        if decision.outcome in (Outcome.SIGN_IN, Outcome.STEP_UP):
            await self._not_signed_in(judged, original, check, is_verify, refuse)
        elif not decision.is_allowed:
            await self._refusals.send(judged, check, refuse, self._clock())
        elif decision.route.route.redirect is not None:
            await self._redirect(judged, decision.route, is_verify, refuse)
        else:
            if is_websocket(judged.scope["headers"]):
                require_websocket_may_open(judged.scope["headers"], original.origin, decision.route.route)
            if check.identity is not None:
                self._carrying.saw(check.identity.session_id, self._clock(), judged.request.host_port)
            return True
        return False

    def _refuse_credentials(self, check: Check) -> None:
        """Whoever asks for a verdict reads its headers: what proves us to an upstream can't be among them."""
        if check.decision.route is not None and self._authorize.shows_credentials(check.decision.route):
            raise Refused("the upstream of this address wants credentials of ours, and gate must carry the request itself")

    async def _not_signed_in(self, judged: Incoming, original: Original, check: Check, is_verify: bool, send: Send) -> None:
        if check.challenge:
            await self._refusals.send(judged, check, send, self._clock())
        elif is_verify or is_websocket(judged.scope["headers"]):
            await self._refusals.unauthorized(judged, check, send)
        elif judged.is_script or judged.is_upgrade:
            await self._refusals.send(judged, check, send, self._clock())
        else:
            # On the route's own host, whoever reads this answer: the cookie that binds a sign-in to its browser belongs there.
            query = urlencode({"gate_redirect_uri": return_url(judged, original.scheme)})
            await send_redirect(judged, send, f"{original.origin}/.gate/sign_in?{query}")

    async def _redirect(self, judged: Incoming, route: CompiledRoute, is_verify: bool, send: Send) -> None:
        if is_verify:
            # Nobody needs to sign in for a redirect, so 200 would let everybody through to whatever the front proxy has there.
            raise Refused("the route of this address only redirects")
        query = judged.request.query.encode("latin-1")
        status, location = redirect_to(route.route, judged.request, route.route.from_.scheme, query, route.matched_prefix or None)
        await send_redirect(judged, send, location, status=status)

    async def _own_page(
        self, judged: Incoming, original: Original, is_verify: bool, receive: Receive, refuse: Send, own_pages: OwnPages
    ) -> None:
        """A front proxy that asks about `/.gate/` too hands our answer on to the browser, as long as it is no 2xx."""
        if is_verify or original.request.method not in ("", "GET"):
            raise Refused(NOT_IN_A_VERDICT)
        scope = {**judged.scope, "method": "GET", "query_string": original.request.query.encode("latin-1")}
        await own_pages(replace(judged, scope=scope), receive, refuse)

    def _permission(self, judged: Incoming, check: Check) -> Headers:
        """What the front proxy copies into the request that it forwards: an empty value where there is none, so that it replaces
        what the client sent under that name."""
        told = dict(check.identity_headers)
        headers: Headers = [(name, told.get(name, b"")) for name in self._authorize.identity_header_names]
        credentials = credentials_left(judged.scope["headers"], self._cookie_name, check.withheld)
        headers += zip((b"cookie", b"authorization"), credentials, strict=True)
        return [*headers, (b"x-request-id", judged.request_id.encode()), *self._caching(check)]

    def _caching(self, check: Check) -> Headers:
        left = check.identity.expires - self._clock() if check.identity is not None else self._cache_seconds
        seconds = int(min(self._cache_seconds, left))
        route = check.decision.route
        if route is None or route.has_policy or route.is_timed:
            # What it was decided by may differ in the next request, or with the hour.
            seconds = 0
        if seconds <= 0:
            return [(b"cache-control", b"no-store")]
        return [(b"cache-control", f"private, max-age={seconds}".encode()), (b"vary", VARY)]


class NoSuchPath(BadRequest):
    status = 404


class _NeverSuccess:
    """Whatever is refused, in whatever form: a front proxy lets a request pass for nothing but the status 2xx of our answer."""

    def __init__(self, incoming: Incoming, send: Send):
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
                await send_error(self._incoming, self._send, 403, f"This request is refused: {NOT_IN_A_VERDICT}.", advice=SETUP_ADVICE)
                return
        await self._send(message)


def _refuse_what_is_not_the_clients(incoming: Incoming) -> None:
    """We can't take a header out of what the front proxy will forward, so a request that claims an identity, or steers the application
    away from what is judged, does not pass.  Some names that steer are the front proxy's own words to us."""
    names = [*(name for name, _ in incoming.scope["headers"]), *incoming.scope.get("gate.ignored_headers", ())]
    for name, folded in [(name, fold(name)) for name in names]:
        if is_identity_header(folded):
            raise Refused("it carries a header that only gate may set")
        if is_internal_header(folded) and name.lower() != folded:
            raise Refused(f"it carries a header that an application may read as {folded.decode('ascii')}, which only proxies may set")
        if is_steering_header(folded) and not folded.startswith(b"x-original-"):
            raise Refused(f"it carries {folded.decode('ascii')}, by which an application may run another method or URL than the one judged")
