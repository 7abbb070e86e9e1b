"""Outgoing requests: upstream, headers, and the serialized request head."""

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
    """Upstream: one `to` of a route. It also has the attributes of aiohttp's ClientRequest that aiohttp's connector reads."""

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


@dataclass(slots=True)  # not frozen, because it is created for each request
class OutgoingRequest:
    """Outgoing request.

    `headers` start with Host and contain no framing; `has_body` and `content_length` (None for chunked) determine it. `is_upgrade` is true
    if they request a protocol switch. `timeout` is in seconds, from the end of the request to the end of the response; None is unlimited.
    `selection` is None if there is a single upstream, `statistics` if they are disabled, and `response_header_rules` if the global
    rules apply.
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
    response_header_rules: ResponseHeaderRules | None = None
    connection_use: ConnectionUse = ConnectionUse.SHARED


# enforcement-point: Upstream requests: Serialization of upstream requests
def request_head(request: OutgoingRequest) -> bytes:
    """Return the serialized request line and headers (RFC 9112 3). Raises UpstreamError if a value would add a line."""
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.target), *map(b": ".join, request.headers)]
    if request.content_length is not None:
        lines.append(b"content-length: %d" % request.content_length)
    elif request.has_body:
        lines.append(b"transfer-encoding: chunked")
    lines += (b"", b"")
    head = b"\r\n".join(lines)
    # Counting line breaks in the complete head replaces a check of each value: only those written above may exist.
    breaks = len(lines) - 1
    if not (head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == breaks) or b"\0" in head or lines[0].count(b" ") != 2:
        raise UpstreamError("the request contains a line break, NUL or space in a wrong place")
    return head
