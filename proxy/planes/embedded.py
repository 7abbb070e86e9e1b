"""Embedded data plane: authorizes a request, forwards it or sends gate's response, and writes one access-log line."""

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from authorize.policy.mcp_message import McpMessage
from config.options import Options
from config.routes.route_upstream_oauth import upstream_oauth_settings
from foundation.errors import (
    AccessRevoked,
    AccountConnectionRequired,
    BadRequest,
    BrokerError,
    EnvoyUnavailable,
    NoIdentity,
    UpstreamCredentialsUnavailable,
    UpstreamError,
)
from foundation.telemetry.http_metrics import CLIENT_CLOSED
from foundation.telemetry.tracing.spans import active_span
from foundation.web.asgi_types import Header, Receive, Send
from proxy.forwarding.forward_result import ForwardResult, StreamHandle
from proxy.forwarding.http_forwarding import ResponseHeaderFilter, UpgradeHandler, forward
from proxy.forwarding.tcp_tunnel import TunnelLimits, tunnel_tcp
from proxy.incoming_request import IncomingRequest
from proxy.mcp.buffered_body import replay_body
from proxy.mcp.endpoint_reader import McpEndpointReader
from proxy.mcp.list_filter import ListFilter, accept_identity, needs_filter
from proxy.mcp.mcp_cors import add_agent_cors, send_preflight
from proxy.mcp.mcp_errors import REFUSED, McpRejected
from proxy.mcp.mcp_origin import is_token_identity, require_access_token
from proxy.mcp.upstream_token import TokenRejected, TokenResponseFilter, sent_token_hash
from proxy.observe.request_recorder import RequestContext
from proxy.observe.request_spans import forward_span
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.planes.stream_tracking import StreamTracking, record_tunnel_bytes
from proxy.responses.denials import TooManyTunnels, denial_from_error, with_agent_cors
from proxy.responses.renderer import send_denial
from proxy.route_forwarding import ForwardingTable
from proxy.sign_in.saved_forms import NotSaved, SavedForm, SavedForms
from proxy.upgrades import HandshakeRefused
from proxy.upstreams.cluster import Cluster, ClusterSelection, NoHealthyUpstream
from proxy.upstreams.dialing import dial
from proxy.upstreams.outgoing_request import OutgoingRequest
from proxy.upstreams.route_statistics import RouteStatistics, route_label
from proxy.verdict import Forward, RequestDecision, SignIn
from proxy.verdict_builder import attach_saved_form

# In one process, for one session; without a session, for one client network.
MAX_TUNNELS_PER_CLIENT = 1024


class EmbeddedDataPlane:
    def __init__(self, options: Options, pipeline: AuthorizationPipeline, resources: SharedResources):
        self.pipeline, self._resources = pipeline, resources
        self.streams, self.upstream_errors = resources.streams, resources.upstream_client.upstream_errors
        table = pipeline.authorizer.routes
        self.forwarding_table: ForwardingTable = ForwardingTable(
            table.routes(), options, resources.active_forwarding_table, table.identity_header_names
        )
        self.saved_forms = SavedForms(options, resources.broker, pipeline.authorizer.scheme_for)
        self._mcp = McpEndpointReader(options, table.match, pipeline.authorizer.is_route_origin)

    async def __call__(self, incoming: IncomingRequest, receive: Receive, send: Send) -> None:
        pipeline, context = self.pipeline, RequestContext(incoming)
        try:
            if incoming.request.method == "POST":
                context.incoming, receive = await self.saved_forms.restore(incoming, receive, pipeline.clock())
            if self._mcp.is_needed:
                receive = await self._mcp.read(context.incoming, receive)
                if context.incoming.is_mcp_preflight:
                    context.status = await send_preflight(send)
                    return
            decision = await pipeline.authorize(context)
            verdict = pipeline.verdicts.build(decision)
            if isinstance(verdict, SignIn):
                verdict = attach_saved_form(verdict, await self._save_form(decision, receive), decision.incoming)
            if isinstance(verdict, Forward):
                require_access_token(decision.incoming, decision.authorization.identity)
                pipeline.recorder.report_session_activity(decision)
                context.result = await self._forward(context, decision, verdict, receive, send)
            else:
                added = self.forwarding_table.response_header_rules.added
                context.record_response(verdict, await pipeline.renderer.send(decision.incoming, verdict, send, decision.now, added))
        except (AccessRevoked, BadRequest, BrokerError, UpstreamCredentialsUnavailable, UpstreamError) as error:
            if isinstance(error, NoHealthyUpstream):
                self._record_no_healthy_upstream(context.decision)
            denial = denial_from_error(error)
            if isinstance(error, AccountConnectionRequired) and context.decision is not None:
                denial = pipeline.verdicts.connection_required(context.decision)
            await send_denial(context.incoming, context.record_denial(with_agent_cors(denial, context.incoming)), send)
        except ConnectionError:  # ASGI: `send` raises it if the client has disconnected
            context.status = CLIENT_CLOSED
            raise
        finally:
            pipeline.recorder.record(context)

    # enforcement-point: Upstream requests: Headers of forwarded requests
    async def build_upstream_request(self, decision: RequestDecision, verdict: Forward, rejected: str = "") -> OutgoingRequest:
        """Build the upstream request.  This is the only place that builds one, for every protocol and plane.

        `rejected` is the hash of a user's token that the upstream has rejected.
        Raises UpstreamCredentialsUnavailable, NoHealthyUpstream, and BadRequest if the request can't be forwarded.
        """
        forwarding = self.forwarding_table.for_route(verdict.compiled_route)
        credentials: tuple[Header, ...] = ()
        if forwarding.injects_credentials:
            credentials = await self.pipeline.authorizer.credentials_for(
                decision.authorization, decision.incoming.request, decision.incoming.cookie_headers, rejected
            )
        hash_key = self._hash_key(forwarding.cluster, decision) if forwarding.cluster is not None else ""
        return forwarding.build_request(decision.incoming, verdict, credentials, hash_key)

    async def _save_form(self, decision: RequestDecision, receive: Receive) -> SavedForm | NotSaved | None:
        # Because only Envoy forwards to upstream_http2 routes, this data plane could not replay the form.
        incoming, route = decision.incoming, decision.authorization.decision.compiled_route
        is_replayable = route is None or not route.route.upstream_http2
        return await self.saved_forms.save(incoming, receive, decision.now, is_replayable=is_replayable)

    async def _forward(
        self, context: RequestContext, decision: RequestDecision, verdict: Forward, receive: Receive, send: Send
    ) -> ForwardResult:
        incoming, upgrade, upgrade_handler = decision.incoming, verdict.upgrade, None
        if incoming.is_connect:
            return await self._tunnel_tcp(decision, verdict, receive)
        if verdict.compiled_route.route.upstream_http2:
            raise EnvoyUnavailable("only Envoy forwards to upstream_http2 routes, and it did not take this request")
        take_over = _takeover_extension(incoming)["take_over"] if upgrade is not None else None
        outgoing = await self.build_upstream_request(decision, verdict)
        if upgrade is not None and take_over is not None:
            # The default timeout limits the handshake only; a configured timeout also limits the upgraded connection.
            lifetime = None if outgoing.is_default_timeout else outgoing.timeout
            upgrade_handler = partial(upgrade.run, take_over, self._response_header_filter(outgoing), lifetime)
        if upstream_oauth_settings(verdict.compiled_route.route) is not None:
            return await self._forward_with_token(context, decision, verdict, outgoing, receive, send)
        return await self._exchange(context, decision, outgoing, receive, send, upgrade_handler)

    async def _forward_with_token(
        self,
        context: RequestContext,
        decision: RequestDecision,
        verdict: Forward,
        outgoing: OutgoingRequest,
        receive: Receive,
        send: Send,
    ) -> ForwardResult:
        """Forward a request with the user's token of a third-party server, and once more with a new one if the server rejects it.

        Raises AccountConnectionRequired if there is none that it accepts.
        """
        try:
            return await self._exchange(context, decision, outgoing, receive, send, has_token=True)
        except TokenRejected:
            outgoing = await self.build_upstream_request(decision, verdict, sent_token_hash(outgoing))
        body = decision.incoming.body
        if outgoing.has_body and body is None:
            raise UpstreamCredentialsUnavailable("the server rejected a token, which gate has replaced; the body can't be sent again")
        try:
            receive = receive if body is None else replay_body(body, receive)
            return await self._exchange(context, decision, outgoing, receive, send, has_token=True)
        except TokenRejected as error:
            await self.build_upstream_request(decision, verdict, sent_token_hash(outgoing))
            raise UpstreamCredentialsUnavailable("the server rejected two tokens") from error

    async def _exchange(
        self,
        context: RequestContext,
        decision: RequestDecision,
        outgoing: OutgoingRequest,
        receive: Receive,
        send: Send,
        upgrade_handler: UpgradeHandler | None = None,
        *,
        has_token: bool = False,
    ) -> ForwardResult:
        if decision.incoming.is_mcp and is_token_identity(decision.authorization.identity):
            send = self._agent_cors(decision, send)
        if decision.incoming.is_mcp and (list_filter := self._list_filter(context, decision, outgoing, send)) is not None:
            send = list_filter.send
        send = TokenResponseFilter(send).send if has_token else send
        with self.track(decision, outgoing.selection, outgoing.statistics) as stream:
            forwarding = self.forward_request(outgoing, receive, send, stream, upgrade_handler)
            result = await (forwarding if active_span() is None else forward_span(outgoing, forwarding))
            stream.status, stream.termination = result.status, result.termination
            if outgoing.statistics is not None:
                record_tunnel_bytes(outgoing.statistics, result)
        return result

    def _agent_cors(self, decision: RequestDecision, send: Send) -> Send:
        """Return `send`, with CORS headers for the page of an MCP client, unless the MCP server answers preflight requests itself."""
        route = decision.authorization.decision.compiled_route
        has_own = route is not None and route.route.cors_allow_preflight
        return send if has_own or not decision.incoming.header(b"origin") else add_agent_cors(send)

    def _list_filter(self, context: RequestContext, decision: RequestDecision, outgoing: OutgoingRequest, send: Send) -> ListFilter | None:
        incoming, compiled = decision.incoming, decision.authorization.decision.compiled_route
        is_get = incoming.request.method == "GET"
        if compiled is None or not needs_filter(compiled.route, incoming.request.method, incoming.request.mcp):
            return None
        if not is_get or incoming.accepts_event_stream:
            outgoing.headers = accept_identity(outgoing.headers)

        async def allowed(calls: Sequence[McpMessage]) -> Sequence[bool]:
            return await self.pipeline.authorizer.allowed_calls(incoming.request, decision.authorization, incoming.cookie_headers, calls)

        async def refuse(reason: str) -> None:
            error = McpRejected(REFUSED, reason, status=UpstreamError.status)
            await send_denial(incoming, context.record_denial(denial_from_error(error)), send)

        return ListFilter(send, allowed, refuse, incoming.rpc_id, only_streams=is_get)

    def forward_request(
        self, outgoing: OutgoingRequest, receive: Receive, send: Send, stream: StreamHandle, upgrade_handler: UpgradeHandler | None = None
    ) -> Awaitable[ForwardResult]:
        """Forward a tracked request over gate's connections.  Raises UpstreamError and AccessRevoked only before a response is sent."""
        filter_headers, resources = self._response_header_filter(outgoing), self._resources
        return forward(
            outgoing, resources.upstream_client, receive, send, filter_headers, stream, upgrade_handler, resources.disconnect_watches
        )

    def _response_header_filter(self, outgoing: OutgoingRequest) -> ResponseHeaderFilter:
        return (outgoing.response_header_rules or self.forwarding_table.response_header_rules).filter

    async def _tunnel_tcp(self, decision: RequestDecision, verdict: Forward, receive: Receive) -> ForwardResult:
        """Tunnel a CONNECT to the route's upstream.  The request never selects the address, so gate is no open relay."""
        incoming, compiled = decision.incoming, verdict.compiled_route
        tunnel = _takeover_extension(incoming)
        if self.streams.count_tunnels(decision.session_id, incoming.peer) >= MAX_TUNNELS_PER_CLIENT:
            raise TooManyTunnels(f"{MAX_TUNNELS_PER_CLIENT} tunnels are already open")
        forwarding = self.forwarding_table.for_route(compiled)
        upstream, selection = forwarding.select_upstream(self._hash_key(forwarding.cluster, decision))
        family, headers = self._resources.upstream_client.family, [(b"x-request-id", incoming.request_id.encode())]
        limits = TunnelLimits(None if forwarding.is_default_timeout else forwarding.timeout, forwarding.idle_timeout)
        statistics = forwarding.statistics
        dial_upstream = partial(dial, upstream, selection, family, self.upstream_errors, statistics=statistics)
        with self.track(decision, selection, statistics) as stream:
            take_over, half_closes = tunnel["take_over"], tunnel["half_closes"]
            name = route_label(compiled.route)
            result = await tunnel_tcp(name, dial_upstream, take_over, headers, receive, limits, stream, client_half_closes=half_closes)
            stream.status, stream.termination = result.status, result.termination
            if statistics is not None:
                record_tunnel_bytes(statistics, result)
        return result

    def track(self, decision: RequestDecision, selection: ClusterSelection | None, statistics: RouteStatistics | None) -> StreamTracking:
        """Return the context of a forwarded request, in which `streams` may end it and its upstream counts it as active."""
        return StreamTracking(self.streams, decision, selection, statistics)

    def _record_no_healthy_upstream(self, decision: RequestDecision | None) -> None:
        if decision is None or decision.authorization.decision.compiled_route is None:
            return
        if (statistics := self.forwarding_table.for_route(decision.authorization.decision.compiled_route).statistics) is not None:
            statistics.record_none_healthy(NoHealthyUpstream.status)

    def _hash_key(self, cluster: Cluster | None, decision: RequestDecision) -> str:
        """Return the key for sticky load balancing: the session id, or the client address without an identity."""
        if cluster is None or not cluster.is_sticky:
            return ""
        return decision.session_id if decision.authorization.identity is not None else decision.incoming.client_address

    async def reauthorize(self, incoming: IncomingRequest) -> float:
        """Authorize a running request again.  Return the time until which it stays allowed (Unix seconds), or 0 if it no longer is.

        Raises BrokerError if the store is unavailable.
        """
        try:
            decision = await self.pipeline.reauthorize(incoming)
            verdict = self.pipeline.verdicts.build(decision)
            if isinstance(verdict, Forward) and upstream_oauth_settings(verdict.compiled_route.route) is not None:
                await self._require_connection(decision)
        except (BadRequest, NoIdentity):
            return 0.0
        return decision.authorization.valid_until if isinstance(verdict, Forward) else 0.0

    async def _require_connection(self, decision: RequestDecision) -> None:
        """Raise AccountConnectionRequired if the user has disconnected the account.  Without a new token, the stream continues."""
        incoming = decision.incoming
        try:
            await self.pipeline.authorizer.credentials_for(decision.authorization, incoming.request, incoming.cookie_headers)
        except NoIdentity:
            raise
        except UpstreamCredentialsUnavailable:
            pass


def _takeover_extension(incoming: IncomingRequest) -> dict[str, Any]:
    """Return the listener's extension that hands over the client's connection.  Raises HandshakeRefused if there is none."""
    tunnel: dict[str, Any] | None = incoming.scope.get("extensions", {}).get("gate.tunnel")
    if tunnel is None:
        raise HandshakeRefused(501, "this server can't hand a connection over, or not by this version of HTTP: ask by HTTP/1.1")
    return tunnel
