"""Connections of HTTP/2 with requests that must not end together: Envoy can end a request only together with its client's connection."""

from proxy.envoy.resources.internal_headers import EdgeFacts
from proxy.incoming_request import IncomingRequest
from proxy.service import ProxyService


# enforcement-point: Authorization: Requests that may share an Envoy connection
def is_shared(service: ProxyService, incoming: IncomingRequest, facts: EdgeFacts) -> bool:
    """Whether other requests on the connection may be another client's, or may be the one that ends the session."""
    return facts.is_http2 and (incoming.is_trusted or service.is_authenticate_host(_name(incoming)))


def is_misdirected(service: ProxyService, incoming: IncomingRequest, facts: EdgeFacts) -> bool:
    """Whether a request needs a connection of its own (RFC 9110 15.5.20): the answer to a sign-out comes over no connection on which
    applications' requests end with the session.  A trusted proxy, or a client without SNI, has no other connection to choose."""
    if not facts.is_http2 or facts.server_name is None or incoming.is_trusted:
        return False
    return service.is_authenticate_host(_name(incoming)) != service.is_authenticate_host(facts.server_name)


def _name(incoming: IncomingRequest) -> str:
    return incoming.headers.get(b"host", b"").decode("latin-1").partition(":")[0]
