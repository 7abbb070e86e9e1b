"""Protected resources: what an access token is for, by its URI (RFC 8707 2, RFC 9728).

MCP servers are resources of every OAuth client.  Hosts and TCP tunnels are resources of gate's command line only, so that a token of any
other client is valid at an MCP server alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain

from authorize.policy.policy_request import PolicyRequest
from config.routes.policy.policy_language import SHADOW
from config.routes.route import Route
from config.routes.route_mcp import McpSettings, is_mcp_endpoint, mcp_resource_uri
from config.settings.oauth_settings import COMMAND_LINE_ID
from foundation.values import Url, parse_url

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_RESOURCE_LENGTH = 1024


class ResourceKind(Enum):
    MCP = "MCP server"
    HOST = "host"  # every path of its routes, without their MCP endpoints
    TUNNEL = "TCP tunnel"


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """MCP server or TCP tunnel of a route at one host, or the routes of a host.  `uri` has no trailing slash."""

    uri: str
    origin: str
    kind: ResourceKind
    routes: tuple[Route, ...]

    @property
    def route(self) -> Route:
        """Return the route of an MCP server or tunnel, the first one of a host."""
        return self.routes[0]

    @property
    def name(self) -> str:
        title = (self.route.title or self.route.name) if len(self.routes) == 1 else None
        return (self._mcp.name if self._mcp is not None else None) or title or self.origin.partition("://")[2]

    @property
    def _mcp(self) -> McpSettings | None:
        return self.route.mcp if self.kind is ResourceKind.MCP else None

    @property
    def scopes(self) -> Mapping[str, str]:
        return self._mcp.scopes if self._mcp is not None else {}

    @property
    def session_seconds(self) -> float | None:
        """Lifetime of its agents' sessions; None if the route has no value."""
        expire = self._mcp.agent_session_expire if self._mcp is not None else None
        return expire.total_seconds() if expire is not None else None

    @property
    def identity_providers(self) -> tuple[str, ...]:
        return common_providers(self.routes)

    @property
    def acr_values(self) -> tuple[str, ...]:
        """Authentication contexts that its routes require, () if they differ: then the route of a request decides."""
        required = {route.acr_values for route in self.routes}
        return self.route.acr_values if len(required) == 1 else ()

    @property
    def max_age_seconds(self) -> int | None:
        """Maximum age of the sign-in that is enough for one of its routes at least, None if one has no limit."""
        ages = [route.max_age for route in self.routes if route.max_age is not None]
        return int(max(ages).total_seconds()) if len(ages) == len(self.routes) else None

    @property
    def path(self) -> str:
        """Path of the URI: "" for the whole host."""
        return self.uri.removeprefix(self.origin)

    @property
    def metadata_url(self) -> str:
        """URL of the metadata document of an MCP server (RFC 9728 3.1)."""
        return f"{self.origin}{WELL_KNOWN}{self.path}"

    # enforcement-point: Authorization server: Clients of a resource
    def accepts(self, client_id: str) -> bool:
        """Return whether tokens of a client may be for this resource.

        A host and the MCP server of the whole host have one URI, so the client decides which of them a token is for.
        """
        return (client_id == COMMAND_LINE_ID) is (self.kind is not ResourceKind.MCP)

    def at(self, host_port: str) -> "ProtectedResource":
        """Return the resource of a wildcard route at a host."""
        origin = f"{self.origin.partition('://')[0]}://{host_port}"
        return replace(self, uri=f"{origin}{self.path}", origin=origin)


def mcp_server_for(route: Route, host_port: str) -> ProtectedResource | None:
    """Return the MCP server of a route at a host that it matches; None without `mcp`."""
    if route.mcp is None:
        return None
    return ProtectedResource(mcp_resource_uri(route, host_port), f"{route.from_.scheme}://{host_port}", ResourceKind.MCP, (route,))


# enforcement-point: Authorization server: Resource of a request
def requested_kind(route: Route, request: PolicyRequest) -> ResourceKind:
    """Return what a request needs a token for: the tunnel, the MCP server, or the host otherwise."""
    if request.is_tunnel:
        return ResourceKind.TUNNEL
    return ResourceKind.MCP if is_mcp_endpoint(route, request.path) else ResourceKind.HOST


def requested_resource(route: Route, request: PolicyRequest) -> ProtectedResource:
    """Return the resource that a request to its route belongs to."""
    kind = requested_kind(route, request)
    if kind is ResourceKind.MCP and (server := mcp_server_for(route, request.host_port)) is not None:
        return server
    origin = f"{route.from_.scheme}://{request.host_port}"
    return ProtectedResource(origin, origin, kind, (route,))


def common_providers(routes: Iterable[Route]) -> tuple[str, ...]:
    """Return the identity providers that these routes accept; () if a route accepts all providers."""
    providers = [route.identity_providers for route in routes]
    return tuple(dict.fromkeys(chain.from_iterable(providers))) if all(providers) else ()


class ProtectedResources:
    """Resources of one configuration.  If two routes have the URI of one MCP server, the first counts."""

    def __init__(self, routes: Iterable[Route], reserved_hosts: frozenset[str] = frozenset()):
        self._servers: dict[str, ProtectedResource] = {}  # a wildcard route by its `from`
        self._routes: defaultdict[str, list[Route]] = defaultdict(list)  # those of a host or tunnel, by its origin
        self._reserved_hosts = reserved_hosts
        for route in routes:
            if (server := mcp_server_for(route, route.from_.host_port)) is not None:
                self._servers.setdefault(server.uri, server)
            if route.mode != SHADOW:
                self._routes[route.from_.origin].append(route)

    def __iter__(self) -> Iterator[ProtectedResource]:
        """Return the MCP servers."""
        return iter(self._servers.values())

    # enforcement-point: Authorization server: Audience of tokens
    def find(self, uri: str, *, of_command_line: bool = False) -> ProtectedResource | None:
        """Return the resource that a client names.  Scheme and host may have any case, and the path a trailing slash.

        `of_command_line`: the client is gate's command line, which has hosts and tunnels instead of MCP servers.
        """
        if len(uri) > MAX_RESOURCE_LENGTH or "?" in uri:
            return None
        try:
            url = parse_url(uri)
        except ValueError:
            return None
        path = url.path.rstrip("/")
        if of_command_line:
            return self._find_host(url) if not path else None
        if (found := self._servers.get(f"{url.origin}{path}")) is not None:
            return found
        wildcard = self._servers.get(f"{_wildcard_origin(url)}{path}")
        return wildcard.at(url.host_port) if wildcard is not None else None

    def _find_host(self, url: Url) -> ProtectedResource | None:
        """Return a host or tunnel.  As for requests, a host with its own routes has none of a wildcard."""
        wildcards = self._routes.get(_wildcard_origin(url), ()) if url.host not in self._reserved_hosts else ()
        routes = tuple(self._routes.get(url.origin) or wildcards)
        if all(route.mcp is not None and route.mcp.path is None for route in routes):
            return None
        kind = ResourceKind.TUNNEL if routes[0].is_tcp else ResourceKind.HOST
        return ProtectedResource(url.origin, url.origin, kind, routes)

    def for_host(self, host: str, port: int | None) -> tuple[ProtectedResource, ...]:
        """Return the MCP servers of a host, in the order of the routes."""
        for name in (host, _wildcard_for(host)):
            found = [each for each in self if (each.route.from_.host, each.route.from_.port) == (name, port)]
            if found:
                host_port = host if port is None else f"{host}:{port}"
                return tuple(each.at(host_port) for each in found)
        return ()


def _wildcard_origin(url: Url) -> str:
    return Url(url.scheme, _wildcard_for(url.host), url.port).origin


def _wildcard_for(host: str) -> str:
    return f"*.{host.partition('.')[2]}"
