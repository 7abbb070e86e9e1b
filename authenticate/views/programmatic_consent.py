"""Consent page for programmatic login: only the signed-in person answers, on this page, with proof that it was here."""

from urllib.parse import urlencode, urlsplit

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.page_paths import CALLBACK_PATH
from authenticate.portal import programmatic_clients
from authenticate.redirect_targets import RedirectTarget
from authenticate.service import AuthenticateService, page_context
from authenticate.step_up import StepUpRequest
from authenticate.views import view_helpers
from authorize.policy.reasons import Reason
from databroker.records import USER, ProgramRecord, SessionRecord
from databroker.session_reader import user_of
from foundation.crypto.programmatic import ProgrammaticRequest
from foundation.errors import BadRequest, SealError
from foundation.web import responses
from foundation.web.message import Message, Sentence

log = structlog.get_logger(__name__)

PATH, SIGN_OUT_PATH = "/.gate/program", "/.gate/signout/"
START_AGAIN = Message("Start the sign-in again in the program that led you here.")


def begin(request: HttpRequest, params: dict[str, str]) -> HttpResponse:
    """The sign-in of a program; `params` are those of a signed URL, so the route host that made it has looked at where the token will
    go.
    """
    gate = page_context(request)
    service = gate.authenticate
    callback = service.targets.target(params.get("gate_callback_uri", ""), gate.authorize.is_route_origin)
    if callback is None or callback.path != CALLBACK_PATH:
        raise BadRequest(Message("the redirect target is not allowed"))
    asked = StepUpRequest.from_url(params)
    wanted = ProgrammaticRequest(
        callback.origin,
        params.get("gate_redirect_uri", ""),
        asked.acr_values,
        asked.max_age,
        tuple(params.get("gate_providers", "").split()),
    )
    sealed = service.program_requests.seal(wanted, service.clock())
    return responses.redirect(f"{service.origin}{PATH}?request={sealed}")


# Django's token guards the admin; this form has ours, bound to the session.
@csrf_exempt
@view_helpers.errors_as_pages
async def program(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    if request.method not in ("GET", "POST"):
        return HttpResponseNotAllowed(["GET", "POST"])
    sealed = (request.POST if request.method == "POST" else request.GET).get("request", "")
    try:
        wanted = service.program_requests.open(sealed, service.clock())
    except SealError:
        return responses.error_page(request, 400, Message("This sign-in link of a program is invalid or has expired."), advice=START_AGAIN)
    route = service.targets.target(wanted.origin, gate.authorize.is_route_origin)
    if route is None:
        return responses.error_page(
            request, 400, Message("The redirect address of this program is no longer configured."), advice=START_AGAIN
        )
    now, asked = service.clock(), StepUpRequest(wanted.acr_values, wanted.max_age)
    session = await view_helpers.session_of(request)
    if session is None or asked.shortfall(session.claims, session.issued, now):
        named = {"gate_providers": " ".join(wanted.providers)} if wanted.providers else {}
        return responses.redirect(service.redirects.sign_in_url(f"{PATH}?request={sealed}", **asked.to_url(), **named))
    if wanted.providers and session.provider not in wanted.providers:
        return _elsewhere(request, service, sealed)
    if request.method == "POST" and view_helpers.is_from_our_page(request, service, session):
        return await _agreed(request, service, session, route, wanted)
    return await _question(request, service, session, route, wanted, sealed)


def _elsewhere(request: HttpRequest, service: AuthenticateService, sealed: str) -> HttpResponse:
    """The page for people whom no route of that host takes: a token of theirs would open nothing."""
    back = urlencode({"gate_redirect_uri": f"{service.origin}{PATH}?request={sealed}"})
    return responses.error_page(
        request,
        403,
        Sentence("%(error)s.", error=Reason.SIGNED_IN_ELSEWHERE.value),
        links=((Message("Sign in as another user"), f"{SIGN_OUT_PATH}?{back}"),),
    )


async def _agreed(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, route: RedirectTarget, wanted: ProgrammaticRequest
) -> HttpResponse:
    gate = page_context(request)
    # First the note: nobody acts for a person without their page saying so.
    program = ProgramRecord(route.host_port, urlsplit(wanted.redirect_uri).netloc, service.clock())
    await programmatic_clients.record_client(service.broker, session, program)
    log.info("program allowed", user_id=session.user_id, session_id=session.id, host=route.host_port, request_id=gate.request_id)
    response = responses.redirect(service.redirects.programmatic_location(session, route, wanted.redirect_uri))
    response.status_code = 303
    return response


async def _question(
    request: HttpRequest,
    service: AuthenticateService,
    session: SessionRecord,
    route: RedirectTarget,
    wanted: ProgrammaticRequest,
    sealed: str,
) -> HttpResponse:
    """The page that asks; nothing has changed, and its button carries the proof."""
    token, cookie = service.csrf.token_for(view_helpers.cookie_headers(request), service.clock(), bound_to=session.id)
    record = await service.broker.get(USER, session.user_id)
    user = user_of(session, record)
    response = responses.page(
        request,
        "authenticate/program.html",
        # Its form ends at the program.
        form_targets="",
        csrf=token,
        request=sealed,
        host=route.host_port,
        program=urlsplit(wanted.redirect_uri).netloc,
        person=user.email or user.name or user.id,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])
