"""Refresh button: new claims at once, for who was just put into a group; with proof that our page asked, and not too often."""

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.service import AuthenticateService, page_context
from authenticate.session.refresh import RefreshStep, RefreshUnderWay, SessionEnded
from authenticate.views import answers
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from foundation.web import responses
from foundation.web.message import Message

DASHBOARD = "/.gate/"
BACK = ((Message("Back"), DASHBOARD),)


# Django's token guards the admin; this form has ours, bound to the session.
@csrf_exempt
@answers.errors_as_pages
async def refresh(request: HttpRequest) -> HttpResponse:
    service = page_context(request).authenticate
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    headers = answers.cookie_headers(request)
    session = await service.sessions.find(headers, service.host_port, service.clock())
    if session is None:
        return responses.error_page(request, 401, answers.NOT_SIGNED_IN, links=(answers.SIGN_IN_AGAIN,))
    if not answers.is_from_our_page(request, service, session):
        return responses.error_page(
            request, 400, Message("This form has expired; nothing was changed. Reload the page and try again."), links=BACK
        )
    if (wait := too_soon(service, session)) > 0:
        return _later(request, Message("Your session was refreshed a moment ago."), wait)
    return await _refreshed(request, service, session)


async def _refreshed(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    try:
        await service.refresh.renew(session.id, RefreshStep.TOKENS, by_hand=True)
    except RefreshUnderWay:
        return _later(request, Message("Your session is being refreshed."), 5)
    except SessionEnded:
        reason = Message("The identity provider no longer confirms this session, so it has ended.")
        response = responses.error_page(request, 401, reason, links=(answers.SIGN_IN_AGAIN,))
        return responses.with_cookies(
            response, service.sessions.clear_cookies(answers.cookie_headers(request), service.host_port, request.path)
        )
    except ProviderError as error:
        return answers.provider_trouble(request, error, DASHBOARD)
    if answers.wants_json(request):
        return responses.json_page({"status": 200, "reason": "Your session is refreshed."})
    response = responses.redirect(DASHBOARD)
    response.status_code = 303
    return response


def too_soon(service: AuthenticateService, session: SessionRecord) -> float:
    """Seconds until this session may be refreshed by hand again; 0 or less: now."""
    return session.refreshed_by_hand + service.options.refresh_cooldown.total_seconds() - service.clock()


def _later(request: HttpRequest, reason: str, wait: float) -> HttpResponse:
    response = responses.error_page(request, 429, reason, advice=Message("Try again later."), links=BACK)
    response.headers["Retry-After"] = str(int(wait) + 1)
    return response
