"""HTTP/2 connections with requests of several clients, because Envoy can only end a request together with its connection."""

from proxy.envoy.resources.internal_headers import DownstreamInfo
from proxy.incoming_request import IncomingRequest
from proxy.service import ProxyService


# enforcement-point: Authorization: Requests that may share an Envoy connection
def is_shared(service: ProxyService, incoming: IncomingRequest, downstream: DownstreamInfo) -> bool:
    """Return whether the connection may also have requests of another client, or the request that ends the session."""
    return downstream.is_http2 and (incoming.is_trusted or service.is_authenticate_host(_host_name(incoming)))


def is_misdirected(service: ProxyService, incoming: IncomingRequest, downstream: DownstreamInfo) -> bool:
    """Return whether the request must use another connection (RFC 9110 15.5.20).

    The response to a sign-out must not share a connection with application requests, which is reset when the session ends.
    A trusted proxy, or a client without SNI, cannot choose another connection.
    """
    if not downstream.is_http2 or downstream.server_name is None or incoming.is_trusted:
        return False
    return service.is_authenticate_host(_host_name(incoming)) != service.is_authenticate_host(downstream.server_name)


def _host_name(incoming: IncomingRequest) -> str:
    return incoming.headers.get(b"host", b"").decode("latin-1").partition(":")[0]
