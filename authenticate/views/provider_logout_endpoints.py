"""Logout endpoints for the provider: back-channel, by the provider itself, and front-channel, by the person's browser."""

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from authenticate.provider.signed_token import WrongTime, WrongToken
from authenticate.service import page_context
from authenticate.views import view_helpers
from foundation.errors import BadRequest, BrokerError, ProviderError
from foundation.web import responses
from foundation.web.message import Message

FORM = "application/x-www-form-urlencoded"

log = structlog.get_logger(__name__)


# The logout token is the proof: no cookie is asked for, and none is looked at.
@csrf_exempt
@require_POST
async def backchannel_logout(request: HttpRequest) -> HttpResponse:
    """OpenID Connect Back-Channel Logout 1.0, section 2.5: 200, or 400 with what is wrong as OAuth 2.0 says it; else 503.

    Anybody can send one: of the state of the provider and of our network only the log tells.
    """
    service = page_context(request).authenticate
    tokens = request.POST.getlist("logout_token") if request.content_type == FORM else []
    if len(tokens) != 1:
        return _refused(request, "expected a form with one logout_token")
    try:
        await service.provider_logout.by_token(tokens[0])
    except (WrongToken, WrongTime) as error:
        return _refused(request, str(error))
    except (ProviderError, BrokerError) as error:
        return _put_off(request, error)
    return responses.finished(HttpResponse())


@require_GET
@view_helpers.errors_as_pages
async def frontchannel_logout(request: HttpRequest) -> HttpResponse:
    """OpenID Connect Front-Channel Logout 1.0: a frame in the provider's page, in the browser of who signs out there.

    Browsers send no cookie of ours into such a frame (SameSite), so what is asked for is the name of the session at the provider:
    who does not know it ends nothing, and the answer tells nobody whether there was one.  For the same reason no cookie is cleared:
    any page could lead a browser here.
    """
    service = page_context(request).authenticate
    named = [request.GET.getlist(name) for name in ("iss", "sid")]
    if any(len(values) != 1 for values in named):
        raise BadRequest(Message("expected one issuer (iss) and one session id (sid)"))
    (issuer,), (sid,) = named
    try:
        await service.provider_logout.by_browser(issuer, sid)
        framed_by = await service.provider_logout.origins(issuer)
    except ProviderError as error:
        return view_helpers.provider_trouble(request, error, "/.gate/")
    return responses.page(request, "authenticate/signed_out.html", framed_by=framed_by, everywhere=False)


def _refused(request: HttpRequest, reason: str) -> HttpResponse:
    log.warning("logout token rejected", reason=reason, request_id=page_context(request).request_id)
    return responses.json_page({"error": "invalid_request", "error_description": reason}, status=400)


def _put_off(request: HttpRequest, error: ProviderError | BrokerError) -> HttpResponse:
    log.error("logout token verification failed", reason=str(error), request_id=page_context(request).request_id)
    words = {"error": "temporarily_unavailable", "error_description": "the logout token can't be verified now"}
    response = responses.json_page({**words}, status=503)
    response.headers["Retry-After"] = "30"
    return response
