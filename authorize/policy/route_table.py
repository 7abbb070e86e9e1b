"""Route table: the route of a request is the first in the list that matches, among those of its host."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import NamedTuple

from authorize.policy.compiled_route import CompiledRoute, Matcher, compile_route, route_name
from authorize.policy.paths.interpretations import forms_by_interpretation, interpretations, is_unambiguous
from authorize.policy.policy_request import CONNECT, PolicyRequest
from config.routes.policy.policy_language import SHADOW
from config.routes.route import Route
from config.routes.route_identity_headers import IdentityHeaderNames
from foundation.errors import AmbiguousPath, ConfigError, Problem


# enforcement-point: Requests: Route selection
@dataclass(frozen=True, slots=True)
class HostRoutes:
    """Routes of one `from` host and port, in list order.  The first match applies, so they are never sorted."""

    routes: tuple[CompiledRoute, ...]
    have_escapes: bool

    def match(self, path: str) -> CompiledRoute | None:
        """Return the first matching route, or None.

        Raises AmbiguousPath if an interpretation of the path belongs to another route or to none.  Raises PathTooAmbiguous whatever the
        routes are, unless the first one matches any path.
        """
        for route in self.routes:
            if route.matches_any_path or route.matches(path):
                if not self.routes[0].matches_any_path and (self.have_escapes or not is_unambiguous(path)):
                    self._require_same_route(path, route)
                return route
        interpretations(path)  # rejected whether a route matches or not
        return None

    def _require_same_route(self, path: str, found: CompiledRoute) -> None:
        """Raise AmbiguousPath unless all interpretations belong to the route.

        `/%2Fadmin`, `//admin` and `/;x/admin` do not match `/admin`, but many upstreams serve them as `/admin`.
        """
        derived = interpretations(path)
        written = forms_by_interpretation(path) if found.regex_has_escapes else {}
        owners = [(route, route.owns_interpretation if route is found else route.matches_interpretation) for route in self.routes]
        for interpretation in derived:
            owner = _first_owner(owners, interpretation)
            if owner is not found and not self._is_intended(interpretation, written.get(interpretation, ()), found):
                raise AmbiguousPath(interpretation, _describe(owner), _describe(found))

    def _is_intended(self, interpretation: str, forms: Iterable[str], found: CompiledRoute) -> bool:
        """Return whether the route owns `/files/a@b`, because its regex contains escapes and matches `/files/a%40b`.

        It does not if an earlier route matches the decoded form, or a later one matches only that form.
        """
        written = [text for text in forms if found.matches(text)]
        if not written:
            return False
        is_behind = False
        for route in self.routes:
            if route is found:
                is_behind = True
            elif route.matches_interpretation(interpretation) and not (is_behind and all(map(route.matches_interpretation, written))):
                return False
        return True


def _first_owner(owners: Iterable[tuple[CompiledRoute, Matcher]], interpretation: str) -> CompiledRoute | None:
    """Return the first route that owns the interpretation."""
    for route, owns in owners:
        if owns(interpretation):
            return route
    return None


def _describe(route: CompiledRoute | None) -> str:
    return f"route '{route_name(route.route)}'" if route is not None else "no route of this host"


# (host, port, is_tunnel): HTTP and TCP routes of one host and port are separate.
Address = tuple[str, int | None, bool]
# Key under which a route was compiled: default client CA, whether shadow rules count, default ports.
CompileKey = tuple[bytes | None, bool, frozenset[int]]


class AddressedRoute(NamedTuple):
    """Compiled route with its address.  A route in shadow mode need not be in a table."""

    address: Address
    compiled: CompiledRoute


def _address(route: Route, default_ports: frozenset[int]) -> Address:
    # The client states a tunnel's port explicitly, because no scheme implies it.
    port = None if route.from_.port in default_ports and not route.is_tcp else route.from_.port
    return route.from_.host, port, route.is_tcp


class RouteTable:
    """Table of routes, indexed by address, so that the cost does not depend on the number of hosts."""

    def __init__(
        self,
        by_host: dict[Address, HostRoutes],
        compile_key: CompileKey,
        reserved_hosts: frozenset[str] = frozenset(),
        compiled: "dict[int, AddressedRoute] | None" = None,
    ):
        self._by_host = by_host
        self._reserved_hosts = reserved_hosts
        self._compiled = compiled or {}  # by id() of the route, which is unique because this table keeps the route alive
        self._routes = tuple(route for host in by_host.values() for route in host.routes)
        self.ports = sorted({port for _, port, is_tunnel in by_host if port is not None and not is_tunnel})
        self.hosts = frozenset(host for host, _, _ in by_host)  # wildcards as they are written
        self._tunnel_hosts = frozenset(host for host, _, is_tunnel in by_host if is_tunnel)
        self._compile_key = compile_key

    def __repr__(self) -> str:
        return f"<RouteTable {len(self._routes)} routes, {len(self._by_host)} hosts>"

    @classmethod
    def build(
        cls,
        routes: Iterable[Route],
        default_ports: frozenset[int] = frozenset({443}),
        *,
        client_ca: bytes | None,
        with_shadow: bool = False,
        previous: "RouteTable | None" = None,
        reserved_hosts: frozenset[str] = frozenset(),
    ) -> "RouteTable":
        """Build the table.  `client_ca` applies to routes without their own.  It has no default, so that no caller can omit it.

        Routes and blocks in shadow mode are excluded.  With `with_shadow` they are enforced, for a table that never decides a request.
        Wildcards do not match `reserved_hosts`, because their pages would share an origin with gate's.  Routes that `previous` compiled
        under the same key are reused.

        Raises ConfigError with every problem of every route.
        """
        compile_key = (client_ca, with_shadow, default_ports)
        before = previous if previous is not None and previous._compile_key == compile_key else cls({}, compile_key)
        problems: list[Problem] = []
        known: dict[int, AddressedRoute] = {}
        lists: defaultdict[Address, list[CompiledRoute]] = defaultdict(list)
        for index, route in enumerate(routes):
            if (found := before._compiled.get(id(route))) is None:
                try:
                    compiled = compile_route(route, f"policy[{index}]", client_ca, with_shadow=with_shadow)
                except ConfigError as error:
                    problems.extend(error.problems)
                    continue
                found = AddressedRoute(_address(route, default_ports), compiled)
            known[id(route)] = found
            if route.mode != SHADOW or with_shadow:
                lists[found.address].append(found.compiled)
        if problems:
            raise ConfigError(problems)
        return cls({address: before._at(address, tuple(routes)) for address, routes in lists.items()}, compile_key, reserved_hosts, known)

    def _at(self, address: Address, routes: tuple[CompiledRoute, ...]) -> HostRoutes:
        """Return the routes of an address, reused if they are the same objects."""
        known = self._by_host.get(address)
        is_same = known is not None and len(known.routes) == len(routes) and all(map(is_, known.routes, routes))
        return known if known is not None and is_same else HostRoutes(routes, any(route.has_escapes for route in routes))

    def match(self, request: PolicyRequest) -> CompiledRoute | None:
        """Return the route of a request.  Raises AmbiguousPath (a BadRequest) if upstreams may interpret the path as another route's."""
        found = self._host_routes(request.host, request.port, request.method == CONNECT)
        return found.match(request.path) if found is not None else None

    def has_host(self, host: str, port: int | None, is_tunnel: bool = False) -> bool:
        return self._host_routes(host, port, is_tunnel) is not None

    def has_tunnels_for(self, host: str) -> bool:
        """Return whether this host has TCP routes on any port."""
        return host in self._tunnel_hosts or self._wildcard_for(host) in self._tunnel_hosts

    def routes_for(self, host: str, port: int | None) -> tuple[CompiledRoute, ...]:
        found = self._host_routes(host, port)
        return found.routes if found is not None else ()

    def scheme_for(self, host: str, port: int | None) -> str:
        """Return the scheme of this host's routes, `https` if it has none."""
        found = self._host_routes(host, port)
        return found.routes[0].route.from_.scheme if found is not None else "https"

    @cached_property
    def identity_header_names(self) -> IdentityHeaderNames:
        """Return the headers that carry identity to the upstreams of this table."""
        return IdentityHeaderNames(compiled.route for compiled in self._routes)

    def routes(self) -> tuple[CompiledRoute, ...]:
        return self._routes

    def _host_routes(self, host: str, port: int | None, is_tunnel: bool = False) -> HostRoutes | None:
        """Return the routes of a host.  A host with its own routes never falls back to a wildcard, which may allow more."""
        return self._by_host.get((host, port, is_tunnel)) or self._by_host.get((self._wildcard_for(host), port, is_tunnel))

    def _wildcard_for(self, host: str) -> str:
        """Return the wildcard of a host, "" for reserved hosts on any port, because cookies ignore ports."""
        return "" if host in self._reserved_hosts else f"*.{host.partition('.')[2]}"
