"""Verdict builder: turns the decision about a request into a verdict."""

from collections.abc import Sequence
from dataclasses import replace

from authorize.authorizer import Authorizer
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Outcome
from config.options import Options
from config.routes.route import Route
from config.routes.route_mcp import is_mcp_endpoint
from foundation.errors import BadRequest, GateError
from foundation.web.asgi_types import Header
from proxy.incoming_request import IncomingRequest
from proxy.mcp.mcp_origin import require_allowed_origin as require_mcp_origin
from proxy.reserved_paths import is_reserved_path
from proxy.responses.denials import Denials, denial_from_error, form_not_saved
from proxy.responses.route_redirects import redirect_to
from proxy.rewriting.reserved_headers import fold
from proxy.rewriting.target import strip_token
from proxy.sign_in.loops import SignInLoops
from proxy.sign_in.saved_forms import NotSaved, SavedForm
from proxy.upgrades import HandshakeRefused, SpdyOffer, Upgrade
from proxy.verdict import Deny, Enforcer, Forward, Redirect, RequestDecision, SignIn, Verdict
from proxy.websocket.handshake import SEC_WEBSOCKET, parse_handshake, require_allowed_origin

RESERVED_PATH_ERROR = "the front proxy must forward /.gate/ to gate instead of checking it with forward auth"
NO_ROUTE_ERROR = "no application is configured at this address"
WEBSOCKETS_DISABLED_ERROR = "the route of this application does not allow WebSocket connections; its operator can set allow_websockets"
SPDY_DISABLED_ERROR = "the route of this application does not allow SPDY/3.1; its operator can set allow_spdy"


class NotDelegable(BadRequest):
    """Error of a request that another proxy may not forward."""

    status = 403


# enforcement-point: Authorization: Verdict for a decision
class VerdictBuilder:
    """Builder of verdicts.  Its state depends only on the configuration."""

    def __init__(self, options: Options, authorize: Authorizer):
        self._injects_credentials, self._is_route_origin = authorize.injects_credentials, authorize.is_route_origin
        self.loops = SignInLoops(options)
        self._denials = Denials(options, authorize, self.loops)
        self._identity_header_names = authorize.routes.identity_header_names

    def build(self, decision: RequestDecision, enforcer: Enforcer = Enforcer.EMBEDDED) -> Verdict:
        incoming, authorization, compiled = decision.incoming, decision.authorization, decision.authorization.decision.compiled_route
        try:
            if enforcer is not Enforcer.EMBEDDED:
                self._require_delegable(incoming, compiled, enforcer)
            if authorization.decision.outcome in (Outcome.SIGN_IN, Outcome.STEP_UP):
                return self._unauthenticated(decision, enforcer)
            if compiled is None or not authorization.decision.is_allowed:
                return self._denials.for_decision(incoming, authorization, has_tunnels=enforcer is Enforcer.EMBEDDED)
            if compiled.route.redirect is not None:
                if enforcer is Enforcer.FORWARD_AUTH_STATUS_ONLY:
                    # Because redirects need no sign-in, a 200 would admit every client to the front proxy's backend.
                    raise NotDelegable("the route of this address only redirects")
                return Redirect(*redirect_to(compiled.route, incoming.request, compiled.matched_prefix or None))
            offer = _upgrade_offer(incoming, compiled.route, enforcer)
        except BadRequest as error:
            return deny_for_error(error, enforcer)
        return Forward(compiled, authorization.identity_headers, authorization.withheld_credentials, offer)

    def connection_required(self, decision: RequestDecision) -> Deny:
        """Return the denial of an allowed request whose user has no account connected at the upstream."""
        return self._denials.connection_required(decision.incoming, decision.authorization)

    def _unauthenticated(self, decision: RequestDecision, enforcer: Enforcer) -> SignIn | Deny:
        incoming, authorization = decision.incoming, decision.authorization
        if authorization.challenge:
            return self._denials.invalid_token(incoming, authorization)
        if not _can_redirect(incoming, enforcer):
            return self._denials.unauthorized(incoming, authorization)
        compiled = authorization.decision.compiled_route
        scheme = compiled.route.from_.scheme if compiled else "https"
        # With forward auth, the sign-in starts on the route's host, which detects loops as well.
        if enforcer is not Enforcer.FORWARD_AUTH and self.loops.is_looping(
            incoming.cookie_headers, incoming.request.host_port, decision.now
        ):
            return self._denials.sign_in_loop(incoming, scheme)
        return SignIn(scheme, compiled.route if compiled else None)

    def _require_delegable(self, incoming: IncomingRequest, compiled: CompiledRoute | None, enforcer: Enforcer) -> None:
        """Raise NotDelegable for a request that another proxy may not forward, whatever the decision is."""
        request = incoming.request
        if is_reserved_path(request.path):
            # Because gate's callback URL contains a token, no application may receive it.
            raise NotDelegable(RESERVED_PATH_ERROR)
        raw = request.query.encode("latin-1")
        if strip_token(raw) != raw:
            # Because the other proxy forwards the query unchanged, and an application must not receive a token.
            raise NotDelegable("tokens in the query are not supported behind another proxy. Use an Authorization header")
        if compiled is None:
            if enforcer is not Enforcer.EXT_AUTHZ:
                raise NotDelegable(NO_ROUTE_ERROR)
        elif enforcer is not Enforcer.EXT_AUTHZ and self._spoofs_identity_header(incoming, compiled.route):
            # Because a front proxy forwards the client's headers unchanged, and overwrites only those that it is configured to copy.
            raise NotDelegable("the request has an identity header, which is reserved for gate")
        elif self._injects_credentials(compiled):
            # Because the other proxy reads gate's response, it can't contain gate's credentials for the upstream.
            raise NotDelegable("the upstream of this route needs credentials from gate, so gate must forward the request itself")
        if compiled is not None and is_mcp_endpoint(compiled.route, request.path):
            require_mcp_origin(incoming, compiled.route, self._is_route_origin)  # gate's own plane checks it before it reads the body

    def _spoofs_identity_header(self, incoming: IncomingRequest, route: Route) -> bool:
        names = {fold(name) for name in self._identity_header_names.headers_for(route)} - {
            b"authorization"
        }  # because the response always replaces it
        return bool(names) and any(fold(name) in names for name in incoming.client_header_names)


def _can_redirect(incoming: IncomingRequest, enforcer: Enforcer) -> bool:
    """Return whether a client without a session is redirected to a sign-in page; otherwise it receives a 401."""
    if enforcer is Enforcer.FORWARD_AUTH:  # the front proxy chose the endpoint that redirects
        return incoming.accepts_redirect and not is_websocket_request(incoming.scope["headers"])
    return enforcer is not Enforcer.FORWARD_AUTH_STATUS_ONLY and incoming.is_navigation


def attach_saved_form(verdict: SignIn, form: SavedForm | NotSaved | None, incoming: IncomingRequest) -> SignIn | Deny:
    """Return the sign-in verdict with its saved form, or a denial if the form was not saved."""
    return form_not_saved(incoming, verdict.scheme, form) if isinstance(form, NotSaved) else replace(verdict, form=form)


def deny_for_error(error: GateError, enforcer: Enforcer = Enforcer.EMBEDDED) -> Deny:
    """Return the denial for an error.  For another proxy, its advice names that proxy's setup as a possible cause."""
    if enforcer is Enforcer.EMBEDDED or not isinstance(error, BadRequest):
        return denial_from_error(error)
    if enforcer is Enforcer.EXT_AUTHZ:
        advice = "The cause is an unusual URL or the setup of Envoy. Its operator finds details in gate's log."
        return Deny(error.status, f"This request can't be authorized: {error}.", advice, log_detail=error.operator_message)
    advice = "The cause is the setup of the front proxy or an unusual URL. Its operator finds details in gate's log."
    status = 403 if enforcer is Enforcer.FORWARD_AUTH_STATUS_ONLY else error.status
    return Deny(status, f"This request is denied: {error}.", advice, log_detail=error.operator_message)


def _upgrade_offer(incoming: IncomingRequest, route: Route, enforcer: Enforcer) -> Upgrade | None:
    """Return the upgrade that the client offers, or None if gate does not handle one.

    Raises BadRequest if the handshake is invalid or the route does not allow the protocol.
    """
    method, headers, route_origin = (
        incoming.scope["method"],
        incoming.scope["headers"],
        f"{route.from_.scheme}://{incoming.request.host_port}",
    )
    if enforcer is not Enforcer.EMBEDDED:  # the other proxy performs the handshake
        if is_websocket_request(headers):
            if not route.allow_websockets:
                raise NotDelegable(WEBSOCKETS_DISABLED_ERROR)
            require_allowed_origin([value for name, value in headers if name == b"origin"], route_origin, route.websocket_origins)
        if not route.allow_spdy and SpdyOffer.is_requested(headers):
            raise NotDelegable(SPDY_DISABLED_ERROR)
        return None
    if incoming.is_connect or not incoming.is_upgrade:
        return None
    if SpdyOffer.is_requested(headers):
        if not route.allow_spdy:  # because without the upgrade, an API server reports missing upgrade headers
            raise HandshakeRefused(403, SPDY_DISABLED_ERROR)
        return SpdyOffer.from_request(method, headers)
    if not any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        return None
    if not route.allow_websockets:
        raise HandshakeRefused(403, WEBSOCKETS_DISABLED_ERROR)
    return parse_handshake(method, headers, route_origin, route.websocket_origins)


def is_websocket_request(headers: Sequence[Header]) -> bool:
    """Return whether a request opens a WebSocket.

    Front proxies must remove `Upgrade` and `Connection` from their requests to gate.  `Sec-WebSocket-*` headers remain, and every
    browser sends them.
    """
    return any(name.startswith(SEC_WEBSOCKET) or (name == b"upgrade" and b"websocket" in value.lower()) for name, value in headers)
