"""Sign-out page: with a CSRF token, ends the session on every host and, if possible, at the provider."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from authenticate.service import AuthenticateService, page_context
from authenticate.views import view_helpers
from databroker.audit_log import AuditAction, session_entry
from databroker.records import SessionRecord
from foundation.crypto.cookies import set_cookie
from foundation.crypto.csrf_token import FIELD, HEADER
from foundation.errors import BrokerError
from foundation.web import responses
from foundation.web.message import Message

# Name of the button for all devices.
EVERYWHERE = "gate_everywhere"
METHODS = ["GET", "HEAD", "OPTIONS", "POST"]


# Django's CSRF token protects the admin; this page has gate's, bound to the session and required on GET too.
@csrf_exempt
@view_helpers.renders_bad_request
async def sign_out(request: HttpRequest) -> HttpResponse:
    service = page_context(request).authenticate
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
    if request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    cookie_headers = view_helpers.cookie_headers(request)
    session = await view_helpers.get_session(request)
    token = request.headers.get(HEADER, "") or _field(request, FIELD)
    has_valid_csrf_token = service.csrf.check(token, cookie_headers, service.clock(), bound_to=_csrf_binding(session))
    if request.method == "HEAD" or not has_valid_csrf_token:
        return _confirmation_page(request, service, session)
    return await _sign_out(request, service, session)


async def _sign_out(request: HttpRequest, service: AuthenticateService, session: SessionRecord | None) -> HttpResponse:
    cookie_headers, now = view_helpers.cookie_headers(request), service.clock()
    next_url = service.post_logout_redirect.resolve(_field(request, "gate_redirect_uri"), page_context(request).authorize.is_route_origin)
    everywhere = session is not None and request.method == "POST" and EVERYWHERE in request.POST
    if session is not None:
        await _end(request, service, session, everywhere=everywhere)
        service.revoke_in_background(session)
        params = service.post_logout_redirect.params(next_url, service.clock())
        next_url = await service.providers.for_session(session).end_session_url(session, params) or next_url
    await service.sessions.end_from_cookies(cookie_headers, service.host_port, now)
    cleared = service.sessions.clear_cookies(cookie_headers, service.host_port, request.path)
    return responses.with_cookies(
        _next_response(request, next_url, everywhere=everywhere),
        [*cleared, service.csrf.clear(), *service.provider_selector.clear_cookies(), *_admin_cookies()],
    )


async def _end(request: HttpRequest, service: AuthenticateService, session: SessionRecord, *, everywhere: bool) -> None:
    action_done = AuditAction.END_ALL_SESSIONS if everywhere else AuditAction.END_SESSION
    action: str = action_done
    try:
        if everywhere:
            await service.sessions.end_all_for(session)
        await service.sessions.end(session)
    except BrokerError:
        action = action_done.failure
        raise
    finally:
        gate, audited_session = page_context(request), None if everywhere else session
        await service.audit_writer.enqueue(
            session_entry(service.clock(), session, gate.options.providers, gate.client_address, action, audited_session)
        )


@require_safe
async def signed_out(request: HttpRequest) -> HttpResponse:
    """Post-logout page, to which the provider redirects after ending its session."""
    service = page_context(request).authenticate
    states, is_route_origin = request.GET.getlist("state"), page_context(request).authorize.is_route_origin
    return _next_response(
        request, service.post_logout_redirect.resolve_state(states[0] if len(states) == 1 else "", is_route_origin, service.clock())
    )


def _next_response(request: HttpRequest, url: str, *, everywhere: bool = False) -> HttpResponse:
    if url:
        return responses.redirect(url)
    if view_helpers.wants_json(request):
        return responses.json_response({"status": 200, "reason": f"You are signed out{' on all devices' if everywhere else ''}."})
    return responses.render_page(request, "authenticate/signed_out.html", everywhere=everywhere)


def _confirmation_page(request: HttpRequest, service: AuthenticateService, session: SessionRecord | None) -> HttpResponse:
    """Return the confirmation page with a CSRF token.  Nothing has changed yet."""
    token, cookie = service.csrf.token_for(view_helpers.cookie_headers(request), service.clock(), bound_to=_csrf_binding(session))
    if view_helpers.wants_json(request):
        response = responses.render_error(request, 400, Message("Sign-out needs a CSRF token of this session; nothing was changed."))
    else:
        target = service.redirect_targets.resolve(_field(request, "gate_redirect_uri"), page_context(request).authorize.is_route_origin)
        redirect_uri = str(target) if target is not None else ""
        response = responses.render_page(
            request,
            "authenticate/sign_out.html",
            status=400,
            form_targets="",
            csrf=token,
            redirect_uri=redirect_uri,
            is_signed_in=session is not None,
        )
    return responses.with_cookies(response, [cookie] if cookie else [])


def _admin_cookies() -> list[str]:
    """Return Set-Cookie values that delete the admin's cookies.  Without gate's session they are invalid anyway."""
    names = (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME)
    return [set_cookie(name, "", max_age=0, secure=settings.SESSION_COOKIE_SECURE, path=settings.SESSION_COOKIE_PATH) for name in names]


def _csrf_binding(session: SessionRecord | None) -> str:
    return session.id if session is not None else ""


def _field(request: HttpRequest, name: str) -> str:
    return request.POST.get(name, "") or request.GET.get(name, "")
