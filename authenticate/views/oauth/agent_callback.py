"""Callback of an authorization's round trip to the provider: the agent's session, and the redirect to the client or the result page."""

from collections.abc import Mapping
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse

from authenticate.oauth.oauth_client import OAuthClient
from authenticate.oauth.server_metadata import AUTHORIZE_PATH, DEVICE_PATH
from authenticate.oauth.token_service import InvalidAuthorizationRequest
from authenticate.provider.sign_in_result import SignInResult
from authenticate.service import AuthenticateService, page_context
from authenticate.session.session_service import new_session_id
from authenticate.views.oauth.authorize import RESTART, parse_query, refuse, validate
from authenticate.views.oauth.device_page import approve, find_request
from databroker.agent_records import AgentAuthorization
from databroker.audit_log import AuditAction, session_entry
from databroker.records import SessionRecord
from foundation.errors import BadRequest
from foundation.web import responses
from foundation.web.message import Message

log = structlog.get_logger(__name__)

OTHER_USER = Message("Your identity provider signed you in as another user than the one who allowed the program. Nothing was granted.")

DEACTIVATED = Message("Your account is deactivated.")


# enforcement-point: Authorization server: User of an authorization
async def complete_authorization(
    request: HttpRequest, service: AuthenticateService, signed_in: SignInResult, attempt: Mapping[str, Any]
) -> HttpResponse:
    """Return the response to the user.  The request is validated again, because the configuration may have changed."""
    gate = page_context(request)
    if signed_in.user.id != attempt["agent"]:
        log.warning("sign-in refused", reason="another user than the one who allowed the agent", request_id=gate.request_id)
        return responses.render_error(request, 403, OTHER_USER, advice=RESTART)
    target = service.redirect_targets.resolve(attempt["to"], gate.authorize.is_route_origin)
    path, _, query = (target.path if target is not None else "").partition("?")
    if target is None or path not in (AUTHORIZE_PATH, DEVICE_PATH) or not service.redirect_targets.is_authenticate_page(target):
        raise BadRequest(Message("the redirect target is not allowed"))
    if path == DEVICE_PATH:
        return await _complete_device(request, service, signed_in, query)
    try:
        params = parse_query(service, query)
        requested = await validate(service, params, may_fetch=True)
    except InvalidAuthorizationRequest as error:
        return refuse(request, error)
    session_id = new_session_id()
    code, agent = service.agents.new_authorization(requested, params, session_id)
    session = await _create_session(request, service, signed_in, session_id, agent)
    if session is None:
        return responses.render_error(request, 403, DEACTIVATED, advice=RESTART)
    await _report(request, service, session, requested.client)
    return responses.redirect(service.agents.grant(params, requested.client, session, code))


async def _complete_device(request: HttpRequest, service: AuthenticateService, signed_in: SignInResult, query: str) -> HttpResponse:
    """Create the session of a device that the user allowed, and approve the device (RFC 8628 3.3)."""
    waiting = await find_request(service, query)
    if isinstance(waiting, Message):
        return responses.render_error(request, 400, waiting, advice=RESTART)
    session_id = new_session_id()
    agent = service.agents.new_device_session(waiting.device.authorization, waiting.client, waiting.resource)
    session = await _create_session(request, service, signed_in, session_id, agent)
    if session is None:
        return responses.render_error(request, 403, DEACTIVATED, advice=RESTART)
    # The session first, so that an approved device finds it.
    response = await approve(request, service, waiting, session)
    if response.status_code == 200:
        await _report(request, service, session, waiting.client)
    return response


async def _create_session(
    request: HttpRequest, service: AuthenticateService, signed_in: SignInResult, session_id: str, agent: AgentAuthorization
) -> SessionRecord | None:
    """Return the agent's session; None if the user is deactivated."""
    session = await service.sessions.create(
        signed_in,
        service.clock(),
        client_address=page_context(request).client_address,
        user_agent=request.headers.get("User-Agent", ""),
        previous=None,
        session_id=session_id,
        agent=agent,
    )
    # After the session was created, so that a concurrent deactivation either ends it or is found here.
    if await service.is_deactivated(session):
        await service.sessions.end(session)
        return None
    return session


async def _report(request: HttpRequest, service: AuthenticateService, session: SessionRecord, client: OAuthClient) -> None:
    """Retain the client, end the oldest sessions beyond the limit, and write the audit log."""
    gate, now = page_context(request), service.clock()
    await service.agents.clients.dynamic.renew(client)
    ended = [(AuditAction.END_OLDEST_SESSION, each) for each in await service.sessions.end_oldest(session, now)]
    for action, each in [(AuditAction.AUTHORIZE_AGENT, session), *ended]:
        entry = session_entry(now, session, gate.options.providers, gate.client_address, action, each)
        await service.audit_writer.enqueue(entry)
