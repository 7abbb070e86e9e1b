"""Programmatic login on a route host: start of a client application's sign-in, and delivery of its token after consent."""

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_http_methods

from databroker.broker_client import consume_once
from databroker.records import SESSION
from foundation.errors import SealError
from foundation.web.message import Message
from foundation.web.responses import finalize, redirect, render_error
from proxy.service import page_context
from proxy.sign_in.redirect_uris import append_token

log = structlog.get_logger(__name__)

RESTART_ADVICE = Message("Start the sign-in again in the program that led you here.")
INVALID_REDIRECT_URI = Message(
    "This is an invalid redirect URI: gate_redirect_uri must be one http or https URL whose host is in "
    "programmatic_redirect_domain_whitelist; http only to this machine."
)
INVALID_REDIRECT_URI_ADVICE = Message("Ask your administrator to allow the address of this program.")


@require_http_methods(["GET"])
async def login(request: HttpRequest) -> HttpResponse:
    """Return the URL that the client application opens in the user's browser.  This request grants nothing."""
    gate = page_context(request)
    uris = request.GET.getlist("gate_redirect_uri")
    redirect_uri = gate.proxy.redirect_uris.validate(uris[0]) if len(uris) == 1 else None
    if redirect_uri is None:
        return render_error(request, 400, INVALID_REDIRECT_URI, advice=INVALID_REDIRECT_URI_ADVICE)
    route = gate.proxy.tunnel_route(gate.incoming.request.host, request.GET.get("gate_tunnel_port", ""))
    policy_request, providers = gate.incoming.request, gate.proxy.providers_for(gate.incoming.request)
    url = gate.proxy.sign_in_urls.for_client(gate.proxy.origin_for(policy_request), redirect_uri, gate.proxy.clock(), route, providers)
    return finalize(HttpResponse(url, content_type="text/plain; charset=utf-8"))


async def deliver_token(request: HttpRequest, tokens: list[str]) -> HttpResponse:
    """Send a token to the client application.

    No session cookie is set, because this browser may not be the one in which the user consented.
    """
    gate = page_context(request)
    now, host_port = gate.proxy.clock(), gate.incoming.request.host_port
    try:
        if len(tokens) != 1:
            raise SealError("the link carries no sign-in")
        handoff = gate.proxy.programmatic_handoffs.open(tokens[0], host_port, now)
    except SealError:
        return _deny(request, Message("This sign-in link of a program is not valid here, or has expired."))
    # Checked again, because the configuration may have changed since the sign-in started.
    redirect_uri = gate.proxy.redirect_uris.validate(handoff.redirect_uri)
    if redirect_uri is None:
        return _deny(request, Message("The program of this sign-in is no longer allowed."))
    if not await consume_once(gate.broker, f"program/{handoff.id}", handoff.expires_at):
        return _deny(request, Message("This sign-in link of a program was already used."))
    record = await gate.broker.get(SESSION, handoff.session_id)
    session = gate.proxy.session_reader.read_valid(record) if record is not None else None
    if session is None:
        return _deny(request, Message("The session that this sign-in is for has ended."))
    client_token = gate.proxy.programmatic_tokens.seal(session.id, host_port, now, session.expires_at)
    log.info(
        "client token issued",
        session_id=session.id,
        user_id=session.user_id,
        host=host_port,
        client_application=redirect_uri.partition("?")[0],
        request_id=gate.incoming.request_id,
    )
    return redirect(append_token(redirect_uri, client_token))


def _deny(request: HttpRequest, reason: str) -> HttpResponse:
    gate = page_context(request)
    log.info("client token denied", reason=reason, host=gate.incoming.request.host_port, request_id=gate.incoming.request_id)
    return render_error(request, 400, reason, advice=RESTART_ADVICE)
