"""Denials for decisions and errors: status, text and links for the client.  They are plain values, which the renderer sends."""

from dataclasses import replace
from urllib.parse import urlencode

from authorize.approval_policy import may_request
from authorize.authorizer import AuthorizationResult, Authorizer
from authorize.identity import request_credentials
from authorize.policy.decision import Decision, Outcome
from authorize.policy.decision_text import is_denied, mcp_refusal_message, user_message
from authorize.policy.identity import Identity
from authorize.protected_resources import mcp_server_for
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
from proxy.mcp.mcp_cors import AGENT_CORS, has_cors_headers
from proxy.mcp.mcp_errors import McpRejected
from proxy.responses.resource_challenges import denied_token_challenge, resource_challenge
from proxy.sign_in.loops import SignInLoops
from proxy.sign_in.saved_forms import FormGone, NotSaved
from proxy.sign_in.sign_in_urls import requested_url, step_up_challenge
from proxy.upgrades import HandshakeRefused
from proxy.verdict import Deny, McpErrorDetails

INVALID_TOKEN = Message("The token in the Authorization header is not valid for this application.")
INVALID_TOKEN_ADVICE = Message("It may have expired, been rotated or revoked, or belong to another application.")
SIGN_IN_ADVICE = Message("Sign in, then try again.")
TUNNEL_ADVICE = "Send `Authorization: Bearer <token>`; `gate tunnel {}` signs you in and does that."
FORBIDDEN_ADVICE = Message("If you need access, contact your administrator.")
CERTIFICATE_ADVICE = Message("Choose the certificate that you were given for this application, or ask your administrator for one.")
# Below /.gate/ of the authenticate host.
EXPLANATION_PATH = "admin/authorize/loggeddecision/explain/?request="
ACCESS_REQUEST_PATH = "access?route="
CONNECTIONS_PATH = "sessions#servers"

FORM_NOT_SAVED = Message(
    "Your session has ended, so the application did not receive your form. gate could not keep it, because %(reason)s."
)
FORM_NOT_SAVED_ADVICE = Message("Before you sign in, go back and copy what you wrote.")

SIGN_IN_LOOP = Message("Sign-in keeps failing: your browser does not keep the session cookie.")
SIGN_IN_LOOP_ADVICE = Message(
    "Your browser may block or delete cookies of this site, for example in a private window or because of an extension. "
    "If the problem continues, contact your administrator and include the request id below."
)
RETRY_LATER = Message("Try again in a moment.")
NOT_SIGNED_IN = Message("You are not signed in.")
FORM_GONE_ADVICE = Message("Check whether it has arrived before you write it again.")
IMPERSONATION_ADVICE = Message("Sign in on another page of the application.")
NOT_CONNECTED = Message("Your account at %(server)s is not connected.")
CONNECT_ADVICE = Message("Connect it on the page My sessions, then try again.")
TOO_MANY_TUNNELS_ADVICE = "Close some, or use one for several things."


class Denials:
    def __init__(self, options: Options, authorize: Authorizer, loops: SignInLoops):
        pages_url = f"{options.authenticate_service_url.origin}/.gate/"
        self._account_link = (Message("View my account"), pages_url)
        self._sign_out_url = f"{pages_url}signout/"
        self._clear_loop = loops.clear_cookie()
        self._authorize = authorize
        self._explanation_url = f"{pages_url}{EXPLANATION_PATH}"
        self._access_request_url = f"{pages_url}{ACCESS_REQUEST_PATH}"
        self._connections_url = f"{pages_url}{CONNECTIONS_PATH}"
        self._links = RouteLinks(options)

    def for_decision(self, incoming: IncomingRequest, authorization: AuthorizationResult, *, has_tunnels: bool) -> Deny:
        """Return the denial of a decision that another sign-in would not change.

        `has_tunnels`: clients can open TCP tunnels on this plane.
        """
        decision, cors = authorization.decision, self._cors(incoming, authorization.decision)
        match decision.outcome:
            case Outcome.FORBIDDEN:
                route_message = decision.compiled_route.route.refusal_message if decision.compiled_route is not None else None
                advice = _advice_for(authorization.identity, route_message or FORBIDDEN_ADVICE)
                challenge = denied_token_challenge(authorization, incoming.request.host_port)
                refusal = Deny(
                    403, user_message(decision), advice, challenge, links=self._page_links(incoming, authorization), extra_headers=cors
                )
                return self._mcp_refusal(incoming, authorization, refusal) if incoming.is_mcp and not incoming.is_navigation else refusal
            case Outcome.CERTIFICATE:
                # Because a client can present another certificate only on a new connection.
                headers = [(b"connection", b"close"), *cors]
                return Deny(495, user_message(decision), CERTIFICATE_ADVICE, extra_headers=headers)
            case _:
                is_tunnels = has_tunnels and not incoming.is_connect and self._authorize.routes.has_tunnels_for(incoming.request.host)
                return tcp_only(incoming) if is_tunnels else UNKNOWN_ADDRESS

    def _mcp_refusal(self, incoming: IncomingRequest, authorization: AuthorizationResult, refusal: Deny) -> Deny:
        """Refusal for the client of an MCP server, which names the tool, the rule, and where to request access."""
        trace, access = authorization.decision.trace, self._access_request_link(authorization)
        details = McpErrorDetails(rule=trace[-1].rule if trace else "", access_request_url=access[0][1] if access else "")
        return replace(refusal, reason=mcp_refusal_message(authorization.decision, incoming.request.mcp), rpc_error=details)

    def invalid_token(self, incoming: IncomingRequest, authorization: AuthorizationResult) -> Deny:
        challenge = (
            resource_challenge(authorization.decision.compiled_route, incoming.request.host_port, error="invalid_token")
            or authorization.challenge
        )
        return Deny(401, INVALID_TOKEN, INVALID_TOKEN_ADVICE, challenge, extra_headers=self._cors(incoming, authorization.decision))

    def unauthorized(self, incoming: IncomingRequest, authorization: AuthorizationResult) -> Deny:
        """Return the 401 for a client that can't be redirected to sign-in: a script, a client application or another proxy."""
        decision = authorization.decision
        reason, challenge = NOT_SIGNED_IN, auth_challenges.UNAUTHENTICATED
        if decision.outcome is Outcome.STEP_UP and decision.compiled_route is not None:
            reason = user_message(decision)
            challenge = step_up_challenge(decision.compiled_route.route, decision.trace[-1].reason.value)
        elif incoming.is_connect:
            # docs/guides/tcp.md describes the client's next step.
            error = "invalid_token" if request_credentials.has_gate_token(incoming.request) else ""
            challenge = auth_challenges.challenge("Gate", realm=incoming.request.host_port, error=error)
        else:
            is_invalid = request_credentials.has_gate_token(incoming.request)
            challenge = auth_challenges.INVALID_TOKEN if is_invalid else challenge
            error = "invalid_token" if is_invalid else ""
            challenge = resource_challenge(decision.compiled_route, incoming.request.host_port, error=error) or challenge
        advice = TUNNEL_ADVICE.format(incoming.request.host_port) if incoming.is_connect else SIGN_IN_ADVICE
        return Deny(401, reason, advice, challenge, extra_headers=self._cors(incoming, decision))

    def connection_required(self, incoming: IncomingRequest, check: AuthorizationResult) -> Deny:
        """Return the 401 for a user who has no account connected at the third-party server.

        The challenge makes an OAuth client authorize again, which leads its user to connect.
        """
        route = check.decision.compiled_route
        resource = mcp_server_for(route.route, incoming.request.host_port) if route is not None else None
        reason = NOT_CONNECTED.with_params(server=resource.name if resource is not None else incoming.request.host)
        challenge = resource_challenge(route, incoming.request.host_port, error="invalid_token")
        details, links = McpErrorDetails(connect_url=self._connections_url), ((Message("Connect"), self._connections_url),)
        cors = self._cors(incoming, check.decision)
        return Deny(401, reason, CONNECT_ADVICE, challenge, links=links, extra_headers=cors, rpc_error=details)

    def sign_in_loop(self, incoming: IncomingRequest, scheme: str) -> Deny:
        links = ((Message("Try again"), requested_url(incoming, scheme)), self._account_link)
        return Deny(400, SIGN_IN_LOOP, SIGN_IN_LOOP_ADVICE, links=links, extra_headers=[(b"set-cookie", self._clear_loop.encode())])

    def _page_links(self, incoming: IncomingRequest, authorization: AuthorizationResult) -> tuple[tuple[str, str], ...]:
        """Return the links of a 403.  Only administrators get the link to the explanation, because others can't open it."""
        identity = authorization.identity
        links = (*self._access_request_link(authorization), self._account_link, self._switch_account_link(incoming, authorization))
        if identity is None or not self._authorize.may_administer(identity):
            return links
        return ((Message("Full explanation (administrators)"), f"{self._explanation_url}{incoming.request_id}"), *links)

    def _switch_account_link(self, incoming: IncomingRequest, authorization: AuthorizationResult) -> tuple[str, str]:
        """Return the link to the confirmation of sign-out.  The next sign-in leads back to the requested URL."""
        route = authorization.decision.compiled_route
        target = requested_url(incoming, route.route.from_.scheme if route is not None else "https")
        return (Message("Sign in as another user"), f"{self._sign_out_url}?{urlencode({'gate_redirect_uri': target})}")

    def _access_request_link(self, authorization: AuthorizationResult) -> tuple[tuple[str, str], ...]:
        """Return the link to request access, for signed-in users if access could be granted: a deny rule prevents it.

        Access to a tool is requested for a call that it would allow, whatever denies the call now.
        """
        route, identity, tool = authorization.decision.compiled_route, authorization.identity, authorization.requestable_tool
        if route is None or identity is None or not may_request(route.route, identity):
            return ()
        url = f"{self._access_request_url}{self._links.link_id(route.route)}"
        if tool:
            return ((Message("Request access"), f"{url}&{urlencode({'tool': tool})}"),)
        settings = route.route.access_requests
        if is_denied(authorization.decision) or settings is None or not settings.accepts(""):
            return ()
        return ((Message("Request access"), url),)

    def _cors(self, incoming: IncomingRequest, decision: Decision) -> Headers:
        """Return CORS headers that let a script read the denial, if the route allows CORS or the script's origin is a route."""
        origin = incoming.header(b"origin")
        if not origin or incoming.is_navigation:
            return []
        route_allows = decision.compiled_route is not None and decision.compiled_route.route.cors_allow_preflight
        if decision.compiled_route is not None and decision.compiled_route.route.mcp is not None and not route_allows:
            # A client in a browser must learn where to get a token.  Without credentials, any origin may read that.
            return list(AGENT_CORS)
        if not (route_allows or self._authorize.is_route_origin(origin)):
            return []
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-allow-credentials", b"true"),
            (b"access-control-expose-headers", b"WWW-Authenticate, Retry-After"),
            (b"vary", b"Origin"),
        ]


# For a host or path without a route.
UNKNOWN_ADDRESS = Deny(404, Message("No application is configured at this address."), Message("Check the address for a typo."))


def tcp_only(incoming: IncomingRequest) -> Deny:
    advice = Message("Connect with `gate tunnel %(host)s:PORT`.", host=incoming.request.host)
    return Deny(404, Message("This address serves TCP, not web pages."), advice)


def form_not_saved(incoming: IncomingRequest, scheme: str, form: NotSaved) -> Deny:
    return Deny(
        401,
        FORM_NOT_SAVED.with_params(reason=form.reason),
        FORM_NOT_SAVED_ADVICE,
        links=((Message("Sign in"), requested_url(incoming, scheme)),),
    )


def _advice_for(identity: Identity | None, advice: str) -> str:
    if identity is None:
        return advice
    return Message("You are signed in as %(user)s. %(advice)s", user=identity.display_name, advice=advice)


def with_agent_cors(denial: Deny, incoming: IncomingRequest) -> Deny:
    """Return the denial of a request to an MCP endpoint with headers that let the page of a client read it."""
    if not incoming.is_mcp or not incoming.header(b"origin") or incoming.is_navigation or has_cors_headers(denial.extra_headers):
        return denial
    return replace(denial, extra_headers=[*denial.extra_headers, *AGENT_CORS])


class TooManyTunnels(BadRequest):
    status = 429


# The first class that matches gives the text for the client.  The cause (`operator_message`) goes to the log only.
# Texts that only client applications receive are not translated.
_ERROR_MESSAGES: tuple[tuple[type[GateError], Message, str], ...] = (
    (HandshakeRefused, Message("This upgrade is refused: %(error)s."), ""),
    (TooManyTunnels, Message("Too many tunnels are open: %(error)s."), TOO_MANY_TUNNELS_ADVICE),
    (FormGone, Sentence("%(error)s."), FORM_GONE_ADVICE),
    (BadRequest, Message("This request can't be processed: %(error)s."), ""),
    (AccessRevoked, Message("Your access ended during this request."), SIGN_IN_ADVICE),
    (BrokerError, Message("Your session can't be read right now."), RETRY_LATER),
    (NoIdentity, Message("The application behind this address needs your identity: %(error)s."), IMPERSONATION_ADVICE),
    (UpstreamCredentialsUnavailable, Message("gate could not authenticate to the application behind this address."), RETRY_LATER),
    (FileDescriptorsExhausted, Message("The service is overloaded."), RETRY_LATER),
    (UpstreamTimeout, Message("The application behind this address did not answer in time."), RETRY_LATER),
    (GateError, Message("The application behind this address can't be reached."), RETRY_LATER),
)


def denial_from_error(error: GateError) -> Deny:
    reason, advice = next((reason, advice) for kind, reason, advice in _ERROR_MESSAGES if isinstance(error, kind))
    retry_after = error.retry_after if isinstance(error, BrokerError) else None
    headers = list(error.headers) if isinstance(error, HandshakeRefused) else []
    return Deny(
        error.status,
        reason.with_params(error=error.message),
        advice,
        retry_after=retry_after,
        extra_headers=headers,
        log_detail=error.operator_message,
        rpc_error=McpErrorDetails(error.code) if isinstance(error, McpRejected) else McpErrorDetails(),
    )
