"""Connections to third-party MCP servers: start and end on the sessions page, and the callback of the server's authorization server."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import structlog
from authlib.oauth2.rfc6749 import OAuth2Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authenticate.oauth.server_metadata import AUTHORIZE_PATH
from authenticate.page_paths import SESSIONS_PATH
from authenticate.provider.tokens.token_response import InvalidGrant, sanitize
from authenticate.service import AuthenticateService, page_context
from authenticate.upstream_oauth.connection_service import ListedServer
from authenticate.upstream_oauth.server_discovery import ServerEndpoints
from authenticate.views import view_helpers
from authenticate.views.oauth.agent_sign_in import (
    BACK,
    CONNECT_AGAIN,
    accessible_servers,
    continue_at_provider,
    refused_page,
    start_connection,
    unavailable_page,
)
from authenticate.views.oauth.authorize import deny
from authenticate.views.oauth.oauth_responses import unique_params
from authorize.upstream.account_connections import UpstreamServer
from databroker.audit_log import AuditAction, connection_entry
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from foundation.web import responses
from foundation.web.message import Message

STALE = Message("This connection has expired, was already completed, or was started in another browser or session. Nothing was connected.")
DENIED = Message("You did not allow gate to use your account there. Nothing was connected.")
NOT_CONNECTED = Message("The server did not connect your account. Nothing was connected.")
MAX_ERROR = 64  # characters of the server's error code in the log

log = structlog.get_logger(__name__)


class ConnectionRefused(Exception):
    """The authorization response connects nothing.  `message` is for the user, `reason` for the log."""

    def __init__(self, message: str, reason: str, status: int = 400, *, is_denial: bool = False):
        self.message, self.reason, self.status, self.is_denial = message, reason, status, is_denial
        super().__init__(reason)


async def list_servers(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> list[ListedServer]:
    """Return the servers for the sessions page: those that the user may use, or is connected to."""
    servers = await accessible_servers(request) if any(True for _ in service.connections.servers) else {}
    accessible = [uri for uri, server in servers.items() if server.resource.route.is_in_portal]
    return await service.connections.list_servers(session, accessible)


@view_helpers.requires_session("POST", back=BACK)
async def change_connection(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Connect the user's account at a server, or disconnect it."""
    if resource := request.POST.get("disconnect", ""):
        await _disconnect(request, service, session, resource)
        response = responses.redirect(SESSIONS_PATH)
    else:
        server = service.connections.servers.find(request.POST.get("connect", ""))
        response = await start_connection(request, service, session, server, SESSIONS_PATH) if server is not None else refused_page(request)
    if response.status_code == 302:
        response.status_code = 303
    return response


@require_safe
async def connection_client(request: HttpRequest, name: str) -> HttpResponse:
    """Return gate's client ID metadata document for the server that `name` is about."""
    connections = page_context(request).authenticate.connections
    server = next((each for each in connections.servers if unquote(each.callback_name) == name), None)
    if server is None or server.settings.client_id is not None:
        return responses.render_error(request, 404, Message("This page does not exist."))
    response = responses.json_response(connections.client.client_document(server))
    response.headers["Cache-Control"] = "public, max-age=3600"
    return response


@require_safe
@view_helpers.renders_bad_request
async def connection_callback(request: HttpRequest, name: str) -> HttpResponse:
    """Complete a connection with the authorization response of the server that `name` is about."""
    service = page_context(request).authenticate
    try:
        params = unique_params(str(request.META.get("QUERY_STRING", "")))
    except OAuth2Error as error:
        return _refusal_page(request, ConnectionRefused(STALE, str(error.get_error_description())))
    state = params.get("state", "")
    attempt = service.connections.attempts.find(state, view_helpers.cookie_headers(request), service.host_port, service.clock())
    if attempt is None:
        return _refusal_page(request, ConnectionRefused(STALE, "this browser has no attempt with this state"))
    response = await _answer(request, service, attempt, name, params)
    return responses.with_cookies(response, [service.connections.attempts.clear_cookie(state)])


async def _answer(
    request: HttpRequest, service: AuthenticateService, attempt: Mapping[str, Any], name: str, params: Mapping[str, str]
) -> HttpResponse:
    """Connect, and return the page that follows."""
    session = await view_helpers.get_session(request)
    try:
        server = await _complete(request, service, session, attempt, name, params)
    except ConnectionRefused as error:
        path, _, query = attempt["to"].partition("?")
        if error.is_denial and "agent" in attempt and path == AUTHORIZE_PATH:
            log.warning("upstream connection refused", reason=error.reason, request_id=page_context(request).request_id)
            return await deny(request, service, query)
        return _refusal_page(request, error)
    except InvalidGrant as error:
        return _refusal_page(request, ConnectionRefused(Message("The server no longer accepts this code."), str(error)))
    except ProviderError as error:
        return unavailable_page(request, error)
    if session is not None and attempt.get("agent") == session.user_id:
        return await continue_at_provider(request, service, session, server.resource, attempt["to"])
    return responses.redirect(attempt["to"])


# enforcement-point: Upstream requests: Connections to third-party MCP servers
async def _complete(
    request: HttpRequest,
    service: AuthenticateService,
    session: SessionRecord | None,
    attempt: Mapping[str, Any],
    name: str,
    params: Mapping[str, str],
) -> UpstreamServer:
    """Check that the response belongs to an attempt of this session at this server, and is its first; then connect.

    Raises ConnectionRefused, ProviderError and BrokerError; then nothing is connected.
    """
    connections = service.connections
    if session is None or attempt["session"] != session.id:
        raise ConnectionRefused(STALE, "no attempt of this session has this state")
    server = connections.servers.find(attempt["resource"])
    if server is None or server.fingerprint != attempt["server"]:
        raise ConnectionRefused(Message("The settings of this server have changed. Nothing was connected."), "the settings have changed")
    endpoints = await connections.client.discovery.find(server)
    if name != unquote(server.callback_name) or attempt["issuer"] != endpoints.issuer or not _is_issuer(params, endpoints):
        raise ConnectionRefused(Message("Another server sent this response. Nothing was connected."), "another server responded")
    if not await service.replay_guard.consume_state(params["state"]):
        raise ConnectionRefused(STALE, "the state was used before")
    if "error" in params or "code" not in params:
        raise _server_refusal(params)
    tokens = await connections.client.exchange_code(server, endpoints, params["code"], attempt["verifier"])
    await connections.save(session, server, endpoints, tokens)
    # After the connection was written, so that a concurrent deactivation either deletes it or is found here.
    if await view_helpers.get_session(request) is None or await service.is_deactivated(session):
        await connections.disconnect(session, server.resource.uri)
        raise ConnectionRefused(STALE, "the session has ended")
    await _record(request, service, session, AuditAction.CONNECT_SERVER, server.resource.uri)
    return server


def _is_issuer(params: Mapping[str, str], endpoints: ServerEndpoints) -> bool:
    """Return whether the response is of the issuer that was asked, as far as that is known (RFC 9207 2.4)."""
    if "iss" not in params:
        return not endpoints.sends_iss
    return not endpoints.issuer or params["iss"] == endpoints.issuer


def _server_refusal(params: Mapping[str, str]) -> ConnectionRefused:
    """Return the refusal for an error response.  The description is only logged, because any sender of the browser can write it."""
    code = sanitize(params.get("error", "no code"))[:MAX_ERROR]
    description = sanitize(params.get("error_description", ""))
    reason, is_denial = f"the server returned {code!r}" + (f" ({description})" if description else ""), code == "access_denied"
    return ConnectionRefused(DENIED if is_denial else NOT_CONNECTED, reason, is_denial=is_denial)


def _refusal_page(request: HttpRequest, error: ConnectionRefused) -> HttpResponse:
    log.warning("upstream connection refused", reason=error.reason, request_id=page_context(request).request_id)
    return responses.render_error(request, error.status, error.message, advice=CONNECT_AGAIN, links=BACK)


async def _disconnect(request: HttpRequest, service: AuthenticateService, session: SessionRecord, resource: str) -> None:
    if await service.connections.disconnect(session, resource):
        await _record(request, service, session, AuditAction.DISCONNECT_SERVER, resource)


async def _record(request: HttpRequest, service: AuthenticateService, session: SessionRecord, action: AuditAction, resource: str) -> None:
    gate, server = page_context(request), service.connections.servers.find(resource)
    name = server.name if server is not None else resource
    entry = connection_entry(service.clock(), session, gate.options.providers, gate.client_address, action, resource, name)
    await service.audit_writer.enqueue(entry)
