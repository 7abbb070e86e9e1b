"""Origin of MCP requests: which pages may use an MCP server from a browser."""

from collections.abc import Callable

from config.routes.route import Route
from proxy.incoming_request import IncomingRequest
from proxy.mcp.mcp_errors import REFUSED, McpRejected


# enforcement-point: Requests: Origin of MCP requests
def require_allowed_origin(incoming: IncomingRequest, route: Route, is_route_origin: Callable[[str], bool]) -> None:
    """Reject pages of other origins, as MCP requires of servers.

    A page may have the origin of the route itself or of another route, and any origin if the route answers CORS preflight requests.
    Programs send no Origin.
    """
    origins = [value for name, value in incoming.scope["headers"] if name == b"origin"]
    if not origins or (route.cors_allow_preflight and len(origins) == 1):
        return
    own = f"{route.from_.scheme}://{incoming.request.host_port}"
    if len(origins) > 1 or not ((origin := origins[0].decode("latin-1")) == own or is_route_origin(origin)):
        raise McpRejected(REFUSED, "pages of this origin may not use the MCP server", status=403)
