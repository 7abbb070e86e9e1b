"""Authorization endpoint: validation, sign-in, and the consent page."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from authlib.oauth2.rfc6749 import InvalidRequestError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.oauth.client_documents import ClientDocumentError
from authenticate.oauth.oauth_client import OAuthClient, Registration
from authenticate.oauth.server_metadata import AUTHORIZE_PATH
from authenticate.oauth.token_service import AuthorizationRequest, InvalidAuthorizationRequest
from authenticate.redirect_targets import parse
from authenticate.service import AuthenticateService, page_context
from authenticate.step_up import StepUpRequest
from authenticate.views import view_helpers
from authenticate.views.authorization_request import MAX_REMEMBERED_URL
from authenticate.views.oauth.agent_sign_in import start_agent_sign_in, step_up_for
from authenticate.views.oauth.oauth_responses import unique_params
from authorize.policy.reasons import Reason
from databroker.records import USER, SessionRecord
from databroker.session_reader import user_for_session
from foundation.oauth_redirect_uris import parse_redirect_uri
from foundation.web import responses
from foundation.web.message import Message, Sentence

log = structlog.get_logger(__name__)

SIGN_OUT_PATH = "/.gate/signout/"
RESTART = Message("Start again in the program that led you here. If the problem continues, ask your administrator.")


# Django's CSRF token protects the admin; this form has gate's, bound to the session.
@csrf_exempt
@view_helpers.renders_bad_request
async def authorize(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "POST"):
        return HttpResponseNotAllowed(["GET", "POST"])
    service, query = page_context(request).authenticate, str(request.META.get("QUERY_STRING", ""))
    session = await view_helpers.get_session(request)
    try:
        params = parse_query(service, query)
        if session is None and service.agents.clients.needs_document(params.get("client_id", "")):
            return responses.redirect(service.browser_redirects.sign_in_url(f"{AUTHORIZE_PATH}?{query}"))
        requested = await validate(service, params, may_fetch=session is not None)
    except InvalidAuthorizationRequest as error:
        return refuse(request, error)
    return await _answer(request, session, ConsentRequest(query, params, requested))


@dataclass(frozen=True, slots=True)
class ConsentRequest:
    """Authorization request with its query, as it was sent."""

    query: str
    params: Mapping[str, str]
    requested: AuthorizationRequest

    @property
    def path(self) -> str:
        return f"{AUTHORIZE_PATH}?{self.query}"

    @property
    def step_up(self) -> StepUpRequest:
        return step_up_for(self.requested.resource)


def parse_query(service: AuthenticateService, query: str) -> dict[str, str]:
    """Return the parameters of an authorization request.  Raises InvalidAuthorizationRequest."""
    url = f"{service.origin}{AUTHORIZE_PATH}?{query}"
    # The sign-in remembers the URL in a cookie.
    if len(url) > MAX_REMEMBERED_URL:
        raise InvalidAuthorizationRequest(
            "invalid_request", Message("its URL is longer than %(limit)s characters", limit=MAX_REMEMBERED_URL)
        )
    if parse(url) is None:
        raise InvalidAuthorizationRequest("invalid_request", Message("its URL contains a character that must be percent-encoded"))
    try:
        return unique_params(query)
    except InvalidRequestError as error:
        raise InvalidAuthorizationRequest(error.error, error.description) from error


async def validate(service: AuthenticateService, params: Mapping[str, str], *, may_fetch: bool) -> AuthorizationRequest:
    """Return the valid request with these parameters.  Raises InvalidAuthorizationRequest."""
    try:
        client = await service.agents.clients.find(params.get("client_id", ""), may_fetch=may_fetch)
    except ClientDocumentError as error:
        raise InvalidAuthorizationRequest("invalid_client", error.message) from error
    return service.agents.validate(params, client)


def refuse(request: HttpRequest, error: InvalidAuthorizationRequest) -> HttpResponse:
    """Return an error to the client, or a page if its redirect URI is not verified: then nothing is sent to it."""
    log.info("authorization request refused", error=error.error, reason=error.reason, request_id=page_context(request).request_id)
    if error.location:
        return responses.redirect(error.location)
    reason = Message("A program asked for access with an invalid request: %(error)s", error=error.reason)
    return responses.render_error(request, 400, reason, advice=RESTART)


async def deny(request: HttpRequest, service: AuthenticateService, query: str) -> HttpResponse:
    """Redirect to the client of an authorization request, with the error that the user did not allow it."""
    try:
        params = parse_query(service, query)
        requested = await validate(service, params, may_fetch=True)
    except InvalidAuthorizationRequest as error:
        return refuse(request, error)
    return responses.redirect(service.agents.deny(params, requested.client))


async def _answer(request: HttpRequest, session: SessionRecord | None, consent: ConsentRequest) -> HttpResponse:
    service = page_context(request).authenticate
    providers = consent.requested.resource.identity_providers
    if session is None or consent.step_up.unmet_requirement(session.claims, session.issued_at, service.clock()):
        named = {"gate_providers": " ".join(providers)} if providers else {}
        return responses.redirect(service.browser_redirects.sign_in_url(consent.path, **consent.step_up.to_url(), **named))
    if providers and session.provider not in providers:
        links = ((Message("Sign in as another user"), SIGN_OUT_PATH),)
        return responses.render_error(request, 403, Sentence("%(error)s.", error=Reason.OTHER_PROVIDER.value), links=links)
    client, resource, scopes = consent.requested.client, consent.requested.resource, consent.requested.scopes
    if request.method == "POST":
        return await _decide(request, service, session, consent)
    if await service.consents.covers(session, client, resource, scopes):
        return await start_agent_sign_in(request, service, session, resource, consent.path)
    return await _consent_page(request, service, session, consent)


# enforcement-point: Authorization server: Consent
async def _decide(request: HttpRequest, service: AuthenticateService, session: SessionRecord, consent: ConsentRequest) -> HttpResponse:
    """Apply the user's decision.  A form without the session's CSRF token shows the page again."""
    if not view_helpers.has_valid_csrf_token(request, service, session):
        return await _consent_page(request, service, session, consent)
    client, resource, scopes = consent.requested.client, consent.requested.resource, consent.requested.scopes
    facts = {"client_id": client.client_id, "resource": resource.uri, "user_id": session.user_id, "session_id": session.id}
    if request.POST.get("decision") != "allow":
        log.info("agent denied", **facts, request_id=page_context(request).request_id)
        response = responses.redirect(service.agents.deny(consent.params, client))
    else:
        await service.consents.record(session, client, resource, scopes)
        log.info("agent allowed", **facts, scopes=list(scopes), request_id=page_context(request).request_id)
        response = await start_agent_sign_in(request, service, session, resource, consent.path)
    if response.status_code == 302:
        response.status_code = 303
    return response


async def _consent_page(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, consent: ConsentRequest
) -> HttpResponse:
    client, resource = consent.requested.client, consent.requested.resource
    token, cookie = service.csrf.token_for(view_helpers.cookie_headers(request), service.clock(), bound_to=session.id)
    user = user_for_session(session, await service.broker.get(USER, session.user_id))
    response = responses.render_page(
        request,
        "authenticate/agent.html",
        # Its form redirects to the provider and to the client.
        form_targets="",
        csrf=token,
        action=consent.path,
        client=client.name,
        user_code="",
        verified_host=client.verified_host,
        is_self_registered=client.registration is Registration.DYNAMIC,
        redirect_host=urlsplit(consent.requested.redirect_uri).netloc,
        is_unproven=_is_unproven(client, consent.requested.redirect_uri),
        resource=resource.name,
        resource_uri=resource.uri,
        scopes=[(scope, resource.scopes[scope]) for scope in consent.requested.scopes],
        user_name=user.email or user.name or user.id,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


def _is_unproven(client: OAuthClient, redirect_uri: str) -> bool:
    """Return whether any program on the user's machine could claim to be this client: its redirect URI is a loopback address, and it has
    no secret and no key."""
    uri = parse_redirect_uri(redirect_uri)
    return not client.is_confidential and uri is not None and uri.is_loopback
