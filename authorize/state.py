"""State that authorize derives from the configuration alone: default ports, own hosts, and the route table."""

from typing import Any

from authorize.policy.route_table import RouteTable


def default_ports(options: Any) -> frozenset[int]:
    """Default ports, which go unsaid.  `options` may be those of a configuration that has mistakes elsewhere."""
    return frozenset({80, 443}) if options.insecure_server else frozenset({443})


def own_hosts(options: Any) -> frozenset[str]:
    """Hosts with pages of ours alone: where people sign in, where the admin is, and where other proxies ask."""
    return frozenset(url.host for url in (options.authenticate_service_url, options.forward_auth_url) if url is not None)


def route_table(options: Any, previous: RouteTable | None = None, *, with_shadow: bool = False) -> RouteTable:
    """Route table; ConfigError where the routes are wrong.  `with_shadow`: as if whatever is in shadow were enforced."""
    ports, client_ca = default_ports(options), options.client_ca
    return RouteTable.build(
        options.policy, ports, client_ca=client_ca, with_shadow=with_shadow, previous=previous, own_hosts=own_hosts(options)
    )
