"""Which route is a request's?  The first in the list that matches, among those of its host."""

from collections.abc import Iterable
from dataclasses import dataclass

from authorize.policy.canonical import lenient_reading
from authorize.policy.compiled_route import CompiledRoute, compile_route
from authorize.policy.request import AccessRequest
from gateproject.config.policy_language import SHADOW
from gateproject.config.route import Route
from gateproject.errors import BadRequest, ConfigError, Problem


@dataclass(frozen=True, slots=True)
class HostRoutes:
    """The routes of one `from` host and port, in list order.  First match wins, so they are never sorted."""

    routes: tuple[CompiledRoute, ...]
    have_escapes: bool

    def match(self, path: str) -> CompiledRoute | None:
        for route in self.routes:
            if route.matches(path):
                self._refuse_two_readings(path, route)
                return route
        return None

    def _refuse_two_readings(self, path: str, found: CompiledRoute) -> None:
        """`/%2Fadmin`, `//admin` and `/;x/admin` don't match `/admin`, but many an upstream reads them so."""
        reading = lenient_reading(path)
        if reading == path and not self.have_escapes:
            return
        for route in self.routes:
            if route is found:
                return
            if route.resembles(reading):
                raise BadRequest("the path can be read in two ways that belong to different routes")


# Host, port, and whether for TCP: two routes of one host and port, one for each, never stand in for each other.
Address = tuple[str, int | None, bool]


class RouteTable:
    """Indexed by address, so that ten thousand routes cost what ten do."""

    def __init__(self, by_host: dict[Address, HostRoutes], conditions: tuple[bytes | None, bool]):
        self._by_host = by_host
        self.ports = sorted({port for _, port, is_tunnel in by_host if port is not None and not is_tunnel})
        self.hosts = frozenset(host for host, _, _ in by_host)  # wildcards as they are written
        self._tunnel_hosts = frozenset(host for host, _, is_tunnel in by_host if is_tunnel)
        self._conditions = conditions

    def __repr__(self) -> str:
        return f"<RouteTable {sum(len(host.routes) for host in self._by_host.values())} routes, {len(self._by_host)} hosts>"

    @classmethod
    def build(
        cls,
        routes: Iterable[Route],
        default_ports: frozenset[int] = frozenset({443}),
        *,
        client_ca: bytes | None,
        with_shadow: bool = False,
        previous: "RouteTable | None" = None,
    ) -> "RouteTable":
        """ConfigError with every problem of every route.  `client_ca` is that of all routes; it has no default that could be forgotten.

        What is in shadow is left out, as if it were not written; `with_shadow` takes it for enforced, which no request may be
        answered by.  What was compiled for `previous`, under the same conditions, is taken over for routes that are the same objects.
        """
        conditions = (client_ca, with_shadow)
        compiled_before = previous._compiled_under(conditions) if previous is not None else {}
        problems: list[Problem] = []
        lists: dict[Address, list[CompiledRoute]] = {}
        for index, route in enumerate(routes):
            try:
                compiled = compiled_before.get(id(route))
                if compiled is None:
                    compiled = compile_route(route, f"policy[{index}]", client_ca, with_shadow=with_shadow)
            except ConfigError as error:
                problems.extend(error.problems)
                continue
            if route.mode == SHADOW and not with_shadow:
                continue
            # A tunnel's port is a name that the client spells out; no scheme leaves it unsaid.
            port = None if route.from_.port in default_ports and not route.is_tcp else route.from_.port
            lists.setdefault((route.from_.host, port, route.is_tcp), []).append(compiled)
        if problems:
            raise ConfigError(problems)
        return cls({key: HostRoutes(tuple(found), any(route.has_escapes for route in found)) for key, found in lists.items()}, conditions)

    def _compiled_under(self, conditions: tuple[bytes | None, bool]) -> dict[int, CompiledRoute]:
        """By the identity of the route; this table keeps them alive, so no other has it.  None under other conditions."""
        return {id(compiled.route): compiled for compiled in self.routes()} if conditions == self._conditions else {}

    def match(self, request: AccessRequest) -> CompiledRoute | None:
        """BadRequest where upstreams may read the path as one of an earlier route."""
        found = self._host_routes(request.host, request.port, request.is_tunnel)
        return found.match(request.path) if found is not None else None

    def knows_host(self, host: str, port: int | None, is_tunnel: bool = False) -> bool:
        return self._host_routes(host, port, is_tunnel) is not None

    def has_tunnels_at(self, host: str) -> bool:
        """At any port."""
        return host in self._tunnel_hosts or f"*.{host.partition('.')[2]}" in self._tunnel_hosts

    def routes_of(self, host: str, port: int | None) -> tuple[CompiledRoute, ...]:
        found = self._host_routes(host, port)
        return found.routes if found is not None else ()

    def scheme_of(self, host: str, port: int | None) -> str:
        """The scheme of the `from` of this host's routes; `https` for a host that has none."""
        found = self._host_routes(host, port)
        return found.routes[0].route.from_.scheme if found is not None else "https"

    def routes(self) -> tuple[CompiledRoute, ...]:
        return tuple(route for host in self._by_host.values() for route in host.routes)

    def _host_routes(self, host: str, port: int | None, is_tunnel: bool = False) -> HostRoutes | None:
        """A host with routes of its own never falls back to a wildcard's, which may be more generous."""
        return self._by_host.get((host, port, is_tunnel)) or self._by_host.get((f"*.{host.partition('.')[2]}", port, is_tunnel))
