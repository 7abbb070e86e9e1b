"""Subject of an access request: a route, or one tool of an MCP server."""

from authorize.policy.compiled_route import route_name
from config.routes.route import Route
from config.routes.route_access_requests import is_tool_name
from databroker.grants.grant_store import AccessError
from foundation.web.message import Message


def require_requestable(route: Route, tool: str) -> None:
    """Raise AccessError if a request for this tool, or for the complete route, is not accepted."""
    settings = route.access_requests
    if settings is not None and settings.accepts(tool) and (not tool or is_tool_name(tool)):
        return
    if settings is not None and settings.tools and not tool:
        raise AccessError(Message("name the tool; nothing was changed"))
    raise AccessError(Message("access to this tool cannot be requested; nothing was changed"))


def access_title(route: Route, tool: str) -> str:
    """Return the name of a route for requests, with the tool to which access is limited."""
    return f"{route_title(route)}: {tool}" if tool else route_title(route)


def route_title(route: Route) -> str:
    return route.title or route_name(route)
