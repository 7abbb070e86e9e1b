"""Values that follow from the configuration alone: default ports, reserved hosts, the route table, and route ids in links."""

import hashlib
import hmac
from typing import Any

from authorize.policy.route_table import RouteTable
from config.options import Options
from config.routes.route import Route
from foundation.crypto.sealing import derive_key


def default_ports(options: Any) -> frozenset[int]:
    """Return the default ports, which are implicit.  `options` may be incomplete if the configuration has errors elsewhere."""
    return frozenset({80, 443}) if options.insecure_server else frozenset({443})


def reserved_hosts(options: Any) -> frozenset[str]:
    """Return the hosts that serve only gate's pages: sign-in, the admin, and forward auth."""
    return frozenset(url.host for url in (options.authenticate_service_url, options.forward_auth_url) if url is not None)


def route_table(options: Any, previous: RouteTable | None = None, *, with_shadow: bool = False) -> RouteTable:
    """Build the route table.  `with_shadow` enforces shadow rules.  Raises ConfigError if the routes are invalid."""
    ports, client_ca = default_ports(options), options.client_ca
    return RouteTable.build(
        options.policy, ports, client_ca=client_ca, with_shadow=with_shadow, previous=previous, reserved_hosts=reserved_hosts(options)
    )


class RouteLinks:
    """Ids of routes in links and forms: 16 hex digits of HMAC-SHA256, keyed by `shared_secret`.

    `Route.id` is a plain hash of the route and its upstreams. A user who had it could test guesses of an upstream's address.
    """

    def __init__(self, options: Options):
        self._key = derive_key(options.shared_secret[0], "route links")

    def link_id(self, route: Route) -> str:
        return hmac.new(self._key, route.id.encode(), hashlib.sha256).hexdigest()[:16]
