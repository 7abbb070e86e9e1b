"""Steps between the user's consent to an agent and the agent's session: an account at a third-party server, and the provider."""

import secrets

import structlog
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from django.http import HttpRequest, HttpResponse

from authenticate.page_paths import SESSIONS_PATH
from authenticate.service import AuthenticateService, page_context
from authenticate.step_up import StepUpRequest
from authenticate.views import view_helpers
from authenticate.views.authorization_request import SignInAttempt, redirect_to_provider
from authorize.protected_resources import ProtectedResource, ResourceKind
from authorize.upstream.account_connections import UpstreamServer, upstream_server
from databroker.records import SessionRecord
from foundation.errors import BadRequest, ProviderError
from foundation.web import responses
from foundation.web.message import Message

BACK = ((Message("Back to your sessions"), SESSIONS_PATH),)
CONNECT_AGAIN = Message("Connect the server again on the page My sessions.")
NOT_ALLOWED = Message("This server is not configured, or you may not use it. Nothing was changed.")
UNAVAILABLE = Message("The server is not responding, or its response is invalid. Nothing was connected.")

log = structlog.get_logger(__name__)


def step_up_for(resource: ProtectedResource) -> StepUpRequest:
    """Return the requirements of the resource's routes."""
    return StepUpRequest(resource.acr_values, resource.max_age_seconds)


async def start_agent_sign_in(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, resource: ProtectedResource, path: str
) -> HttpResponse:
    """Redirect the user who has allowed an agent.  `path` is the page of the decision.

    If the agent needs the user's account at a third-party server, the user connects it first.
    """
    server = service.connections.servers.find(resource.uri) if resource.kind is ResourceKind.MCP else None
    if server is not None and await service.connections.get(session, server) is None:
        return await start_connection(request, service, session, server, path, for_agent=True)
    return await continue_at_provider(request, service, session, resource, path)


async def continue_at_provider(
    request: HttpRequest, service: AuthenticateService, session: SessionRecord, resource: ProtectedResource, path: str
) -> HttpResponse:
    """Redirect to the user's provider for another sign-in.

    The agent's session needs separate tokens, because two sessions cannot share a refresh token that the provider rotates.
    """
    target = service.redirect_targets.resolve(service.origin + path, page_context(request).authorize.is_route_origin)
    if target is None:
        raise BadRequest(Message("the redirect target is not allowed"))
    attempt = SignInAttempt(target, "", session.provider, step_up_for(resource), agent_user_id=session.user_id)
    return await redirect_to_provider(request, service, attempt)


async def start_connection(
    request: HttpRequest,
    service: AuthenticateService,
    session: SessionRecord,
    server: UpstreamServer,
    return_path: str,
    *,
    for_agent: bool = False,
) -> HttpResponse:
    """Redirect to the authorization server of a third-party server.  `return_path` is the page that follows on the authenticate host.

    `for_agent`: it is the page on which the user has allowed an agent, whose sign-in continues.  If the policy denies the user the route,
    the user is not led to the server.
    """
    if server.resource.uri not in await accessible_servers(request):
        return refused_page(request)
    try:
        endpoints = await service.connections.client.discovery.find(server)
    except ProviderError as error:
        return unavailable_page(request, error)
    verifier = secrets.token_urlsafe(48)
    attempt = {"verifier": verifier, "resource": server.resource.uri, "server": server.fingerprint}
    attempt |= {"session": session.id, "to": return_path, "issuer": endpoints.issuer}
    attempt |= {"agent": session.user_id} if for_agent else {}
    headers = view_helpers.cookie_headers(request)
    state, cookies = service.connections.attempts.start(attempt, service.host_port, headers, service.clock())
    url = service.connections.authorization_url(server, endpoints, state, create_s256_code_challenge(verifier))
    return responses.redirect(url, cookies)


# enforcement-point: Upstream requests: Policy before an account is connected
async def accessible_servers(request: HttpRequest) -> dict[str, UpstreamServer]:
    """Return the servers that the user's clients may use, by the URI of their resource."""
    gate = page_context(request)
    found = await gate.authorize.accessible_routes(gate.incoming.request, view_helpers.cookie_headers(request))
    servers = filter(None, (upstream_server(each.route.route) for each in found if each.serves_mcp))
    return {server.resource.uri: server for server in servers}


def refused_page(request: HttpRequest) -> HttpResponse:
    """Return the page for a server that does not exist, or that the policy denies the user."""
    log.warning("upstream connection refused", reason=NOT_ALLOWED, request_id=page_context(request).request_id)
    return responses.render_error(request, 403, NOT_ALLOWED, links=BACK)


def unavailable_page(request: HttpRequest, error: ProviderError) -> HttpResponse:
    """Return the page for a third-party server that does not respond, or not as it must."""
    log.warning("upstream connection refused", reason=str(error), request_id=page_context(request).request_id)
    return responses.render_error(request, 503, UNAVAILABLE, advice=CONNECT_AGAIN, links=BACK)
