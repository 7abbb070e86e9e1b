"""Where the provider tells us that somebody has signed out there: itself, or by the person's browser."""

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from authenticate.service import AuthenticateService
from gateproject import responses
from gateproject.errors import BrokerError, ProviderError

FORM = "application/x-www-form-urlencoded"

log = structlog.get_logger(__name__)


# The logout token is the proof: no cookie is asked for, and none is looked at.
@csrf_exempt
@require_POST
async def backchannel_logout(request: HttpRequest) -> HttpResponse:
    """OpenID Connect Back-Channel Logout 1.0, section 2.5: 200, or 400 with what is wrong as OAuth 2.0 says it."""
    service: AuthenticateService = request.scope["gate"].authenticate
    tokens = request.POST.getlist("logout_token") if request.content_type == FORM else []
    if len(tokens) != 1:
        return _refused(request, "a form with one logout_token is expected")
    try:
        await service.provider_logout.by_token(tokens[0])
    except (ProviderError, BrokerError) as error:
        return _refused(request, str(error))
    return responses.finished(HttpResponse())


def _refused(request: HttpRequest, reason: str) -> HttpResponse:
    log.warning("a provider's sign-out was refused", reason=reason, request_id=request.scope["gate"].request_id)
    return responses.json_page({"error": "invalid_request", "error_description": reason}, status=400)
