"""Callback of an authorization's round trip to the provider: the agent's session, and the redirect to the client with its code."""

from collections.abc import Mapping
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse

from authenticate.oauth.server_metadata import AUTHORIZE_PATH
from authenticate.oauth.token_service import InvalidAuthorizationRequest
from authenticate.provider.sign_in_result import SignInResult
from authenticate.service import AuthenticateService, page_context
from authenticate.session.session_service import new_session_id
from authenticate.views.oauth.authorize import RESTART, parse_query, refuse, validate
from databroker.audit_log import AuditAction, session_entry
from foundation.errors import BadRequest
from foundation.web import responses
from foundation.web.message import Message

log = structlog.get_logger(__name__)

OTHER_USER = Message("Your identity provider signed you in as another user than the one who allowed the program. Nothing was granted.")


# enforcement-point: Authorization server: User of an authorization
async def complete_authorization(
    request: HttpRequest, service: AuthenticateService, signed_in: SignInResult, attempt: Mapping[str, Any]
) -> HttpResponse:
    """Return the redirect to the client.  The request is validated again, because the configuration may have changed."""
    gate = page_context(request)
    if signed_in.user.id != attempt["agent"]:
        log.warning("sign-in refused", reason="another user than the one who allowed the agent", request_id=gate.request_id)
        return responses.render_error(request, 403, OTHER_USER, advice=RESTART)
    target = service.redirect_targets.resolve(attempt["to"], gate.authorize.is_route_origin)
    path, _, query = (target.path if target is not None else "").partition("?")
    if target is None or path != AUTHORIZE_PATH or not service.redirect_targets.is_authenticate_page(target):
        raise BadRequest(Message("the redirect target is not allowed"))
    try:
        params = parse_query(service, query)
        requested = await validate(service, params, may_fetch=True)
    except InvalidAuthorizationRequest as error:
        return refuse(request, error)
    session_id, now = new_session_id(), service.clock()
    code, agent = service.agents.new_authorization(requested, params, session_id)
    session = await service.sessions.create(
        signed_in,
        now,
        client_address=gate.client_address,
        user_agent=request.headers.get("User-Agent", ""),
        previous=None,
        session_id=session_id,
        agent=agent,
    )
    # After the session was created, so that a concurrent deactivation either ends it or is found here.
    if await service.is_deactivated(session):
        await service.sessions.end(session)
        return responses.render_error(request, 403, Message("Your account is deactivated."), advice=RESTART)
    await service.agents.clients.dynamic.renew(requested.client)
    ended = [(AuditAction.END_OLDEST_SESSION, each) for each in await service.sessions.end_oldest(session, now)]
    for action, each in [(AuditAction.AUTHORIZE_AGENT, session), *ended]:
        entry = session_entry(now, session, gate.options.providers, gate.client_address, action, each)
        await service.audit_writer.enqueue(entry)
    return responses.redirect(service.agents.grant(params, requested.client, session, code))
