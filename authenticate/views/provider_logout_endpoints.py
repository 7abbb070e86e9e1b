"""Logout endpoints: back-channel, called by the provider, and front-channel, loaded by the user's browser."""

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from authenticate.provider.tokens.signed_token import InvalidSignedToken, TokenNotCurrent
from authenticate.service import page_context
from authenticate.views import view_helpers
from foundation.errors import BadRequest, BrokerError, ProviderError
from foundation.web import responses
from foundation.web.message import Message

FORM = "application/x-www-form-urlencoded"

log = structlog.get_logger(__name__)


# The logout token authenticates the request; cookies are ignored.
@csrf_exempt
@require_POST
async def backchannel_logout(request: HttpRequest) -> HttpResponse:
    """Respond as OpenID Connect Back-Channel Logout 1.0, section 2.5: 200, 400 with an OAuth 2.0 error, or 503.

    Any client can call this, so only the log has the state of the provider and the network.
    """
    service = page_context(request).authenticate
    tokens = request.POST.getlist("logout_token") if request.content_type == FORM else []
    if len(tokens) != 1:
        return _invalid_token_response(request, "expected a form with one logout_token")
    try:
        await service.provider_logout.back_channel(tokens[0])
    except (InvalidSignedToken, TokenNotCurrent) as error:
        return _invalid_token_response(request, str(error))
    except (ProviderError, BrokerError) as error:
        return _unavailable_response(request, error)
    return responses.finalize(HttpResponse())


@require_GET
@view_helpers.renders_bad_request
async def frontchannel_logout(request: HttpRequest) -> HttpResponse:
    """Respond to OpenID Connect Front-Channel Logout 1.0: a frame in the provider's page, in the user's browser.

    Browsers send no cookies into such a frame (SameSite), so the request must have the provider's session id.  The response does not
    disclose whether a session existed.  No cookie is cleared, because any page could load this frame.
    """
    service = page_context(request).authenticate
    named = [request.GET.getlist(name) for name in ("iss", "sid")]
    if any(len(values) != 1 for values in named):
        raise BadRequest(Message("expected one issuer (iss) and one session id (sid)"))
    (issuer,), (sid,) = named
    try:
        await service.provider_logout.front_channel(issuer, sid)
        framed_by = await service.provider_logout.origins(issuer)
    except ProviderError as error:
        return view_helpers.provider_error_page(request, error, "/.gate/")
    return responses.render_page(request, "authenticate/signed_out.html", framed_by=framed_by, everywhere=False)


def _invalid_token_response(request: HttpRequest, reason: str) -> HttpResponse:
    log.warning("logout token rejected", reason=reason, request_id=page_context(request).request_id)
    return responses.json_response({"error": "invalid_request", "error_description": reason}, status=400)


def _unavailable_response(request: HttpRequest, error: ProviderError | BrokerError) -> HttpResponse:
    log.error("logout token verification failed", reason=str(error), request_id=page_context(request).request_id)
    body = {"error": "temporarily_unavailable", "error_description": "the logout token can't be verified now"}
    response = responses.json_response({**body}, status=503)
    response.headers["Retry-After"] = "30"
    return response
