"""Sign-in views on the hosts of routes: the sign-in callback, and redirects to pages of the authenticate host."""

from dataclasses import replace
from urllib.parse import urlencode, urlsplit

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Outcome
from authorize.policy.policy_request import PolicyRequest
from databroker.broker_client import consume_once
from databroker.records import SESSION
from foundation.crypto.handoff import HANDOFF_PARAM, Handoff
from foundation.errors import BadRequest, SealError
from foundation.web.message import Message
from foundation.web.responses import redirect, render_error
from proxy.planes.original_request import parse_original_url
from proxy.responses.denials import SIGN_IN_LOOP, SIGN_IN_LOOP_ADVICE
from proxy.service import page_context
from proxy.views.programmatic_login import deliver_token

log = structlog.get_logger(__name__)

FORWARD_AUTH_LOOP_ADVICE = Message(
    "%(advice)s Another cause is a front proxy that does not pass the Cookie header to gate.", advice=SIGN_IN_LOOP_ADVICE
)
RESTART_ADVICE = Message("Open the application again to sign in.")


@require_http_methods(["GET"])
async def callback(request: HttpRequest) -> HttpResponse:
    """Complete a sign-in: exchange the handoff token of the authenticate service for this host's session cookie.

    Denied unless the token is valid for this host, the browser started the sign-in, and the token is unused.
    """
    gate = page_context(request)
    tokens = request.GET.getlist(HANDOFF_PARAM)
    if request.GET.get("gate_programmatic") == "true":
        return await deliver_token(request, tokens)
    try:
        if len(tokens) != 1:
            raise SealError("the link carries no sign-in")
        handoff = gate.proxy.handoffs.open(tokens[0], gate.incoming.request.host_port, gate.proxy.clock())
    except SealError:
        return await _resume_or_deny(request, "/", Message("This sign-in link is not valid here, or has expired."))
    if _origin(handoff.redirect_uri) != gate.proxy.origin_for(gate.incoming.request):
        return render_error(request, 400, Message("This sign-in link leads to another site."), advice=RESTART_ADVICE)
    return await _establish_session(request, handoff)


async def _establish_session(request: HttpRequest, handoff: Handoff) -> HttpResponse:
    gate = page_context(request)
    now, host_port = gate.proxy.clock(), gate.incoming.request.host_port
    attempt = gate.proxy.sign_in_attempts.find(handoff.attempt_id, gate.incoming.cookie_headers, host_port, now)
    if attempt is None:
        return await _resume_or_deny(
            request,
            handoff.redirect_uri,
            Message("This sign-in was started in another browser or has expired, or your browser does not keep cookies of this site."),
        )
    if not await consume_once(gate.broker, f"hand-over/{handoff.id}", handoff.expires_at):
        return await _resume_or_deny(request, handoff.redirect_uri, Message("This sign-in link was already used."))
    record = await gate.broker.get(SESSION, handoff.session_id)
    session = gate.proxy.session_reader.read_valid(record) if record is not None else None
    if session is None:
        return await _resume_or_deny(request, handoff.redirect_uri, Message("This session has ended."))
    cookies = gate.proxy.session_cookies
    log.info("session established", session_id=session.id, user_id=session.user_id, host=host_port, request_id=gate.incoming.request_id)
    set_cookies = [
        *cookies.clear_conflicting(gate.incoming.cookie_headers, host_port, gate.incoming.request.path),
        *cookies.set_cookies(session.id, host_port, issued_at=now, expires_at=session.expires_at, now=now),
        gate.proxy.sign_in_attempts.clear_cookie(handoff.attempt_id),
        gate.proxy.sign_in_loops.completion_cookie(gate.incoming.cookie_headers, host_port, now),
    ]
    return redirect(handoff.redirect_uri, set_cookies)


async def _resume_or_deny(request: HttpRequest, target: str, reason: str) -> HttpResponse:
    """Redirect a browser that already has a session (back button, second tab, old bookmark); deny any other."""
    gate = page_context(request)
    if target != "/" and _origin(target) != gate.proxy.origin_for(gate.incoming.request):
        target = "/"
    if await gate.authorize.identify(gate.incoming.cookie_headers, gate.incoming.request.host_port) is not None:
        return redirect(target)
    log.info("session handoff rejected", reason=reason, host=gate.incoming.request.host_port, request_id=gate.incoming.request_id)
    return render_error(request, 400, reason, advice=RESTART_ADVICE, links=((Message("Open the application"), target),))


@require_http_methods(["GET"])
async def sign_in(request: HttpRequest) -> HttpResponse:
    """Start a sign-in for forward auth.  A cookie of this host binds it to the browser."""
    gate = page_context(request)
    incoming, proxy = gate.incoming, gate.proxy
    if gate.options.forward_auth_url is None:
        return await unknown(request)
    try:
        target = parse_original_url(request.GET.get("gate_redirect_uri", ""), gate.authorize.default_ports)
        policy_request = replace(target.request, source_ip=incoming.request.source_ip, headers=incoming.request.headers)
        route = gate.authorize.routes.match(policy_request)
    except BadRequest as error:
        return render_error(
            request, 400, Message("This sign-in link can't be used: %(error)s.", error=error.message), advice=RESTART_ADVICE
        )
    if target.origin != proxy.origin_for(incoming.request):
        return render_error(request, 400, Message("This sign-in link leads to another site."), advice=RESTART_ADVICE)
    now, host_port = proxy.clock(), incoming.request.host_port
    if proxy.sign_in_loops.is_looping(incoming.cookie_headers, host_port, now):
        links = ((Message("Try again"), target.url),)
        return render_error(
            request, 400, SIGN_IN_LOOP, advice=FORWARD_AUTH_LOOP_ADVICE, links=links, set_cookies=[proxy.sign_in_loops.clear_cookie()]
        )
    if await _is_signed_in(request, policy_request, route):
        # Signed in from another tab; or the front proxy does not send the cookie to gate, which causes a loop.
        return redirect(target.url, [proxy.sign_in_loops.completion_cookie(incoming.cookie_headers, host_port, now)])
    location, set_cookies = proxy.sign_in_urls.start(
        replace(incoming, request=policy_request), target.scheme, now, route.route if route else None
    )
    return redirect(location, set_cookies)


async def _is_signed_in(request: HttpRequest, policy_request: PolicyRequest, route: CompiledRoute | None) -> bool:
    """Return whether the browser is signed in, as strongly as the route requires."""
    gate = page_context(request)
    if route is None or not route.authentication_requirements:
        return await gate.authorize.identify(gate.incoming.cookie_headers, gate.incoming.request.host_port) is not None
    authorization = await gate.authorize.check(policy_request, gate.incoming.cookie_headers)
    return authorization.identity is not None and authorization.decision.outcome is not Outcome.STEP_UP


async def portal(request: HttpRequest) -> HttpResponse:
    return redirect(f"{page_context(request).options.authenticate_service_url.origin}/.gate/")


async def sign_out(request: HttpRequest) -> HttpResponse:
    """Redirect to the sign-out page of the authenticate host, which contains the required CSRF token."""
    gate = page_context(request)
    redirect_uri = request.GET.get("gate_redirect_uri", "")
    query = f"?{urlencode({'gate_redirect_uri': redirect_uri})}" if redirect_uri else ""
    return redirect(f"{gate.options.authenticate_service_url.origin}/.gate/signout/{query}")


@require_http_methods(["GET"])
async def jwt(request: HttpRequest) -> HttpResponse:
    """Return the attestation JWT that upstreams of this host receive for the signed-in user."""
    gate = page_context(request)
    attestation = await gate.authorize.attest(gate.incoming.request, gate.incoming.cookie_headers)
    if attestation.identity is None:
        return render_error(request, 401, Message("You are not signed in."), links=((Message("Sign in"), "/"),))
    if not attestation.assertion:
        # Because an upstream that trusts the assertion may be reachable without gate.
        return render_error(
            request, 403, Message("You don't have access to any application on this host."), links=((Message("Open the application"), "/"),)
        )
    return HttpResponse(
        attestation.assertion, content_type="application/jwt", headers={"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    )


async def unknown(request: HttpRequest) -> HttpResponse:
    return render_error(request, 404, Message("This page does not exist."), links=((Message("Open the application"), "/"),))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
