"""Verification page of device authorization (RFC 8628 3.3): the user enters the code of a device, and decides.

A link with the code only fills in the form, because an attacker may have sent it (RFC 8628 5.4).
"""

from dataclasses import dataclass
from urllib.parse import parse_qs, urlencode

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.oauth.device_authorizations import StoredDevice, TooManyInvalidCodes
from authenticate.oauth.oauth_client import DEVICE_CODE, OAuthClient
from authenticate.oauth.oauth_records import DeviceState
from authenticate.oauth.server_metadata import DEVICE_PATH
from authenticate.service import AuthenticateService, page_context
from authenticate.views import view_helpers
from authenticate.views.oauth.agent_sign_in import start_agent_sign_in, step_up_for
from authenticate.views.oauth.authorize import SIGN_OUT_PATH
from authorize.policy.reasons import Reason
from authorize.protected_resources import ProtectedResource
from databroker.records import USER, SessionRecord
from databroker.session_reader import user_for_session
from foundation.crypto.device_codes import normalize_user_code
from foundation.web import responses
from foundation.web.message import Message, Sentence

log = structlog.get_logger(__name__)

UNKNOWN_CODE = Message("This code is not valid, has expired, or was used. Check it, or request a new one on the device.")
UNAVAILABLE = Message("The program or the application of this code is no longer configured.")
TOO_MANY = Message("Too many codes that are not valid were entered. Try again in ten minutes.")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """Device that waits for the user's decision."""

    user_code: str
    device: StoredDevice
    client: OAuthClient
    resource: ProtectedResource

    @property
    def path(self) -> str:
        return page_path(self.user_code)


def page_path(user_code: str) -> str:
    return f"{DEVICE_PATH}?{urlencode({'user_code': user_code})}" if user_code else DEVICE_PATH


# Django's CSRF token protects the admin; this form has gate's, bound to the session.
@csrf_exempt
@view_helpers.renders_bad_request
async def device(request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "POST"):
        return HttpResponseNotAllowed(["GET", "POST"])
    service, session = page_context(request).authenticate, await view_helpers.get_session(request)
    entered = (request.POST if request.method == "POST" else request.GET).get("user_code", "")
    user_code = normalize_user_code(entered)
    if session is None:
        return _see_other(request, responses.redirect(service.browser_redirects.sign_in_url(page_path(user_code))))
    if request.method == "GET" or not view_helpers.has_valid_csrf_token(request, service, session):
        return _code_page(request, service, session, user_code)
    try:
        found = await service.agents.devices.find_by_user_code(user_code, session, page_context(request).client_address)
    except TooManyInvalidCodes:
        return _code_page(request, service, session, user_code, TOO_MANY, status=429)
    waiting = _validate(service, user_code, found)
    if isinstance(waiting, Message):
        return _code_page(request, service, session, entered[:100], waiting, status=400)
    return _see_other(request, await _answer(request, service, session, waiting))


async def find_request(service: AuthenticateService, query: str) -> DeviceRequest | Message:
    """Return the request in the query of the page, or what is wrong with it."""
    user_code = normalize_user_code(next(iter(parse_qs(query).get("user_code", ())), ""))
    return _validate(service, user_code, await service.agents.devices.find_pending(user_code))


# enforcement-point: Authorization server: Configuration of a device
def _validate(service: AuthenticateService, user_code: str, found: StoredDevice | None) -> DeviceRequest | Message:
    """Check the client, the resource and the scopes again, because the configuration may have changed."""
    if found is None:
        return UNKNOWN_CODE
    device = found.authorization
    client = service.agents.clients.find_for_session(device.client_id, None)
    if client is None or not client.check_grant_type(DEVICE_CODE):
        return UNAVAILABLE
    resource = service.agents.resources.find(device.resource, of_command_line=client.is_command_line)
    if resource is None or not set(device.scopes) <= set(resource.scopes):
        return UNAVAILABLE
    return DeviceRequest(user_code, found, client, resource)


async def _answer(request: HttpRequest, service: AuthenticateService, session: SessionRecord, waiting: DeviceRequest) -> HttpResponse:
    providers, step_up = waiting.resource.identity_providers, step_up_for(waiting.resource)
    if step_up.unmet_requirement(session.claims, session.issued_at, service.clock()):
        named = {"gate_providers": " ".join(providers)} if providers else {}
        return responses.redirect(service.browser_redirects.sign_in_url(waiting.path, **step_up.to_url(), **named))
    if providers and session.provider not in providers:
        links = ((Message("Sign in as another user"), SIGN_OUT_PATH),)
        return responses.render_error(request, 403, Sentence("%(error)s.", error=Reason.OTHER_PROVIDER.value), links=links)
    decision = request.POST.get("decision", "")
    if decision == "allow":
        return await _allow(request, service, session, waiting)
    if decision == "deny":
        return await _deny(request, service, session, waiting)
    return await _confirmation_page(request, service, session, waiting)


# enforcement-point: Authorization server: Consent to a device
async def _allow(request: HttpRequest, service: AuthenticateService, session: SessionRecord, waiting: DeviceRequest) -> HttpResponse:
    """Continue as after the consent page."""
    log.info("agent allowed", **_facts(session, waiting), request_id=page_context(request).request_id)
    return await start_agent_sign_in(request, service, session, waiting.resource, waiting.path)


async def _deny(request: HttpRequest, service: AuthenticateService, session: SessionRecord, waiting: DeviceRequest) -> HttpResponse:
    if not await service.agents.devices.decide(waiting.device, DeviceState.DENIED):
        return _code_page(request, service, session, waiting.user_code, UNKNOWN_CODE, status=400)
    log.info("agent denied", **_facts(session, waiting), request_id=page_context(request).request_id)
    return responses.render_page(request, "authenticate/device.html", outcome=DeviceState.DENIED)


async def approve(request: HttpRequest, service: AuthenticateService, waiting: DeviceRequest, session: SessionRecord) -> HttpResponse:
    """Give the device its session, and return the result page.  The session ends if another decision was made."""
    if not await service.agents.devices.decide(waiting.device, DeviceState.APPROVED, session.id):
        await service.sessions.end(session)
        return responses.render_error(request, 400, UNKNOWN_CODE)
    return responses.render_page(request, "authenticate/device.html", outcome=DeviceState.APPROVED)


def _facts(session: SessionRecord, waiting: DeviceRequest) -> dict[str, object]:
    device = waiting.device.authorization
    facts = {"client_id": device.client_id, "resource": device.resource, "user_id": session.user_id, "session_id": session.id}
    return {**facts, "scopes": list(device.scopes), "device_address": device.client_address}


def _code_page(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, user_code: str, problem: str = "", status: int = 200
) -> HttpResponse:
    token, cookie = service.csrf.token_for(view_helpers.cookie_headers(request), service.clock(), bound_to=session.id)
    response = responses.render_page(
        request,
        "authenticate/device.html",
        status=status,
        csrf=token,
        action=DEVICE_PATH,
        outcome="",
        user_code=user_code,
        problem=problem,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


async def _confirmation_page(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, waiting: DeviceRequest
) -> HttpResponse:
    token, cookie = service.csrf.token_for(view_helpers.cookie_headers(request), service.clock(), bound_to=session.id)
    user = user_for_session(session, await service.broker.get(USER, session.user_id))
    device, resource = waiting.device.authorization, waiting.resource
    response = responses.render_page(
        request,
        "authenticate/agent.html",
        # Its form redirects to the provider.
        form_targets="",
        csrf=token,
        action=DEVICE_PATH,
        client=waiting.client.name,
        verified_host="",
        is_self_registered=False,
        is_unproven=False,
        user_code=waiting.user_code,
        device_address=device.client_address,
        resource=resource.name,
        resource_uri=resource.uri,
        scopes=[(scope, resource.scopes[scope]) for scope in device.scopes],
        user_name=user.email or user.name or user.id,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


def _see_other(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    if request.method == "POST" and response.status_code == 302:
        response.status_code = 303
    return response
