"""Refusals: what a client is told that does not get through, and what it may do.  Values only, by what was decided and what went wrong."""

from urllib.parse import urlencode

from authorize.approval_policy import may_request
from authorize.authorizer import AuthorizationResult, Authorizer, WithheldCredentials
from authorize.identity import request_credentials
from authorize.policy.decision import Decision, Outcome
from authorize.policy.decision_text import is_denied, user_message
from authorize.policy.identity import Identity
from authorize.route_settings import RouteLinks
from config.options import Options
from foundation import auth_challenges
from foundation.errors import (
    AccessRevoked,
    BadRequest,
    BrokerError,
    FileDescriptorsExhausted,
    GateError,
    NoIdentity,
    UpstreamCredentialsUnavailable,
    UpstreamTimeout,
)
from foundation.web.asgi_types import Headers
from foundation.web.message import Message, Sentence
from proxy.incoming_request import IncomingRequest
from proxy.sign_in.loops import SignInLoops
from proxy.sign_in.saved_forms import FormGone, NotKept
from proxy.sign_in.sign_in_urls import return_url, step_up_challenge
from proxy.upgrades import HandshakeRefused
from proxy.verdict import Refuse

NOT_GOOD = Message("The token in the Authorization header is not valid for this application.")
NOT_GOOD_ADVICE = Message("It may have expired, been rotated or revoked, or belong to another application.")
SIGN_IN_ADVICE = Message("Sign in, then try again.")
TUNNEL_ADVICE = "Send `Authorization: Gate <token>`; `gate tunnel {}` signs you in with a browser and does that."
FORBIDDEN_ADVICE = Message("If you need access, contact your administrator.")
CERTIFICATE_ADVICE = Message("Choose the certificate that you were given for this application, or ask your administrator for one.")
# Below /.gate/ of the authenticate host (authorize/admin_pages.py).
EXPLANATION = "admin/authorize/loggeddecision/explain/?request="
ASKING = "access?route="

NOT_KEPT = Message("Your session has ended, so the application did not receive your form. gate could not keep it, because %(reason)s.")
NOT_KEPT_ADVICE = Message("Before you sign in, go back and copy what you wrote.")

LOOP = Message("Sign-in keeps failing: your browser does not keep the session cookie.")
LOOP_ADVICE = Message(
    "Your browser may block or delete cookies of this site, for example in a private window or because of an extension. "
    "If the problem continues, contact your administrator and include the request id below."
)
AGAIN = Message("Try again in a moment.")
NOT_SIGNED_IN = Message("You are not signed in.")
GONE_ADVICE = Message("Check whether it has arrived before you write it again.")
ACT_ADVICE = Message("Sign in on another page of the application.")
TUNNELS_ADVICE = "Close some, or use one for several things."


class Refusals:
    def __init__(self, options: Options, authorize: Authorizer, loops: SignInLoops):
        own = f"{options.authenticate_service_url.origin}/.gate/"
        self._who_am_i = (Message("View my account"), own)
        self._sign_out = f"{own}signout/"
        self._clear_loop = loops.clear()
        self._authorize = authorize
        self._explanation = f"{own}{EXPLANATION}"
        self._asking = f"{own}{ASKING}"
        self._links = RouteLinks(options)

    def of(self, incoming: IncomingRequest, check: AuthorizationResult, *, has_tunnels: bool) -> Refuse:
        """Refusal of what another sign-in does not help against.  `has_tunnels`: whoever asks may open one here."""
        decision, cors = check.decision, self._cors(incoming, check.decision)
        match decision.outcome:
            case Outcome.FORBIDDEN:
                own_words = decision.route.route.refusal_message if decision.route is not None else None
                advice = _advice(check.identity, own_words or FORBIDDEN_ADVICE)
                challenge = auth_challenges.INSUFFICIENT_SCOPE if check.withheld_credentials is WithheldCredentials.AUTHORIZATION else ""
                return Refuse(403, user_message(decision), advice, challenge, links=self._links_for(incoming, check), more=cors)
            case Outcome.CERTIFICATE:
                # Only a new connection can show another certificate.
                more = [(b"connection", b"close"), *cors]
                return Refuse(495, user_message(decision), CERTIFICATE_ADVICE, more=more)
            case _:
                is_tunnels = has_tunnels and not incoming.is_connect and self._authorize.routes.has_tunnels_at(incoming.request.host)
                return for_tunnels_only(incoming) if is_tunnels else UNKNOWN_ADDRESS

    def token(self, incoming: IncomingRequest, check: AuthorizationResult) -> Refuse:
        return Refuse(401, NOT_GOOD, NOT_GOOD_ADVICE, check.challenge, more=self._cors(incoming, check.decision))

    def unauthorized(self, incoming: IncomingRequest, check: AuthorizationResult) -> Refuse:
        """401 for who can't be led to a sign-in: programs, and proxies that ask."""
        decision = check.decision
        reason, challenge = NOT_SIGNED_IN, auth_challenges.UNAUTHENTICATED
        if decision.outcome is Outcome.STEP_UP and decision.route is not None:
            reason = user_message(decision)
            challenge = step_up_challenge(decision.route.route, decision.trace[-1].reason.value)
        elif incoming.is_connect:
            # What the program does next stands in docs/guides/tcp.md.
            error = "invalid_token" if request_credentials.has_gate_token(incoming.request) else ""
            challenge = auth_challenges.challenge("Gate", realm=incoming.request.host_port, error=error)
        elif request_credentials.has_gate_token(incoming.request):
            challenge = auth_challenges.INVALID_TOKEN
        advice = TUNNEL_ADVICE.format(incoming.request.host_port) if incoming.is_connect else SIGN_IN_ADVICE
        return Refuse(401, reason, advice, challenge, more=self._cors(incoming, decision))

    def loop(self, incoming: IncomingRequest, scheme: str) -> Refuse:
        links = ((Message("Try again"), return_url(incoming, scheme)), self._who_am_i)
        return Refuse(400, LOOP, LOOP_ADVICE, links=links, more=[(b"set-cookie", self._clear_loop.encode())])

    def _links_for(self, incoming: IncomingRequest, check: AuthorizationResult) -> tuple[tuple[str, str], ...]:
        """Nobody else can open the explanation, so nobody else is led to it."""
        identity = check.identity
        links = (*self._asking_for_access(check), self._who_am_i, self._as_somebody_else(incoming, check))
        if identity is None or not self._authorize.may_administer(identity):
            return links
        return ((Message("Full explanation (administrators)"), f"{self._explanation}{incoming.request_id}"), *links)

    def _as_somebody_else(self, incoming: IncomingRequest, check: AuthorizationResult) -> tuple[str, str]:
        """By way of the page that asks whether to sign out; whoever signs in then is where they wanted to go."""
        route = check.decision.route
        target = return_url(incoming, route.route.from_.scheme if route is not None else "https")
        return (Message("Sign in as another user"), f"{self._sign_out}?{urlencode({'gate_redirect_uri': target})}")

    def _asking_for_access(self, check: AuthorizationResult) -> tuple[tuple[str, str], ...]:
        """Of people who sign in here, where being given access would help: above a deny it is not."""
        route, identity = check.decision.route, check.identity
        if route is None or identity is None or is_denied(check.decision) or not may_request(route.route, identity):
            return ()
        return ((Message("Request access"), f"{self._asking}{self._links.link_id(route.route)}"),)

    def _cors(self, incoming: IncomingRequest, decision: Decision) -> Headers:
        """A script may read why it was refused where the route lets its origin in, or where that origin is a route of ours."""
        origin = incoming.header(b"origin")
        if not origin or incoming.is_navigation:
            return []
        route_allows = decision.route is not None and decision.route.route.cors_allow_preflight
        if not (route_allows or self._authorize.is_route_origin(origin)):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-expose-headers", b"WWW-Authenticate, Retry-After"),
            (b"vary", b"Origin"),
        ]


# For a host, or a path of it, that no route has.
UNKNOWN_ADDRESS = Refuse(404, Message("No application is configured at this address."), Message("Check the address for a typo."))


def for_tunnels_only(incoming: IncomingRequest) -> Refuse:
    advice = Message("Connect with `gate tunnel %(host)s:PORT`.", host=incoming.request.host)
    return Refuse(404, Message("This address serves TCP, not web pages."), advice)


def not_kept(incoming: IncomingRequest, scheme: str, form: NotKept) -> Refuse:
    return Refuse(401, NOT_KEPT.filled(reason=form.reason), NOT_KEPT_ADVICE, links=((Message("Sign in"), return_url(incoming, scheme)),))


def _advice(identity: Identity | None, advice: str) -> str:
    if identity is None:
        return advice
    return Message("You are signed in as %(person)s. %(advice)s", person=identity.display_name, advice=advice)


class TooManyTunnels(BadRequest):
    status = 429


# The first that an error is one of says what a person is told, who may pass; the cause itself is for the log.
# What only programs come upon is English.
_TROUBLES: tuple[tuple[type[GateError], Message, str], ...] = (
    (HandshakeRefused, Message("This upgrade is refused: %(error)s."), ""),
    (TooManyTunnels, Message("Too many tunnels are open: %(error)s."), TUNNELS_ADVICE),
    (FormGone, Sentence("%(error)s."), GONE_ADVICE),
    (BadRequest, Message("This request can't be processed: %(error)s."), ""),
    (AccessRevoked, Message("Your access ended during this request."), SIGN_IN_ADVICE),
    (BrokerError, Message("Your session can't be read right now."), AGAIN),
    (NoIdentity, Message("The application behind this address needs your identity: %(error)s."), ACT_ADVICE),
    (UpstreamCredentialsUnavailable, Message("gate could not authenticate to the application behind this address."), AGAIN),
    (FileDescriptorsExhausted, Message("The service is overloaded."), AGAIN),
    (UpstreamTimeout, Message("The application behind this address did not answer in time."), AGAIN),
    (GateError, Message("The application behind this address can't be reached."), AGAIN),
)


def refusal_of(error: GateError) -> Refuse:
    reason, advice = next((reason, advice) for kind, reason, advice in _TROUBLES if isinstance(error, kind))
    wait = error.retry_after if isinstance(error, BrokerError) else None
    more = list(error.headers) if isinstance(error, HandshakeRefused) else []
    return Refuse(error.status, reason.filled(error=error.message), advice, retry_after=wait, more=more, problem=error.operator_message)
