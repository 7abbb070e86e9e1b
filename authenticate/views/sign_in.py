"""Sign-in endpoint, where a route host sends who is not signed in: on to the provider, or straight back where this browser has a
session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from authenticate.portal.icons import PATH as ICONS
from authenticate.provider_selection import ProviderChoice, Providers
from authenticate.service import page_context
from authenticate.step_up import OLD, StepUpRequest
from authenticate.views import view_helpers
from authenticate.views.authorization_request import SignInAttempt, redirect_to_provider
from authenticate.views.programmatic_consent import begin as begin_programmatic
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord
from foundation.crypto.sign_in_attempts import is_attempt_id
from foundation.crypto.signed_urls import UrlExpired
from foundation.errors import BadRequest, SealError
from foundation.web import responses
from foundation.web.message import Message
from foundation.web.pages import PageFiles

CHOOSE_PATH, CHOICE = "/.gate/choose", "gate_choice"


@require_GET
@view_helpers.errors_as_pages
async def sign_in(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    query = str(request.META.get("QUERY_STRING", ""))
    try:
        params = gate.authenticate.redirects.sign_in_params(query)
    except UrlExpired as error:
        return _too_old(request, error)
    except SealError:
        return _changed(request)
    if params.get("gate_programmatic") == "true":
        return begin_programmatic(request, params)
    return await _begin(request, params, ProviderQuestion(query, id=params.get("gate_idp", "")))


@require_GET
@view_helpers.errors_as_pages
async def choose(request: HttpRequest) -> HttpResponse:
    """What a person has chosen on the page of `sign_in`, whose signed link comes along: a provider, or the address that they typed."""
    said = {name: request.GET.getlist(name) for name in (CHOICE, "gate_idp", "gate_address")}
    if any(len(values) > 1 for values in said.values()):
        raise BadRequest(Message("the sign-in link repeats a parameter"))
    query, id, address = ("".join(values) for values in said.values())
    try:
        params = page_context(request).authenticate.redirects.sign_in_params(query)
    except UrlExpired as error:
        return _too_old(request, error)
    except SealError:
        return _changed(request)
    # Another site can send a browser here, too, but not choose for it what it remembers.
    is_chosen = request.headers.get("Sec-Fetch-Site") == "same-origin"
    return await _begin(request, params, ProviderQuestion(query, id, address.strip(), is_asked=True, is_chosen=is_chosen))


@dataclass(frozen=True, slots=True)
class ProviderQuestion:
    """Question at which provider somebody signs in: the signed `query` that brought them, and what they answer, or the link says."""

    query: str
    id: str = ""
    address: str = ""
    is_asked: bool = False
    is_chosen: bool = False


async def _begin(request: HttpRequest, params: Mapping[str, str], question: ProviderQuestion) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    now, headers = service.clock(), view_helpers.cookie_headers(request)
    target = service.targets.target(params.get("gate_redirect_uri", ""), gate.authorize.is_route_origin)
    attempt_id = params.get("gate_attempt", "")
    if target is None or not (service.targets.is_own(target) or is_attempt_id(attempt_id)):
        raise BadRequest(Message("the redirect target is not allowed"))
    asked = StepUpRequest.from_url(params)
    session = await service.sessions.find(headers, service.host_port, now)
    if session is not None and not (shortfall := asked.shortfall(session.claims, session.issued, now)):
        return responses.redirect(service.redirects.return_location(session, target, attempt_id))
    candidates = service.choice.among(params.get("gate_providers", ""))
    provider = _provider(service.choice, candidates, question, session, headers)
    if provider is None:
        return _question(request, candidates, question)
    # Whoever must prove again who they are is asked at once; for more strength the provider may know a shorter way.
    asked = replace(asked, is_pressed=session is not None and shortfall == OLD)
    attempt = SignInAttempt(target, attempt_id, provider.id, asked, question.address, question.is_chosen)
    response = await redirect_to_provider(request, service, attempt)
    if session is not None:
        return response
    return responses.with_cookies(response, service.sessions.clear_conflicting(headers, service.host_port, request.path))


def _provider(
    choice: ProviderChoice, candidates: Providers, question: ProviderQuestion, session: SessionRecord | None, headers: list[bytes]
) -> ProviderConfig | None:
    """Where the person signs in; None where they must be asked."""
    if question.id:
        return choice.wanted(candidates, question.id)
    if question.address:
        return choice.of_address(candidates, question.address)
    return choice.left(candidates, session, [] if question.is_asked else headers)


def _question(request: HttpRequest, candidates: Providers, question: ProviderQuestion) -> HttpResponse:
    """The page that asks.  Nothing has begun; each answer is a link of its own."""
    service = page_context(request).authenticate
    return responses.page(
        request,
        "authenticate/choose.html",
        status=400 if question.address else 200,
        form_targets="",
        files=PageFiles(icons=f"{service.origin}{ICONS}"),
        action=CHOOSE_PATH,
        choice=question.query,
        providers=[
            (
                f"{CHOOSE_PATH}?{urlencode({CHOICE: question.query, 'gate_idp': each.id})}",
                each.display_name,
                service.portal.icons.icon_source(each.icon),
            )
            for each in candidates
        ],
        takes_address=any(provider.domains for provider in candidates),
        is_unknown=bool(question.address),
    )


def _changed(request: HttpRequest) -> HttpResponse:
    reason = Message("This sign-in link is incomplete or was modified.")
    return responses.error_page(request, 400, reason, advice=Message("Open the page that you wanted again."))


def _too_old(request: HttpRequest, error: UrlExpired) -> HttpResponse:
    gate = page_context(request)
    target = gate.authenticate.targets.target(error.params.get("gate_redirect_uri", ""), gate.authorize.is_route_origin)
    links = ((Message("Open the page again"), str(target)),) if target is not None else ()
    advice = Message("Sign-in links expire after a few minutes. Open the page that you wanted again.")
    return responses.error_page(request, 400, Message("This sign-in link has expired."), advice=advice, links=links)
