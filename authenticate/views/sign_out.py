"""Sign-out: with proof that one of our own pages asked for it, the session ends on every host and, where it can, at the provider."""

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.service import AuthenticateService
from authenticate.targets import Target
from authenticate.views import answers
from databroker.records import Session
from gateproject import responses
from gateproject.crypto.csrf_token import FIELD, HEADER
from gateproject.tasks import spawn

METHODS = ["GET", "HEAD", "OPTIONS", "POST"]


# Django's token guards the admin; this page has its own, bound to the session and needed on GET, too.
@csrf_exempt
@answers.in_plain_words
async def sign_out(request: HttpRequest) -> HttpResponse:
    service: AuthenticateService = request.scope["gate"].authenticate
    if request.method == "OPTIONS":
        return HttpResponse(status=204, headers={"Allow": ", ".join(METHODS)})
    if request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    headers = answers.cookie_headers(request)
    session = await service.session_of(headers, service.host_port, service.clock())
    target = service.targets.target(_field(request, "gate_redirect_uri"), request.scope["gate"].authorize.is_route_origin)
    token = request.headers.get(HEADER, "") or _field(request, FIELD)
    is_proven = service.csrf.check(token, headers, service.clock(), bound_to=_bound_to(session))
    if request.method == "HEAD" or not is_proven:
        return _confirmation(request, service, session, target)
    return await _signed_out(request, service, session, target)


async def _signed_out(request: HttpRequest, service: AuthenticateService, session: Session | None, target: Target | None) -> HttpResponse:
    next_url = target.url if target is not None else str(service.options.signout_redirect_url or "")
    if session is not None:
        await service.sessions.end(session)
        # In the background: a slow provider must not keep the person waiting, the session is over already.
        spawn(service.provider_client.revoke(session), name="revoke tokens")
        next_url = await service.provider_client.end_session_url(session, next_url) or next_url
    if next_url:
        response = responses.redirect(next_url)
    elif answers.wants_json(request):
        response = responses.json_page({"status": 200, "reason": "You are signed out."})
    else:
        response = responses.page("authenticate/signed_out.html")
    return responses.with_cookies(response, [service.sessions.clear_cookie(service.host_port)])


def _confirmation(request: HttpRequest, service: AuthenticateService, session: Session | None, target: Target | None) -> HttpResponse:
    """Nothing has changed; the page asks, and its button carries the proof."""
    token, cookie = service.csrf.token_for(answers.cookie_headers(request), service.clock(), bound_to=_bound_to(session))
    if answers.wants_json(request):
        response = responses.error_page(request, 400, "Sign-out needs a CSRF token of this session; nothing was changed.")
    else:
        redirect_uri = target.url if target is not None else ""
        response = responses.page("authenticate/sign_out.html", status=400, form_targets="", csrf=token, redirect_uri=redirect_uri)
    return responses.with_cookies(response, [cookie] if cookie else [])


def _bound_to(session: Session | None) -> str:
    return session.id if session is not None else ""


def _field(request: HttpRequest, name: str) -> str:
    return request.POST.get(name, "") or request.GET.get(name, "")
