"""Consent page for programmatic login: the signed-in user allows a client application on this page, with a CSRF token."""

from urllib.parse import urlencode, urlsplit

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.portal import programmatic_clients
from authenticate.redirect_targets import RedirectTarget
from authenticate.service import AuthenticateService, page_context
from authenticate.step_up import StepUpRequest
from authenticate.views import view_helpers
from authorize.policy.reasons import Reason
from databroker.records import USER, ProgrammaticClient, SessionRecord
from databroker.session_reader import user_for_session
from foundation.crypto.handoff import ROUTE_CALLBACK_PATH
from foundation.crypto.programmatic import ProgrammaticRequest
from foundation.errors import BadRequest, SealError
from foundation.web import responses
from foundation.web.message import Message, Sentence

log = structlog.get_logger(__name__)

PATH, SIGN_OUT_PATH = "/.gate/program", "/.gate/signout/"
START_AGAIN = Message("Start the sign-in again in the program that led you here.")


def begin(request: HttpRequest, params: dict[str, str]) -> HttpResponse:
    """Start programmatic login.

    `params` come from a signed URL, so the route host that signed it has checked the redirect URI of the token.
    """
    gate = page_context(request)
    service = gate.authenticate
    callback = service.redirect_targets.resolve(params.get("gate_callback_uri", ""), gate.authorize.is_route_origin)
    if callback is None or callback.path != ROUTE_CALLBACK_PATH:
        raise BadRequest(Message("the redirect target is not allowed"))
    step_up = StepUpRequest.from_url(params)
    consent_request = ProgrammaticRequest(
        callback.origin,
        params.get("gate_redirect_uri", ""),
        step_up.acr_values,
        step_up.max_age,
        tuple(params.get("gate_providers", "").split()),
    )
    sealed = service.consent_requests.seal(consent_request, service.clock())
    return responses.redirect(f"{service.origin}{PATH}?request={sealed}")


# Django's CSRF token protects the admin; this form has gate's, bound to the session.
@csrf_exempt
@view_helpers.renders_bad_request
async def programmatic_consent(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    if request.method not in ("GET", "POST"):
        return HttpResponseNotAllowed(["GET", "POST"])
    sealed = (request.POST if request.method == "POST" else request.GET).get("request", "")
    try:
        consent_request = service.consent_requests.open(sealed, service.clock())
    except SealError:
        return responses.render_error(
            request, 400, Message("This sign-in link of a program is invalid or has expired."), advice=START_AGAIN
        )
    route = service.redirect_targets.resolve(consent_request.origin, gate.authorize.is_route_origin)
    if route is None:
        return responses.render_error(
            request, 400, Message("The redirect address of this program is no longer configured."), advice=START_AGAIN
        )
    now, step_up = service.clock(), StepUpRequest(consent_request.acr_values, consent_request.max_age)
    session = await view_helpers.get_session(request)
    if session is None or step_up.unmet_requirement(session.claims, session.issued_at, now):
        named = {"gate_providers": " ".join(consent_request.providers)} if consent_request.providers else {}
        return responses.redirect(service.browser_redirects.sign_in_url(f"{PATH}?request={sealed}", **step_up.to_url(), **named))
    if consent_request.providers and session.provider not in consent_request.providers:
        return _provider_not_accepted_page(request, service, sealed)
    if request.method == "POST" and view_helpers.has_valid_csrf_token(request, service, session):
        return await _grant_consent(request, service, session, route, consent_request)
    return await _consent_page(request, service, session, route, consent_request, sealed)


def _provider_not_accepted_page(request: HttpRequest, service: AuthenticateService, sealed: str) -> HttpResponse:
    """Return the page for users of a provider that no route of the host accepts: their token would be useless."""
    back = urlencode({"gate_redirect_uri": f"{service.origin}{PATH}?request={sealed}"})
    return responses.render_error(
        request,
        403,
        Sentence("%(error)s.", error=Reason.OTHER_PROVIDER.value),
        links=((Message("Sign in as another user"), f"{SIGN_OUT_PATH}?{back}"),),
    )


async def _grant_consent(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, route: RedirectTarget, consent_request: ProgrammaticRequest
) -> HttpResponse:
    gate = page_context(request)
    # Recorded first, so that every authorized client is on the user's sessions page.
    client = ProgrammaticClient(route.host_port, urlsplit(consent_request.redirect_uri).netloc, service.clock())
    await programmatic_clients.record_client(service.broker, session, client)
    log.info(
        "client application authorized", user_id=session.user_id, session_id=session.id, host=route.host_port, request_id=gate.request_id
    )
    response = responses.redirect(service.browser_redirects.programmatic_location(session, route, consent_request.redirect_uri))
    response.status_code = 303
    return response


async def _consent_page(
    request: HttpRequest,
    service: AuthenticateService,
    session: SessionRecord,
    route: RedirectTarget,
    consent_request: ProgrammaticRequest,
    sealed: str,
) -> HttpResponse:
    """Return the consent page with a CSRF token.  Nothing has changed yet."""
    token, cookie = service.csrf.token_for(view_helpers.cookie_headers(request), service.clock(), bound_to=session.id)
    record = await service.broker.get(USER, session.user_id)
    user = user_for_session(session, record)
    response = responses.render_page(
        request,
        "authenticate/program.html",
        # Its form redirects to the client application.
        form_targets="",
        csrf=token,
        request=sealed,
        host=route.host_port,
        program=urlsplit(consent_request.redirect_uri).netloc,
        user_name=user.email or user.name or user.id,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])
