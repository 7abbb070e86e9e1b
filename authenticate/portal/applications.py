"""Applications of the portal: what people are told of a route that they may open."""

from collections.abc import Iterable
from dataclasses import dataclass

from authorize.accessible_routes import AccessibleRoute, entry_path
from config.routes.route import Route
from foundation.values import Url, WatchedFile, parse_ip

FIRST_UNPRIVILEGED_PORT = 1024  # below it only an administrator of the machine may listen


@dataclass(frozen=True, slots=True)
class Application:
    """Application that its reader may open.  `key` is what it is known by from one configuration to the next: where it starts.
    `id` is that of `RouteLinks`.

    `url` opens it; for a route for TCP it is "" and `command` what opens its tunnel.  `icon` is a word, a file, or None.  `order` is
    that of categories and in them: what has no category comes last.
    """

    id: str
    key: str
    title: str
    description: str
    category: str
    address: str
    url: str
    command: str
    icon: str | WatchedFile | None
    needs_step_up: bool
    has_partial_access: bool
    order: tuple[bool, str, str, str]

    def matches(self, words: Iterable[str]) -> bool:
        """Whether all of these words, case-folded, are in what is said of it."""
        said = "\n".join((self.title, self.description, self.category, self.address)).casefold()
        return all(word in said for word in words)


def to_application(opening: AccessibleRoute, authenticate_url: Url, link_id: str) -> Application:
    """Application of an opening; `authenticate_url` says at which port of gate's the pages are."""
    route, path = opening.route.route, entry_path(opening.route) or "/"
    address = route.from_.host_port if path == "/" else f"{route.from_.host_port}{path}"
    title, category, key = route.title or _made_title(route, path), route.category or "", f"{route.from_.origin}{path}"
    return Application(
        id=link_id,
        key=key,
        title=title,
        description=route.description or "",
        category=category,
        address=address,
        url="" if route.is_tcp else key,
        command=_command(route.from_, authenticate_url) if route.is_tcp else "",
        icon=route.icon,
        needs_step_up=opening.needs_step_up,
        has_partial_access=opening.is_partially_accessible,
        order=(not category, category.casefold(), title.casefold(), key),
    )


def _made_title(route: Route, path: str) -> str:
    name = _name_of_host(route.from_.host)
    if route.is_tcp:
        return f"{name} {route.from_.port}"
    return name if path == "/" else f"{name} {path}"


def _name_of_host(host: str) -> str:
    """`Team wiki` of team-wiki.example.com."""
    if parse_ip(host.strip("[]")) is not None:
        return host
    labels = host.split(".")
    label = labels[1] if labels[0] == "www" and len(labels) > 2 else labels[0]
    if label.startswith("xn--"):
        return host
    words = label.replace("-", " ")
    return words[:1].upper() + words[1:]


def _command(address: Url, authenticate_url: Url) -> str:
    """Line for a terminal.  Hosts and ports of a configuration hold nothing that a shell reads."""
    parts = ["gate tunnel", address.host_port]
    if address.port is not None and address.port >= FIRST_UNPRIVILEGED_PORT:
        parts.append(f"--listen 127.0.0.1:{address.port}")
    if authenticate_url.port is not None:
        parts.append(f"--url https://{address.host}:{authenticate_url.port}")
    return " ".join(parts)
