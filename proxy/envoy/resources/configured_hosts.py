"""Hosts of a configuration, by what their connections need of Envoy."""

from config.options import Options


def hosts_of(options: Options) -> set[str]:
    """All, gate's own among them."""
    own = (options.authenticate_service_url, options.forward_auth_url)
    return {route.from_.host for route in options.policy} | {url.host for url in own if url is not None}


def certificate_hosts(options: Options) -> set[str]:
    """Hosts whose clients show certificates."""
    return {route.from_.host for route in options.policy if route.tls_downstream_client_ca is not None or options.client_ca is not None}


# enforcement-point: Requests: Hosts whose connections Envoy tunnels unparsed
def tunnel_hosts(options: Options) -> set[str]:
    """Hosts that have routes for TCP alone.  Envoy hands their connections to gate unread, TLS and all: it can't end one direction of a
    tunnel before the other (1.40), nor say by its end whether it broke off.
    """
    tcp = {route.from_.host for route in options.policy if route.is_tcp}
    return tcp.difference(route.from_.host for route in options.policy if not route.is_tcp)


def http3_hosts(options: Options) -> set[str]:
    """Hosts that are reached by HTTP/3, too: none whose clients show certificates, which Envoy (1.40) does not ask for over QUIC; none
    where a rule looks at the client's address, as a connection of QUIC goes on from another one, and Envoy tells the first; and none of
    an upstream that speaks HTTP/2, to which gate itself carries nothing.
    """
    if not options.http3:
        return set()
    by_tcp = {route.from_.host for route in options.policy if route.upstream_http2 or "source_ip" in route.criteria}
    return hosts_of(options).difference(by_tcp, certificate_hosts(options), tunnel_hosts(options))
