"""Programmatic login at a route host: where a program begins, and where the token that its person agreed to leads back to it."""

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

RESTART_HINT = Message("Start the sign-in again in the program that led you here.")
INVALID_REDIRECT_URI = Message(
    "This is an invalid redirect URI: gate_redirect_uri must be one http or https URL whose host is in "
    "programmatic_redirect_domain_whitelist; http only to this machine."
)
INVALID_REDIRECT_URI_HINT = Message("Ask your administrator to allow the address of this program.")


@require_http_methods(["GET"])
async def login(request: HttpRequest) -> HttpResponse:
    """View at the URL that the program opens in its person's browser.  Nothing is given to anybody here."""
    own = page_context(request)
    given = request.GET.getlist("gate_redirect_uri")
    redirect_uri = own.proxy.redirect_uris.validate(given[0]) if len(given) == 1 else None
    if redirect_uri is None:
        return render_error(request, 400, INVALID_REDIRECT_URI, advice=INVALID_REDIRECT_URI_HINT)
    route = own.proxy.tunnel_route(own.incoming.request.host, request.GET.get("gate_tunnel_port", ""))
    asked, providers = own.incoming.request, own.proxy.providers_for(own.incoming.request)
    url = own.proxy.sign_in_urls.for_client(own.proxy.origin_for(asked), redirect_uri, own.proxy.clock(), route, providers)
    return finalize(HttpResponse(url, content_type="text/plain; charset=utf-8"))


async def deliver_token(request: HttpRequest, hand_overs: list[str]) -> HttpResponse:
    """Hand-over of a token to the program.  No cookie is set: this browser may be another's than who agreed, and must not become theirs."""
    own = page_context(request)
    now, host_port = own.proxy.clock(), own.incoming.request.host_port
    try:
        if len(hand_overs) != 1:
            raise SealError("the link carries no sign-in")
        hand_over = own.proxy.programmatic_handoffs.open(hand_overs[0], host_port, now)
    except SealError:
        return _deny(request, Message("This sign-in link of a program is not valid here, or has expired."))
    # Judged anew: whom the configuration trusted when the program began, it may not trust any more.
    redirect_uri = own.proxy.redirect_uris.validate(hand_over.redirect_uri)
    if redirect_uri is None:
        return _deny(request, Message("The program of this sign-in is no longer allowed."))
    if not await consume_once(own.broker, f"program/{hand_over.id}", hand_over.expires_at):
        return _deny(request, Message("This sign-in link of a program was already used."))
    record = await own.broker.get(SESSION, hand_over.session_id)
    session = own.proxy.sessions.read(record) if record is not None else None
    if session is None:
        return _deny(request, Message("The session that this sign-in is for has ended."))
    token = own.proxy.programmatic_tokens.seal(session.id, host_port, now, session.expires_at)
    log.info(
        "client token issued",
        session_id=session.id,
        user_id=session.user_id,
        host=host_port,
        program=redirect_uri.partition("?")[0],
        request_id=own.incoming.request_id,
    )
    return redirect(append_token(redirect_uri, token))


def _deny(request: HttpRequest, reason: str) -> HttpResponse:
    own = page_context(request)
    log.info("client token denied", reason=reason, host=own.incoming.request.host_port, request_id=own.incoming.request_id)
    return render_error(request, 400, reason, advice=RESTART_HINT)
