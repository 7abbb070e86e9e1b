"""Origin of MCP requests: which pages may use an MCP server from a browser."""

import re
from collections.abc import Callable, Collection

from authorize.policy.identity import Identity
from config.options import Options
from config.routes.route import Route
from config.settings.provider_entry import SERVICE_ACCOUNT
from foundation.values import parse_url
from proxy.incoming_request import IncomingRequest
from proxy.mcp.mcp_errors import REFUSED, McpRejected

_LOOPBACK = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::[1-9][0-9]{0,4})?")


def client_origins(options: Options) -> frozenset[str]:
    """Return the origins of the redirect URIs of pre-registered clients: their pages receive tokens anyway."""
    return frozenset(parse_url(uri).origin for client in options.oauth_clients for uri in client.redirect_uris)


# enforcement-point: Requests: Origin of MCP requests
def require_allowed_origin(
    incoming: IncomingRequest, route: Route, is_route_origin: Callable[[str], bool], clients: Collection[str] = frozenset()
) -> None:
    """Reject pages of other origins, as MCP requires of servers.

    A page may have the origin of the route itself or of another route, and any origin if the route answers CORS preflight requests.
    Pages of this machine and of pre-registered clients (`clients`) may use an access token, but neither cookies nor their user's
    address: then `needs_token` is set.  Programs send no Origin.
    """
    origins = [value for name, value in incoming.scope["headers"] if name == b"origin"]
    if not origins or (route.cors_allow_preflight and len(origins) == 1):
        return
    own, origin = f"{route.from_.scheme}://{incoming.request.host_port}", origins[0].decode("latin-1")
    if len(origins) == 1:
        if origin == own or is_route_origin(origin):
            return
        if _LOOPBACK.fullmatch(origin) or origin in clients:
            incoming.needs_token = True
            return
    raise McpRejected(REFUSED, "pages of this origin may not use the MCP server", status=403)


# enforcement-point: Requests: Tokens of pages of MCP clients
def require_access_token(incoming: IncomingRequest, identity: Identity | None) -> None:
    """Reject an allowed request of a page that needs a token, and that something else authorized."""
    if incoming.needs_token and not is_token_identity(identity):
        raise McpRejected(REFUSED, "pages of this origin may use the MCP server with an access token only", status=403)


def is_token_identity(identity: Identity | None) -> bool:
    """Return whether the caller was identified by a token in the Authorization header, which no browser sends by itself."""
    return identity is not None and (identity.has_oauth_token or identity.provider == SERVICE_ACCOUNT)


def is_preflight(incoming: IncomingRequest) -> bool:
    """Return whether this is a CORS preflight request of a page of another origin."""
    request = incoming.request
    return request.method == "OPTIONS" and bool(request.origin and request.access_control_request_method)
