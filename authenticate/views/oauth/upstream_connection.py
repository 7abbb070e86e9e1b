"""Connections to third-party MCP servers: start and end on the sessions page, and the callback of the server's authorization server."""

import secrets
from urllib.parse import unquote

import structlog
from authlib.oauth2.rfc6749 import OAuth2Error
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authenticate.page_paths import SESSIONS_PATH
from authenticate.provider.tokens.token_response import InvalidGrant, sanitize
from authenticate.service import AuthenticateService, page_context
from authenticate.upstream_oauth.connection_service import ListedServer
from authenticate.views import view_helpers
from authenticate.views.oauth.oauth_responses import unique_params
from authorize.upstream.upstream_connections import UpstreamServer, upstream_server
from databroker.audit_log import AuditAction, connection_entry
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from foundation.web import responses
from foundation.web.message import Message

BACK = ((Message("Back to your sessions"), SESSIONS_PATH),)
STALE = Message("This connection has expired, was already completed, or was started in another browser or session. Nothing was connected.")
CONNECT_AGAIN = Message("Connect the server again on the page My sessions.")
MAX_ERROR = 64  # characters of the server's error code in the log

log = structlog.get_logger(__name__)


class ConnectionRefused(Exception):
    """The authorization response connects nothing.  `message` is for the user, `reason` for the log."""

    def __init__(self, message: str, reason: str, status: int = 400):
        self.message, self.reason, self.status = message, reason, status
        super().__init__(reason)


async def list_servers(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> list[ListedServer]:
    """Return the servers for the sessions page: those that the user may use, or is connected to."""
    accessible = list(await _accessible_servers(request)) if any(True for _ in service.connections.servers) else []
    return await service.connections.list_servers(session, accessible)


@view_helpers.requires_session("POST", back=BACK)
async def change_connection(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Connect the user's account at a server, or disconnect it."""
    if resource := request.POST.get("disconnect", ""):
        await _disconnect(request, service, session, resource)
        response = responses.redirect(SESSIONS_PATH)
    else:
        server = (await _accessible_servers(request)).get(request.POST.get("connect", ""))
        if server is None:
            reason = Message("This server is not configured, or you may not use it. Nothing was changed.")
            return responses.render_error(request, 404, reason, links=BACK)
        response = start_connection(request, service, session, server, SESSIONS_PATH)
    response.status_code = 303
    return response


def start_connection(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, server: UpstreamServer, return_path: str
) -> HttpResponse:
    """Redirect to the server's authorization server.  `return_path` is the page that follows on the authenticate host."""
    verifier = secrets.token_urlsafe(48)
    attempt = {
        "verifier": verifier,
        "resource": server.resource.uri,
        "server": server.fingerprint,
        "session": session.id,
        "to": return_path,
    }
    headers = view_helpers.cookie_headers(request)
    state, cookies = service.connections.attempts.start(attempt, service.host_port, headers, service.clock())
    url = service.connections.authorization_url(server, state, create_s256_code_challenge(verifier))
    return responses.redirect(url, cookies)


@require_safe
async def connection_callback(request: HttpRequest, name: str) -> HttpResponse:
    """Complete a connection with the authorization response of the server that `name` is about."""
    service = page_context(request).authenticate
    session = await view_helpers.get_session(request)
    state = ""
    try:
        params = unique_params(str(request.META.get("QUERY_STRING", "")))
        state = params.get("state", "")
        return_path = await _complete(request, service, session, name, params)
    except OAuth2Error as error:
        return _refusal_page(request, service, state, ConnectionRefused(STALE, str(error.get_error_description())))
    except ConnectionRefused as error:
        return _refusal_page(request, service, state, error)
    except InvalidGrant as error:
        return _refusal_page(request, service, state, ConnectionRefused(Message("The server no longer accepts this code."), str(error)))
    except ProviderError as error:
        unavailable = Message("The server is not responding, or its response is invalid. Nothing was connected.")
        return _refusal_page(request, service, state, ConnectionRefused(unavailable, str(error), 503))
    return responses.redirect(return_path, [service.connections.attempts.clear_cookie(state)])


# enforcement-point: Upstream requests: Connections to third-party MCP servers
async def _complete(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord | None, name: str, params: dict[str, str]
) -> str:
    """Check that the response belongs to an attempt of this browser and session at this server, and is its first; then connect.

    Return the path of the page that follows.  Raises ConnectionRefused, ProviderError and BrokerError; then nothing is connected.
    """
    connections, state = service.connections, params.get("state", "")
    attempt = connections.attempts.find(state, view_helpers.cookie_headers(request), service.host_port, service.clock())
    if attempt is None or session is None or attempt["session"] != session.id:
        raise ConnectionRefused(STALE, "no attempt of this session has this state")
    server = connections.servers.find(attempt["resource"])
    if server is None or server.fingerprint != attempt["server"]:
        raise ConnectionRefused(Message("The settings of this server have changed. Nothing was connected."), "the settings have changed")
    issuer = server.settings.issuer
    if name != unquote(server.callback_name) or (issuer is not None and params.get("iss", str(issuer)) != str(issuer)):
        raise ConnectionRefused(Message("Another server sent this response. Nothing was connected."), "another server responded")
    if not await service.replay_guard.consume_state(state):
        raise ConnectionRefused(STALE, "the state was used before")
    if "error" in params or "code" not in params:
        raise _server_refusal(params)
    tokens = await connections.client.exchange_code(server, params["code"], attempt["verifier"], connections.redirect_uri(server))
    await connections.save(session, server, tokens)
    # After the connection was written, so that a concurrent deactivation either deletes it or is found here.
    if await view_helpers.get_session(request) is None or await service.is_deactivated(session):
        await connections.disconnect(session, server.resource.uri)
        raise ConnectionRefused(STALE, "the session has ended")
    await _record(request, service, session, AuditAction.CONNECT_SERVER, server.resource.uri)
    return str(attempt["to"])


def _server_refusal(params: dict[str, str]) -> ConnectionRefused:
    """Return the refusal for an error response.  The description is only logged, because any sender of the browser can write it."""
    code = sanitize(params.get("error", "no code"))[:MAX_ERROR]
    description = sanitize(params.get("error_description", ""))
    if code == "access_denied":
        message = Message("You did not allow gate to use your account there. Nothing was connected.")
    else:
        message = Message("The server did not connect your account. Nothing was connected.")
    return ConnectionRefused(message, f"the server returned {code!r}" + (f" ({description})" if description else ""))


def _refusal_page(request: HttpRequest, service: AuthenticateService, state: str, error: ConnectionRefused) -> HttpResponse:
    log.warning("upstream connection refused", reason=error.reason, request_id=page_context(request).request_id)
    response = responses.render_error(request, error.status, error.message, advice=CONNECT_AGAIN, links=BACK)
    return responses.with_cookies(response, [service.connections.attempts.clear_cookie(state)] if error.message is not STALE else [])


async def _disconnect(request: HttpRequest, service: AuthenticateService, session: SessionRecord, resource: str) -> None:
    if await service.connections.disconnect(session, resource):
        await _record(request, service, session, AuditAction.DISCONNECT_SERVER, resource)


async def _record(request: HttpRequest, service: AuthenticateService, session: SessionRecord, action: AuditAction, resource: str) -> None:
    gate, server = page_context(request), service.connections.servers.find(resource)
    name = server.name if server is not None else resource
    entry = connection_entry(service.clock(), session, gate.options.providers, gate.client_address, action, resource, name)
    await service.audit_writer.enqueue(entry)


async def _accessible_servers(request: HttpRequest) -> dict[str, UpstreamServer]:
    """Return the servers that the user may use, by the URI of their resource."""
    gate = page_context(request)
    found = await gate.authorize.accessible_routes(gate.incoming.request, view_helpers.cookie_headers(request))
    servers = filter(None, (upstream_server(each.route.route) for each in found))
    return {server.resource.uri: server for server in servers}
