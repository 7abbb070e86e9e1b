"""Profile refresh: load new claims on request, for example after a group change, with a CSRF token and a cooldown."""

from django.http import HttpRequest, HttpResponse

from authenticate.service import AuthenticateService
from authenticate.session.session_refresh import RefreshInProgress, RefreshStep, SessionEnded
from authenticate.views import view_helpers
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from foundation.web import responses
from foundation.web.message import Message

PORTAL = "/.gate/"
BACK = ((Message("Back"), PORTAL),)


@view_helpers.requires_session("POST", back=BACK)
async def refresh(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    if (wait := seconds_until_allowed(service, session)) > 0:
        return _retry_later_page(request, Message("Your session was refreshed a moment ago."), wait)
    return await _refresh(request, service, session)


async def _refresh(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    try:
        await service.refresh.renew(session.id, RefreshStep.TOKENS, manual=True)
    except RefreshInProgress:
        return _retry_later_page(request, Message("Your session is being refreshed."), 5)
    except SessionEnded:
        reason = Message("The identity provider no longer confirms this session, so it has ended.")
        response = responses.render_error(request, 401, reason, links=(view_helpers.SIGN_IN_AGAIN,))
        return responses.with_cookies(
            response, service.sessions.clear_cookies(view_helpers.cookie_headers(request), service.host_port, request.path)
        )
    except ProviderError as error:
        return view_helpers.provider_error_page(request, error, PORTAL)
    if view_helpers.wants_json(request):
        return responses.json_response({"status": 200, "reason": "Your session is refreshed."})
    response = responses.redirect(PORTAL)
    response.status_code = 303
    return response


def seconds_until_allowed(service: AuthenticateService, session: SessionRecord) -> float:
    """Return the seconds until this session may be refreshed manually again; 0 or less means now."""
    return session.manually_refreshed_at + service.options.refresh_cooldown.total_seconds() - service.clock()


def _retry_later_page(request: HttpRequest, reason: str, wait: float) -> HttpResponse:
    response = responses.render_error(request, 429, reason, advice=Message("Try again later."), links=BACK)
    response.headers["Retry-After"] = str(int(wait) + 1)
    return response
