"""Verdict function: what becomes of a request that was judged."""

from collections.abc import Sequence
from dataclasses import replace

from authorize.authorizer import Authorizer
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Outcome
from config.options import Options
from config.routes.route import Route
from foundation.errors import BadRequest, GateError
from foundation.web.asgi_types import Header
from proxy.incoming_request import IncomingRequest
from proxy.reserved_paths import is_own_page
from proxy.responses.denials import Refusals, not_kept, refusal_of
from proxy.responses.route_redirects import redirect_to
from proxy.rewriting.header_names import fold
from proxy.rewriting.target import without_token
from proxy.sign_in.loops import SignInLoops
from proxy.sign_in.saved_forms import KeptForm, NotKept
from proxy.upgrades import HandshakeRefused, SpdyOffer, Upgrade
from proxy.verdict import Asker, Carry, JudgedRequest, Redirect, Refuse, SignIn, Verdict
from proxy.websocket.handshake import PREFIX, handshake, require_known_origin

NOT_IN_A_VERDICT = "the front proxy must forward /.gate/ to gate instead of checking it with forward auth"
UNKNOWN = "no application is configured at this address"
NO_WEBSOCKETS = "the route of this application does not allow WebSocket connections; its operator can set allow_websockets"
NO_SPDY = "the route of this application does not allow SPDY/3.1; its operator can set allow_spdy"


class CarriedElsewhere(BadRequest):
    """Refusal of what another proxy may not carry."""

    status = 403


# enforcement-point: Authorization: Verdict for a decision
class Verdicts:
    """Verdict function: `of` is the one; all that it knows besides its arguments follows from the configuration."""

    def __init__(self, options: Options, authorize: Authorizer):
        self._shows_credentials = authorize.injects_credentials
        self.loops = SignInLoops(options)
        self._refusals = Refusals(options, authorize, self.loops)
        self._told_names = authorize.routes.identity_header_names

    def of(self, judged: JudgedRequest, asker: Asker = Asker.OURS) -> Verdict:
        incoming, check, compiled = judged.incoming, judged.check, judged.check.decision.route
        try:
            if asker is not Asker.OURS:
                self._require_askable(incoming, compiled, asker)
            if check.decision.outcome in (Outcome.SIGN_IN, Outcome.STEP_UP):
                return self._not_signed_in(judged, asker)
            if compiled is None or not check.decision.is_allowed:
                return self._refusals.of(incoming, check, has_tunnels=asker is Asker.OURS)
            if compiled.route.redirect is not None:
                if asker is Asker.STATUS_ONLY:
                    # Nobody needs to sign in for a redirect, so 200 would let everybody through to whatever the front proxy has there.
                    raise CarriedElsewhere("the route of this address only redirects")
                return Redirect(*redirect_to(compiled.route, incoming.request, compiled.matched_prefix or None))
            offer = _offer(incoming, compiled.route, asker)
        except BadRequest as error:
            return refused(error, asker)
        return Carry(compiled, check.identity_headers, check.withheld_credentials, offer)

    def _not_signed_in(self, judged: JudgedRequest, asker: Asker) -> SignIn | Refuse:
        incoming, check = judged.incoming, judged.check
        if check.challenge:
            return self._refusals.token(incoming, check)
        if not _may_be_redirected(incoming, asker):
            return self._refusals.unauthorized(incoming, check)
        compiled = check.decision.route
        scheme = compiled.route.from_.scheme if compiled else "https"
        # Whom a front proxy asks about begins at the route's own host, where circles are noticed, too.
        if asker is not Asker.FRONT_PROXY and self.loops.is_looping(incoming.cookies, incoming.request.host_port, judged.now):
            return self._refusals.loop(incoming, scheme)
        return SignIn(scheme, compiled.route if compiled else None)

    def _require_askable(self, incoming: IncomingRequest, compiled: CompiledRoute | None, asker: Asker) -> None:
        """What no other proxy may carry, whatever the decision says."""
        request = incoming.request
        if is_own_page(request.path):
            # What the end of a sign-in brings to our own pages is nothing for an application to read.
            raise CarriedElsewhere(NOT_IN_A_VERDICT)
        raw = request.query.encode("latin-1")
        if without_token(raw) != raw:
            # Whoever forwards it forwards its query as it stands, and an application must not learn a token.
            raise CarriedElsewhere("tokens in the query are not supported behind another proxy. Use an Authorization header")
        if compiled is None:
            if asker is not Asker.ENVOY:
                raise CarriedElsewhere(UNKNOWN)
        elif asker is not Asker.ENVOY and self._claims_to_be_told(incoming, compiled.route):
            # Whoever asks us by HTTP forwards the client's headers as they are, and overwrites only those that it was told to copy.
            raise CarriedElsewhere("the request has an identity header, which is reserved for gate")
        elif self._shows_credentials(compiled):
            # Whoever asks reads our answer: what proves us to an upstream can't be in it, and without it the request would be another.
            raise CarriedElsewhere("the upstream of this route needs credentials from gate, so gate must forward the request itself")

    def _claims_to_be_told(self, incoming: IncomingRequest, route: Route) -> bool:
        names = {fold(name) for name in self._told_names.headers_for(route)} - {b"authorization"}  # which the answer says anew
        return bool(names) and any(fold(name) in names for name in incoming.sent_names)


def _may_be_redirected(incoming: IncomingRequest, asker: Asker) -> bool:
    """Whether who is not signed in is redirected to a sign-in page; else the answer is a 401."""
    if asker is Asker.FRONT_PROXY:  # at the form that redirects the front proxy asks where it has decided to do so
        return incoming.may_be_redirected and not asks_for_websocket(incoming.scope["headers"])
    return asker is not Asker.STATUS_ONLY and incoming.is_navigation


def with_form(verdict: SignIn, form: KeptForm | NotKept | None, incoming: IncomingRequest) -> SignIn | Refuse:
    """Verdict on a form that came without a session, by what became of it."""
    return not_kept(incoming, verdict.scheme, form) if isinstance(form, NotKept) else replace(verdict, form=form)


def refused(error: GateError, asker: Asker = Asker.OURS) -> Refuse:
    """Verdict on what went wrong: other proxies are told how that may come."""
    if asker is Asker.OURS or not isinstance(error, BadRequest):
        return refusal_of(error)
    if asker is Asker.ENVOY:
        advice = "The cause is an unusual URL or the setup of Envoy. Its operator finds details in gate's log."
        return Refuse(error.status, f"This request can't be authorized: {error}.", advice, problem=error.operator_message)
    advice = "The cause is the setup of the front proxy or an unusual URL. Its operator finds details in gate's log."
    status = 403 if asker is Asker.STATUS_ONLY else error.status
    return Refuse(status, f"This request is denied: {error}.", advice, problem=error.operator_message)


def _offer(incoming: IncomingRequest, route: Route, asker: Asker) -> Upgrade | None:
    """What the client offers to change to, and we would carry.  BadRequest for what is no offer, or is not for this route."""
    method, headers, own_origin = (
        incoming.scope["method"],
        incoming.scope["headers"],
        f"{route.from_.scheme}://{incoming.request.host_port}",
    )
    if asker is not Asker.OURS:  # who carries it, makes the handshake
        if asks_for_websocket(headers):
            if not route.allow_websockets:
                raise CarriedElsewhere(NO_WEBSOCKETS)
            require_known_origin([value for name, value in headers if name == b"origin"], own_origin, route.websocket_origins)
        if not route.allow_spdy and SpdyOffer.is_in(headers):
            raise CarriedElsewhere(NO_SPDY)
        return None
    if incoming.is_connect or not incoming.is_upgrade:
        return None
    if SpdyOffer.is_in(headers):
        if not route.allow_spdy:  # without the offer, an API server answers that it lacks upgrade headers
            raise HandshakeRefused(403, NO_SPDY)
        return SpdyOffer.of(method, headers)
    if not any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        return None
    if not route.allow_websockets:
        raise HandshakeRefused(403, NO_WEBSOCKETS)
    return handshake(method, headers, own_origin, route.websocket_origins)


def asks_for_websocket(headers: Sequence[Header]) -> bool:
    """Whether a request asks for a websocket.

    Front proxies take `Upgrade` and `Connection` out of what they ask, as they must.  `Sec-WebSocket-*` every browser sends.
    """
    return any(name.startswith(PREFIX) or (name == b"upgrade" and b"websocket" in value.lower()) for name, value in headers)
