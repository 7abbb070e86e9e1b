"""Sign-in endpoint, where a route host sends who is not signed in: on to the provider, or straight back where this browser has a
session.
"""

from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from authenticate.page_context import page_context
from authenticate.redirect_targets import RedirectTarget
from authenticate.service import SIGN_IN_PATH
from authenticate.step_up import OLD, StepUpRequest
from authenticate.views import answers
from authenticate.views.authorization_request import SignInAttempt, redirect_to_provider
from authenticate.views.program import begin as begin_programmatic
from foundation.crypto.sign_in_attempts import is_attempt_id
from foundation.crypto.signed_urls import UrlExpired
from foundation.errors import BadRequest, SealError
from foundation.web import responses
from foundation.web.message import Message


@require_GET
@answers.errors_as_pages
async def sign_in(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    now = service.clock()
    try:
        params = service.signer.verify(f"{service.origin}{SIGN_IN_PATH}?{request.META.get('QUERY_STRING', '')}", now)
    except UrlExpired as error:
        return _too_old(request, service.targets.target(error.params.get("gate_redirect_uri", ""), gate.authorize.is_route_origin))
    except SealError:
        return responses.error_page(
            request,
            400,
            Message("This sign-in link is not complete, or was changed on its way."),
            advice=Message("Please open the page you wanted again."),
        )
    if params.get("gate_programmatic") == "true":
        return begin_programmatic(request, params)
    target = service.targets.target(params.get("gate_redirect_uri", ""), gate.authorize.is_route_origin)
    attempt_id = params.get("gate_attempt", "")
    if target is None or not (service.targets.is_own(target) or is_attempt_id(attempt_id)):
        raise BadRequest(Message("this sign-in link leads to a place that does not belong to this site"))
    asked = StepUpRequest.from_url(params)
    session = await service.sessions.find(answers.cookie_headers(request), service.host_port, now)
    if session is not None and not (shortfall := asked.shortfall(session.claims, session.issued, now)):
        return responses.redirect(service.return_location(session, target, attempt_id))
    # Whoever must prove again who they are is asked at once; for more strength the provider may know a shorter way.
    asked = replace(asked, is_pressed=session is not None and shortfall == OLD)
    response = await redirect_to_provider(request, service, SignInAttempt(target, attempt_id, service.options.sole_provider.id, asked))
    if session is not None:
        return response
    return responses.with_cookies(
        response, service.sessions.clear_planted(answers.cookie_headers(request), service.host_port, request.path)
    )


def _too_old(request: HttpRequest, target: RedirectTarget | None) -> HttpResponse:
    links = ((Message("Open the page again"), str(target)),) if target is not None else ()
    advice = Message("Sign-in links last a few minutes. Please open the page you wanted again.")
    return responses.error_page(request, 400, Message("This sign-in link is too old."), advice=advice, links=links)
