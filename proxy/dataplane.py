"""The story of one proxied request: ask authorize, then redirect, refuse, or forward; then one line in the log."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from authorize.client import Authorizer, Check
from authorize.decision_log import DecisionLog
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Outcome
from databroker.client import BrokerClient
from gateproject.config.options import Options
from gateproject.errors import AccessEnded, BadRequest, BrokerError, CredentialsError, NoDescriptors, UpstreamError
from gateproject.telemetry.http_calls import CLIENT_LEFT
from gateproject.telemetry.tracing.spans import active
from proxy.answers import send_redirect
from proxy.forwarding import spdy
from proxy.forwarding.handshake import HandshakeRefused, handshake
from proxy.forwarding.http import ForwardResult, Leash, Switch, forward
from proxy.forwarding.tcp import Limits, carry_tcp
from proxy.forwarding.websocket import Upgrade
from proxy.headers import Headers, TrustedPeers
from proxy.incoming import Incoming, Receive, Send, client_address
from proxy.kept_forms import Kept, KeptForms, NotKept
from proxy.open_streams import OpenStreams, Stream
from proxy.redirects import redirect_to
from proxy.refusals import Refusals
from proxy.state import ProxyState, RouteForwarding
from proxy.story import Story
from proxy.traced import carried_in_span
from proxy.troubles import TooManyTunnels, explain_trouble
from proxy.upstreams.client import OutgoingRequest, Place, UpstreamClient
from proxy.upstreams.dialing import dial
from proxy.upstreams.health import HealthChecks
from proxy.upstreams.troubles import Troubles

# Of one session, or of nobody's from one address, in one process.
MOST_TUNNELS = 1024

Saw = Callable[[str, float, str], None]


@dataclass(frozen=True, slots=True)
class Carrying:
    """What outlives the reload of a configuration: the pools of upstream connections, what is being carried, who was seen.

    `saw` is told of every request that is let through for a session: its id, the time, the host.
    """

    decisions: DecisionLog = field(default_factory=lambda: DecisionLog(lambda entries: None))
    client: UpstreamClient = field(default_factory=UpstreamClient)
    streams: OpenStreams = field(default_factory=OpenStreams)
    saw: Saw = lambda session_id, now, host: None
    broker: BrokerClient | None = None  # keeps what people send without a session; without it, nothing is kept
    health: HealthChecks = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "health", HealthChecks(self.client))

    def use(self, options: Options, plane: "DataPlane | None") -> None:
        """This configuration is in force from now on; called on the event loop."""
        self.client.use(options.dns_lookup_family)
        self.client.troubles.forget()
        carries = options.services in ("all", "proxy")
        self.health.use(plane.state.clusters.members() if plane is not None and carries else ())

    async def close(self) -> None:
        self.health.close()
        await self.client.close()


class DataPlane:
    def __init__(
        self,
        options: Options,
        authorize: Authorizer,
        carrying: "Carrying | None" = None,
        clock: Callable[[], float] = time.time,
        previous: "DataPlane | None" = None,
    ):
        self._authorize = authorize
        self._carrying = carrying or Carrying()
        self._clock = clock
        self.state: ProxyState = ProxyState(authorize.routes.routes(), options, previous.state if previous else None)
        self._trusted = TrustedPeers(options.trusted_proxies)
        self._refusals = Refusals(options, authorize.is_route_origin, authorize.may_administer, authorize.routes.has_tunnels_at)
        self.forms = KeptForms(options, self._carrying.broker, authorize.scheme_of)

    async def __call__(self, incoming: Incoming, receive: Receive, send: Send) -> None:
        story, judged_at = self.story(incoming), self.streams.changes
        try:
            if incoming.request.method == "POST":
                story.incoming, receive = await self.forms.unpacked(incoming, receive, self._clock())
                incoming = story.incoming
            check = await story.judge()
            self.saw(incoming, check)
            compiled = check.decision.route
            if compiled is None or not check.decision.is_allowed:
                form = await self._kept(incoming, check, receive)
                story.status = await self._refusals.send(incoming, check, send, self._clock(), form)
            elif incoming.is_connect:
                story.result = await self._tunnel(incoming, compiled, check, judged_at, receive)
            elif compiled.route.redirect is not None:
                story.status = await self._redirect(incoming, compiled, send)
            elif compiled.route.allow_spdy and incoming.is_upgrade and spdy.is_offered(incoming.scope["headers"]):
                story.result = await self._spdy(incoming, compiled, check, judged_at, receive, send)
            elif is_websocket(incoming):
                story.result = await self._websocket(incoming, compiled, check, judged_at, receive, send)
            else:
                outgoing = await self.outgoing(incoming, compiled, check)
                story.result = await self._forward(incoming, check, judged_at, outgoing, receive, send)
        except (AccessEnded, BadRequest, BrokerError, CredentialsError, UpstreamError) as error:
            story.status, story.problem = error.status, error.in_full
            await explain_trouble(incoming, error, send)
        except ConnectionError:  # ASGI: `send` raises one where the client is gone
            story.status = CLIENT_LEFT
            raise
        finally:
            story.tell()

    @property
    def troubles(self) -> Troubles:
        return self._carrying.client.troubles

    @property
    def streams(self) -> OpenStreams:
        return self._carrying.streams

    def story(self, incoming: Incoming) -> Story:
        return Story(incoming, self._trusted, self._authorize, self._carrying.decisions)

    def saw(self, incoming: Incoming, check: Check) -> None:
        if check.identity is not None and check.decision.is_allowed:
            self._carrying.saw(check.identity.session_id, self._clock(), incoming.request.host_port)

    def only_forwards(self, check: Check, *, may_choose: bool) -> CompiledRoute | None:
        """The route, where all that is left to do is to send the request to its upstream: to one of several if it `may_choose`."""
        compiled = check.decision.route
        if compiled is None or not check.decision.is_allowed or compiled.route.redirect is not None:
            return None
        return compiled if may_choose or self.state.forwarding(compiled).cluster is None else None

    async def outgoing(self, incoming: Incoming, compiled: CompiledRoute, check: Check) -> OutgoingRequest:
        """The request that its upstream gets, of whatever kind and on whatever plane: none is made elsewhere.

        Raises CredentialsError, BadRequest, NoHealthyUpstream.
        """
        forwarding = self.state.forwarding(compiled)
        credentials = await self._authorize.credentials_for(check, incoming.request, incoming.cookies)
        return forwarding.outgoing(incoming, check, credentials, self._who(forwarding, incoming, check))

    def begin(self, incoming: Incoming, check: Check, judged_at: int) -> Stream:
        """It is carried from now on; `streams` wants to be told of its end."""
        # A token ends by the clock alone: no record is deleted with it.
        is_token, route = check.identity is not None and check.identity.is_bearer, check.decision.route
        is_timed = is_token or (route is not None and route.is_timed)
        session_id = check.identity.session_id if check.identity else ""
        return self.streams.open(incoming, session_id, judged_at, is_timed=is_timed, asks_provider=is_token)

    async def _kept(self, incoming: Incoming, check: Check, receive: Receive) -> Kept | NotKept | None:
        asks = check.decision.outcome in (Outcome.SIGN_IN, Outcome.STEP_UP)
        if not asks or check.challenge or not incoming.may_be_sent_elsewhere:
            return None
        # Requests with a body to upstreams that speak HTTP/2 are Envoy's alone: ours can't carry them.
        can_be_sent = check.decision.route is None or not check.decision.route.route.upstream_http2
        return await self.forms.keep(incoming, client_address(incoming, self._trusted), receive, self._clock(), can_be_sent=can_be_sent)

    async def _websocket(
        self, incoming: Incoming, compiled: CompiledRoute, check: Check, judged_at: int, receive: Receive, send: Send
    ) -> ForwardResult:
        scope, route = incoming.scope, compiled.route
        if not route.allow_websockets:
            raise HandshakeRefused(403, "this application's route carries no websockets")
        own_origin = f"{route.from_.scheme}://{incoming.request.host_port}"
        offer = handshake(scope["method"], scope["headers"], own_origin, route.websocket_origins)
        tunnel = _tunnel_of(incoming)
        outgoing = await self.outgoing(incoming, compiled, check)
        outgoing.headers, outgoing.is_upgrade = offer.for_upstream(outgoing.headers), True
        # The default bounds the handshake alone; a timeout that was set bounds the websocket too.
        lifetime = None if outgoing.is_default_timeout else outgoing.timeout
        upgrade = Upgrade(offer, tunnel["take_over"], self._response_headers, lifetime)
        return await self._forward(incoming, check, judged_at, outgoing, receive, send, upgrade.carry)

    async def _spdy(
        self, incoming: Incoming, compiled: CompiledRoute, check: Check, judged_at: int, receive: Receive, send: Send
    ) -> ForwardResult:
        tunnel = _tunnel_of(incoming)
        outgoing = await self.outgoing(incoming, compiled, check)
        outgoing.headers = spdy.for_upstream(incoming.scope["method"], incoming.scope["headers"], outgoing.headers)
        outgoing.is_upgrade = True
        lifetime = None if outgoing.is_default_timeout else outgoing.timeout
        upgrade = spdy.SpdyUpgrade(tunnel["take_over"], self._response_headers, lifetime)
        return await self._forward(incoming, check, judged_at, outgoing, receive, send, upgrade.carry)

    async def _tunnel(self, incoming: Incoming, compiled: CompiledRoute, check: Check, judged_at: int, receive: Receive) -> ForwardResult:
        """Where it leads is the route's alone: nothing of the request has a say in what is dialled."""
        tunnel = _tunnel_of(incoming)
        session_id = check.identity.session_id if check.identity is not None else ""
        if self._carrying.streams.tunnels(session_id, incoming.peer) >= MOST_TUNNELS:
            raise TooManyTunnels(f"{MOST_TUNNELS} tunnels are open already")
        forwarding = self.state.forwarding(compiled)
        upstream, place = forwarding.chosen(self._who(forwarding, incoming, check))
        family, headers = self._carrying.client.family, [(b"x-request-id", incoming.request_id.encode())]
        limits = Limits(None if forwarding.is_default_timeout else forwarding.timeout, forwarding.silence)

        async def carried(leash: Leash) -> ForwardResult:
            dialled = partial(dial, upstream, place, family, self.troubles)
            return await carry_tcp(compiled.route.name or compiled.id, dialled, tunnel["take_over"], headers, receive, limits, leash)

        return await self._carry(incoming, check, judged_at, place, carried)

    async def _forward(
        self,
        incoming: Incoming,
        check: Check,
        judged_at: int,
        outgoing: OutgoingRequest,
        receive: Receive,
        send: Send,
        switch: Switch | None = None,
    ) -> ForwardResult:
        client = self._carrying.client

        def carried(leash: Leash) -> Awaitable[ForwardResult]:
            answer = forward(outgoing, client, receive, send, self._response_headers, leash, switch)
            return answer if active() is None else carried_in_span(outgoing, answer)

        return await self._carry(incoming, check, judged_at, outgoing.place, carried)

    async def _carry(
        self,
        incoming: Incoming,
        check: Check,
        judged_at: int,
        place: Place | None,
        carried: Callable[[Leash], Awaitable[ForwardResult]],
    ) -> ForwardResult:
        stream, status = self.begin(incoming, check, judged_at), None
        if place is not None:
            place.begin()
        try:
            result = await carried(stream)
            status = result.status
            return result
        except NoDescriptors:  # says nothing of the upstream
            raise
        except UpstreamError as error:
            status = error.status
            raise
        finally:
            self.streams.close(stream)
            if place is not None:
                place.end(status)

    def _who(self, forwarding: RouteForwarding, incoming: Incoming, check: Check) -> str:
        """For balancing that sticks: the session, else the client's address."""
        if forwarding.cluster is None or not forwarding.cluster.is_sticky:
            return ""
        return check.identity.session_id if check.identity is not None else client_address(incoming, self._trusted)

    async def may_go_on(self, incoming: Incoming) -> bool:
        """Would this request still be let in?  Raises BrokerError."""
        try:
            check = await self._authorize.check(incoming.request, incoming.cookies)
        except BadRequest:
            return False
        if check.decision.route is None or not check.decision.is_allowed:
            return False
        route = check.decision.route.route
        if incoming.is_connect:
            return True
        if incoming.is_upgrade and spdy.is_offered(incoming.scope["headers"]) and not route.allow_spdy:
            return False
        return route.allow_websockets or not is_websocket(incoming)

    def _response_headers(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> Headers:
        return self.state.response_headers.for_client(headers)

    async def _redirect(self, incoming: Incoming, compiled: CompiledRoute, send: Send) -> int:
        scope = incoming.scope
        status, location = redirect_to(
            compiled.route, incoming.request, compiled.route.from_.scheme, scope["query_string"], compiled.matched_prefix or None
        )
        await send_redirect(incoming, send, location, status=status, extra_headers=self.state.response_headers.added)
        return status


def _tunnel_of(incoming: Incoming) -> dict[str, Any]:
    """The listener's way to hand over a connection, client and all."""
    tunnel: dict[str, Any] | None = incoming.scope.get("extensions", {}).get("gate.tunnel")
    if tunnel is None:
        raise HandshakeRefused(501, "this server can't hand a connection over")
    return tunnel


def is_websocket(incoming: Incoming) -> bool:
    upgrades = (value.lower() for name, value in incoming.scope["headers"] if name == b"upgrade")
    return incoming.is_upgrade and any(b"websocket" in value for value in upgrades)
