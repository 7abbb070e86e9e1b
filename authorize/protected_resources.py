"""Protected resources: routes with `mcp`, by their canonical URI (RFC 8707 2, RFC 9728)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from config.routes.route import Route
from config.routes.route_mcp import is_mcp_endpoint, mcp_resource_uri
from foundation.values import Url, parse_url

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_RESOURCE_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """MCP server of a route at one host.  `uri` has no trailing slash."""

    uri: str
    origin: str
    route: Route

    @property
    def name(self) -> str:
        settings = self.route.mcp
        return (settings.name if settings is not None else None) or self.route.title or self.route.name or self.origin.partition("://")[2]

    @property
    def scopes(self) -> Mapping[str, str]:
        return self.route.mcp.scopes if self.route.mcp is not None else {}

    @property
    def session_seconds(self) -> float | None:
        """Lifetime of its agents' sessions; None if the route has no value."""
        expire = self.route.mcp.agent_session_expire if self.route.mcp is not None else None
        return expire.total_seconds() if expire is not None else None

    @property
    def path(self) -> str:
        """Path of the URI: "" for the whole host."""
        return self.uri.removeprefix(self.origin)

    @property
    def metadata_url(self) -> str:
        """URL of the metadata document (RFC 9728 3.1)."""
        return f"{self.origin}{WELL_KNOWN}{self.path}"

    def covers(self, path: str) -> bool:
        """Return whether a canonical request path, which matches the route, belongs to this resource."""
        return is_mcp_endpoint(self.route, path)


def resource_for(route: Route, host_port: str) -> ProtectedResource | None:
    """Return the resource of a route at a host that it matches; None without `mcp`."""
    if route.mcp is None:
        return None
    return ProtectedResource(mcp_resource_uri(route, host_port), f"{route.from_.scheme}://{host_port}", route)


class ProtectedResources:
    """Resources of one configuration.  If two routes have one URI, the first counts."""

    def __init__(self, routes: Iterable[Route]):
        self._by_uri: dict[str, ProtectedResource] = {}  # a wildcard route by its `from`
        for route in routes:
            if (resource := resource_for(route, route.from_.host_port)) is not None:
                self._by_uri.setdefault(resource.uri, resource)

    def __iter__(self) -> Iterator[ProtectedResource]:
        return iter(self._by_uri.values())

    # enforcement-point: Authorization server: Audience of tokens
    def find(self, uri: str) -> ProtectedResource | None:
        """Return the resource that a client names.  Scheme and host may have any case, and the path a trailing slash."""
        if len(uri) > MAX_RESOURCE_LENGTH or "?" in uri:
            return None
        try:
            url = parse_url(uri)
        except ValueError:
            return None
        path = url.path.rstrip("/")
        if (found := self._by_uri.get(f"{url.origin}{path}")) is not None:
            return found
        wildcard = self._by_uri.get(f"{Url(url.scheme, _wildcard_for(url.host), url.port).origin}{path}")
        return resource_for(wildcard.route, url.host_port) if wildcard is not None else None

    def for_host(self, host: str, port: int | None) -> tuple[ProtectedResource, ...]:
        """Return the resources of a host, in the order of the routes."""
        for name in (host, _wildcard_for(host)):
            found = [each.route for each in self if (each.route.from_.host, each.route.from_.port) == (name, port)]
            if found:
                host_port = host if port is None else f"{host}:{port}"
                return tuple(filter(None, (resource_for(route, host_port) for route in found)))
        return ()


def _wildcard_for(host: str) -> str:
    return f"*.{host.partition('.')[2]}"
