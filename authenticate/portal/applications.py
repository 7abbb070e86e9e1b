"""Applications of the portal: the display data of routes that a user may open."""

from collections.abc import Iterable
from dataclasses import dataclass

from authorize.accessible_routes import AccessibleRoute, entry_path
from config.routes.route import Route
from config.routes.route_mcp import is_mcp_endpoint, mcp_resource_uri
from foundation.values import Url, WatchedFile, parse_ip
from foundation.web.message import Message

MCP_SERVERS = Message("MCP servers")
FIRST_UNPRIVILEGED_PORT = 1024  # lower ports need privileges to listen


@dataclass(frozen=True, slots=True)
class Application:
    """Application that the user may open.

    `key` is its start URL, which identifies it across configurations; `id` is that of `RouteLinks`.  `url` is "" if a browser can't open
    it: `command` opens the tunnel of a TCP route, and MCP clients connect to `mcp_url`.  `icon` is the name of a built-in icon, a file,
    or None.  `order` sorts by category, those without last.
    """

    id: str
    key: str
    title: str
    description: str
    category: str
    address: str
    url: str
    command: str
    mcp_url: str
    icon: str | WatchedFile | None
    needs_step_up: bool
    has_partial_access: bool
    order: tuple[bool, str, str, str]

    @property
    def heading(self) -> str:
        return self.category or (MCP_SERVERS if self.mcp_url else "")

    def matches(self, terms: Iterable[str]) -> bool:
        """Return whether all of these case-folded terms occur in the title, description, category or address."""
        text = "\n".join((self.title, self.description, self.category, self.address)).casefold()
        return all(term in text for term in terms)


def to_application(opening: AccessibleRoute, authenticate_url: Url, link_id: str) -> Application:
    """Return the application of an accessible route.  `authenticate_url` has the port of gate for the tunnel command."""
    route, path = opening.route.route, entry_path(opening.route) or "/"
    address = route.from_.host_port if path == "/" else f"{route.from_.host_port}{path}"
    mcp_name = route.mcp.name if route.mcp is not None else None
    title, category, key = route.title or mcp_name or _default_title(route, path), route.category or "", f"{route.from_.origin}{path}"
    mcp_url = mcp_resource_uri(route, route.from_.host_port) if opening.serves_mcp else ""
    # An MCP server has no pages at its endpoint.
    has_page = opening.opens_page and not route.is_tcp and not (mcp_url and is_mcp_endpoint(route, path))
    return Application(
        id=link_id,
        key=key,
        title=title,
        description=route.description or "",
        category=category,
        address=address,
        url=key if has_page else "",
        command=_command(route.from_, authenticate_url) if route.is_tcp else "",
        mcp_url=mcp_url,
        icon=route.icon,
        needs_step_up=opening.needs_step_up,
        has_partial_access=opening.is_partially_accessible,
        order=(not category, category.casefold() or (MCP_SERVERS if mcp_url else ""), title.casefold(), key),
    )


def _default_title(route: Route, path: str) -> str:
    name = _title_from_host(route.from_.host)
    if route.is_tcp:
        return f"{name} {route.from_.port}"
    return name if path == "/" else f"{name} {path}"


def _title_from_host(host: str) -> str:
    """Return a title for a host: `Team wiki` for team-wiki.example.com."""
    if parse_ip(host.strip("[]")) is not None:
        return host
    labels = host.split(".")
    label = labels[1] if labels[0] == "www" and len(labels) > 2 else labels[0]
    if label.startswith("xn--"):
        return host
    title = label.replace("-", " ")
    return title[:1].upper() + title[1:]


def _command(address: Url, authenticate_url: Url) -> str:
    """Return the tunnel command.  Configured hosts and ports contain no shell metacharacters."""
    parts = ["gate tunnel", address.host_port]
    if address.port is not None and address.port >= FIRST_UNPRIVILEGED_PORT:
        parts.append(f"--listen 127.0.0.1:{address.port}")
    if authenticate_url.port is not None:
        parts.append(f"--url https://{address.host}:{authenticate_url.port}")
    return " ".join(parts)
