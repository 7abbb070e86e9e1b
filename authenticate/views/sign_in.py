"""Sign-in endpoint: redirects to the provider, or straight back if the browser has a session."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from authenticate.portal.icons import PATH as ICONS
from authenticate.provider_selection import Providers, ProviderSelector
from authenticate.service import page_context
from authenticate.step_up import MAX_AGE_EXCEEDED, StepUpRequest
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
from foundation.web.pages import PageAssets

CHOOSE_PATH, SIGNED_QUERY = "/.gate/choose", "gate_choice"


@require_GET
@view_helpers.renders_bad_request
async def sign_in(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    query = str(request.META.get("QUERY_STRING", ""))
    try:
        params = gate.authenticate.browser_redirects.verify_sign_in_url(query)
    except UrlExpired as error:
        return _expired_page(request, error)
    except SealError:
        return _tampered_page(request)
    if params.get("gate_programmatic") == "true":
        return begin_programmatic(request, params)
    return await _begin(request, params, ProviderSelection(query, id=params.get("gate_idp", "")))


@require_GET
@view_helpers.renders_bad_request
async def choose(request: HttpRequest) -> HttpResponse:
    """Continue a sign-in with the provider or address that the user chose on the selection page, with its signed link."""
    params_by_name = {name: request.GET.getlist(name) for name in (SIGNED_QUERY, "gate_idp", "gate_address")}
    if any(len(values) > 1 for values in params_by_name.values()):
        raise BadRequest(Message("the sign-in link repeats a parameter"))
    query, id, address = ("".join(values) for values in params_by_name.values())
    try:
        params = page_context(request).authenticate.browser_redirects.verify_sign_in_url(query)
    except UrlExpired as error:
        return _expired_page(request, error)
    except SealError:
        return _tampered_page(request)
    # Another site can send a browser here, but must not set the remembered provider.
    may_remember = request.headers.get("Sec-Fetch-Site") == "same-origin"
    return await _begin(
        request, params, ProviderSelection(query, id, address.strip(), came_from_selection_page=True, may_remember=may_remember)
    )


@dataclass(frozen=True, slots=True)
class ProviderSelection:
    """Provider selection: the signed `query` of the link, and the provider `id` or address from the user or the link.

    If `came_from_selection_page`, the remembered provider is ignored.  If `may_remember`, a successful sign-in is remembered.
    """

    query: str
    id: str = ""
    address: str = ""
    came_from_selection_page: bool = False
    may_remember: bool = False


async def _begin(request: HttpRequest, params: Mapping[str, str], selection: ProviderSelection) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    now, cookie_headers = service.clock(), view_helpers.cookie_headers(request)
    target = service.redirect_targets.resolve(params.get("gate_redirect_uri", ""), gate.authorize.is_route_origin)
    route_attempt_id = params.get("gate_attempt", "")
    if target is None or not (service.redirect_targets.is_authenticate_page(target) or is_attempt_id(route_attempt_id)):
        raise BadRequest(Message("the redirect target is not allowed"))
    step_up = StepUpRequest.from_url(params)
    session = await service.sessions.find(cookie_headers, service.host_port, now)
    if session is not None and not (shortfall := step_up.unmet_requirement(session.claims, session.issued_at, now)):
        return responses.redirect(service.browser_redirects.handoff_location(session, target, route_attempt_id))
    candidates = service.provider_selector.candidates(params.get("gate_providers", ""))
    provider = _select_provider(service.provider_selector, candidates, selection, session, cookie_headers)
    if provider is None:
        return _selection_page(request, candidates, selection)
    # Only an expired sign-in forces re-authentication; a provider may reach a stronger one without it.
    step_up = replace(step_up, force_reauthentication=session is not None and shortfall == MAX_AGE_EXCEEDED)
    attempt = SignInAttempt(target, route_attempt_id, provider.id, step_up, selection.address, selection.may_remember)
    response = await redirect_to_provider(request, service, attempt)
    if session is not None:
        return response
    return responses.with_cookies(response, service.sessions.clear_conflicting(cookie_headers, service.host_port, request.path))


def _select_provider(
    selector: ProviderSelector,
    candidates: Providers,
    selection: ProviderSelection,
    session: SessionRecord | None,
    cookie_headers: list[bytes],
) -> ProviderConfig | None:
    """Return the provider to sign in at, or None if the user must choose."""
    if selection.id:
        return selector.require(candidates, selection.id)
    if selection.address:
        return selector.by_email_domain(candidates, selection.address)
    return selector.default_for(candidates, session, [] if selection.came_from_selection_page else cookie_headers)


def _selection_page(request: HttpRequest, candidates: Providers, selection: ProviderSelection) -> HttpResponse:
    """Return the selection page.  Each choice is a link; no attempt has started."""
    service = page_context(request).authenticate
    return responses.render_page(
        request,
        "authenticate/choose.html",
        status=400 if selection.address else 200,
        form_targets="",
        files=PageAssets(icons=f"{service.origin}{ICONS}"),
        action=CHOOSE_PATH,
        choice=selection.query,
        providers=[
            (
                f"{CHOOSE_PATH}?{urlencode({SIGNED_QUERY: selection.query, 'gate_idp': each.id})}",
                each.display_name,
                service.portal.icons.icon_source(each.icon),
            )
            for each in candidates
        ],
        takes_address=any(provider.domains for provider in candidates),
        is_unknown=bool(selection.address),
    )


def _tampered_page(request: HttpRequest) -> HttpResponse:
    reason = Message("This sign-in link is incomplete or was modified.")
    return responses.render_error(request, 400, reason, advice=Message("Open the page that you wanted again."))


def _expired_page(request: HttpRequest, error: UrlExpired) -> HttpResponse:
    gate = page_context(request)
    target = gate.authenticate.redirect_targets.resolve(error.params.get("gate_redirect_uri", ""), gate.authorize.is_route_origin)
    links = ((Message("Open the page again"), str(target)),) if target is not None else ()
    advice = Message("Sign-in links expire after a few minutes. Open the page that you wanted again.")
    return responses.render_error(request, 400, Message("This sign-in link has expired."), advice=advice, links=links)
