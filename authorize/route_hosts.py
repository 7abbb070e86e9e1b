"""Route hosts: what follows from the configured routes alone, in every process that serves people."""

from collections.abc import Iterable

from authorize.client import Authorizer, Check, ShadowOutcome
from authorize.identity.client_certificates import CertificateHosts
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import Identity
from authorize.policy.paths.canonical import canonical_host
from authorize.policy.request import AccessRequest
from authorize.policy.route_table import RouteTable
from authorize.state import default_ports, route_table
from config.options import Options
from config.routes.upstreams.credentials import shows_credentials
from foundation.errors import BadRequest


class RouteHosts:
    """Hosts and the route table of the configuration.  ConfigError where the routes are wrong."""

    def __init__(self, options: Options, previous: Authorizer | None = None):
        self.default_ports = default_ports(options)
        self.has_shadow = False  # what is in shadow only the process that decides can say
        self.routes: RouteTable = route_table(options, previous.routes if previous else None)
        self._with_credentials = frozenset(route.id for route in self.routes.routes() if shows_credentials(route.route, options))
        self._certificate_hosts = CertificateHosts(self.routes.routes())
        # Where browsers reach the pages of a host that has tunnels alone: a tunnel's own port is a name, nobody listens there.
        self._page_ports = tuple(dict.fromkeys((None, options.authenticate_service_url.port, *self.routes.ports)))

    def knows_host(self, host: str, port: int | None) -> bool:
        """Whether this host has pages of ours.  The host of tunnels has: people sign in there for their programs."""
        return self.routes.knows_host(host, port) or (port in self._page_ports and self.routes.has_tunnels_at(host))

    def audiences(self, request: AccessRequest) -> tuple[str, ...]:
        """Audiences of a credential that counts in this request.  For a tunnel, one of its host's pages, whatever its port."""
        if not request.is_tunnel:
            return (request.host_port,)
        return tuple(request.host if port is None else f"{request.host}:{port}" for port in self._page_ports)

    def scheme_of(self, host: str, port: int | None) -> str:
        """Scheme of a route host outside: `https` unless its routes say otherwise, whatever our listener speaks."""
        return self.routes.scheme_of(host, port)

    def is_route_origin(self, origin: str) -> bool:
        """Whether this is the Origin of pages that a configured route serves.  Wildcards count for what they match."""
        scheme, separator, authority = origin.partition("://")
        try:
            host, port = canonical_host(authority.encode("ascii"))
        except (BadRequest, UnicodeEncodeError):
            return False
        port = None if port in self.default_ports else port
        return bool(separator) and self.knows_host(host, port) and scheme == self.scheme_of(host, port)

    def is_public(self, request: AccessRequest) -> bool:
        route = self.routes.match(request)
        return route is not None and route.route.allow_public_unauthenticated_access

    def shows_credentials(self, route: CompiledRoute) -> bool:
        return route.id in self._with_credentials

    # What only the process that decides can say (authorize/service.py); in any other nothing is known, and nobody is an administrator.

    async def would_be(self, request: AccessRequest, check: Check, cookie_headers: Iterable[bytes]) -> ShadowOutcome | None:
        return None

    def may_administer(self, identity: Identity) -> bool:
        return False

    def wants_certificate(self, server_name: str | None) -> bool:
        """Whether a TLS client that asks for this name (None: for no name) is to be asked for a certificate."""
        return self._certificate_hosts.include(server_name)
