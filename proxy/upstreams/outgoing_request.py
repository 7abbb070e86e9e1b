"""Outgoing request: the upstream that it goes to, and its head as bytes."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from config.routes.route import Route
from foundation.errors import UpstreamError
from foundation.web.asgi_types import Header
from proxy.rewriting.connection_auth import ConnectionUse
from proxy.rewriting.response_headers import ResponseHeaderRules
from proxy.upstreams import upstream_tls
from proxy.upstreams.route_statistics import RouteStatistics

if TYPE_CHECKING:
    from proxy.upstreams.cluster import ClusterSelection


@dataclass(frozen=True, slots=True, eq=False)
class Upstream:
    """Upstream: one `to` of a route, at this `origin`.  It has the attributes of aiohttp's ClientRequest that its connector reads, too."""

    origin: str
    url: URL
    ssl: ssl.SSLContext | bool
    server_hostname: str | None
    connection_key: ConnectionKey = field(repr=False)
    proxy: None = field(default=None, repr=False)

    @classmethod
    def build(cls, route: Route, position: int = 0) -> "Upstream":
        origin = route.to[position].url.origin
        url = URL(origin, encoded=True)
        context = upstream_tls.client_context(route) if url.scheme == "https" else False
        name = route.tls_server_name
        key = ConnectionKey(url.raw_host or "", url.port, url.scheme == "https", context, None, None, None, name)
        return cls(origin, url, context, name, key)

    @property
    def host(self) -> str:
        return self.connection_key.host

    @property
    def port(self) -> int | None:
        return self.connection_key.port

    @property
    def endpoint(self) -> tuple[str, int | None]:
        return self.connection_key.host, self.connection_key.port

    def is_ssl(self) -> bool:
        return self.connection_key.is_ssl


@dataclass(slots=True)  # not frozen: one is made for each request
class OutgoingRequest:
    """Outgoing request.  `headers` begin with Host and have no framing; it follows from `has_body` and `content_length` (None: chunked).
    `is_upgrade`: they ask for a change of protocols.

    `timeout` is in seconds, from the end of the request to the end of the response; None is none.  `selection` is None where there is one
    upstream only, `statistics` None where nobody counts, `response_headers` None where those of all routes count.
    """

    upstream: Upstream
    method: str
    target: bytes
    headers: Sequence[Header]
    has_body: bool = False
    content_length: int | None = None
    timeout: float | None = None
    is_default_timeout: bool = False
    is_upgrade: bool = False
    selection: "ClusterSelection | None" = None
    statistics: RouteStatistics | None = None
    response_headers: ResponseHeaderRules | None = None
    connection_use: ConnectionUse = ConnectionUse.SHARED


# enforcement-point: Upstream requests: Serialization of upstream requests
def request_head(request: OutgoingRequest) -> bytes:
    """Request line and headers as they go out (RFC 9112 3).  Raises UpstreamError for anything that would add a line."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.target), *map(b": ".join, request.headers)]
    if request.content_length is not None:
        lines.append(b"content-length: %d" % request.content_length)
    elif request.has_body:
        lines.append(b"transfer-encoding: chunked")
    lines += (b"", b"")
    head = b"\r\n".join(lines)
    # One count over the whole head instead of one look at each value: every line break must be one that was written above.
    breaks = len(lines) - 1
    if not (head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == breaks) or b"\0" in head or lines[0].count(b" ") != 2:
        raise UpstreamError("the request contains a line break, NUL or space in a wrong place")
    return head
