"""Hosts of a configuration, by the kind of connection they need in Envoy."""

from config.options import Options


def all_hosts(options: Options) -> set[str]:
    """Return all hosts, including gate's own."""
    service_urls = (options.authenticate_service_url, options.forward_auth_url)
    return {route.from_.host for route in options.policy} | {url.host for url in service_urls if url is not None}


def client_certificate_hosts(options: Options) -> set[str]:
    """Return the hosts that request a client certificate."""
    return {route.from_.host for route in options.policy if route.tls_downstream_client_ca is not None or options.client_ca is not None}


# enforcement-point: Requests: Hosts whose connections Envoy tunnels unparsed
def tunnel_hosts(options: Options) -> set[str]:
    """Return the hosts with TCP routes only, whose connections Envoy tunnels to gate unparsed, TLS included.

    Envoy (1.40) supports neither half-close of a tunnel nor passing on a reset.
    """
    tcp = {route.from_.host for route in options.policy if route.is_tcp}
    return tcp.difference(route.from_.host for route in options.policy if not route.is_tcp)


def http3_hosts(options: Options) -> set[str]:
    """Return the hosts that also serve HTTP/3.

    Excluded are hosts with client certificates, which Envoy (1.40) does not request over QUIC; hosts with a rule on the client address,
    because QUIC connections migrate and Envoy reports the first address; and hosts with HTTP/2 upstreams, to which gate cannot forward.
    """
    if not options.http3:
        return set()
    by_tcp = {route.from_.host for route in options.policy if route.upstream_http2 or "source_ip" in route.criteria}
    return all_hosts(options).difference(by_tcp, client_certificate_hosts(options), tunnel_hosts(options))
