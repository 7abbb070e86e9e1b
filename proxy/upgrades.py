"""Upgrades to another protocol (RFC 9110 7.8): gate passes the client's offer upstream, and tunnels the connection if it is accepted."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from foundation.errors import BadRequest, UpstreamError
from foundation.web.asgi_types import Header
from proxy.forwarding.forward_result import ForwardResult, StreamHandle
from proxy.forwarding.http_forwarding import ResponseHeaderFilter
from proxy.forwarding.tunnel import ByteTunnel, ConnectionTakeover, Tunnel, run_tunnel
from proxy.upstreams.upstream_exchange import UpstreamExchange

_FRAMING = (b"content-length", b"transfer-encoding")


class HandshakeRefused(BadRequest):
    """Error of the client's handshake, raised before the upstream is contacted."""

    def __init__(self, status: int, reason: str, headers: tuple[Header, ...] = ()):
        super().__init__(reason)
        self.status = status
        self.headers = headers


class Upgrade:
    """Client's offer to switch to `protocol`.  Header names with a `prefix` belong to this handshake alone."""

    __slots__ = ()

    protocol: ClassVar[bytes]
    prefix: ClassVar[tuple[bytes, ...]] = ()

    def for_upstream(self, cleaned: Iterable[Header]) -> list[Header]:
        """Return the headers of the upstream request, with the same offer."""
        return [*cleaned, (b"upgrade", self.protocol), (b"connection", b"Upgrade")]

    def validate_response(self, headers: Sequence[Header]) -> list[Header]:
        """Return the handshake headers of a 101.  Raises UpstreamError if it does not accept this offer."""
        by_name = group_by_name(headers)
        if [value.lower() for value in by_name.get(b"upgrade", [])] != [self.protocol.lower()]:
            raise UpstreamError(f"the upstream switched to another protocol than {self.protocol.decode()}")
        if b"upgrade" not in [option.lower() for option in list_elements(by_name.get(b"connection", []))]:
            raise UpstreamError("the upstream's 101 has no Connection: Upgrade")
        return self._negotiated_headers(by_name)

    def _negotiated_headers(self, by_name: dict[bytes, list[bytes]]) -> list[Header]:
        return []

    def tunnel(self, accepted: Sequence[Header]) -> Tunnel:
        """Return the tunnel for the connection after the handshake."""
        return ByteTunnel()

    async def run(
        self,
        take_over: ConnectionTakeover,
        filter_response_headers: ResponseHeaderFilter,
        timeout: float | None,
        exchange: UpstreamExchange,
        raw_headers: Sequence[Header],
        handle: StreamHandle,
        result: ForwardResult,
    ) -> None:
        """Take over both connections after a 101, and tunnel until one closes, for at most `timeout` seconds."""
        accepted = self.validate_response(raw_headers)
        others = [pair for pair in raw_headers if not pair[0].lower().startswith((*self.prefix, *_FRAMING))]
        tunnel = self.tunnel(accepted)
        try:
            tunnel.client.connection, client_bytes = take_over([*filter_response_headers(others), *accepted], tunnel.client, self.protocol)
        except ValueError as error:
            raise UpstreamError("the upstream sent headers that can't be forwarded") from error
        result.status = 101
        tunnel.upstream.connection, upstream_bytes = exchange.take_over(tunnel.upstream)
        await run_tunnel(tunnel, client_bytes, upstream_bytes, timeout, handle, result)


class SpdyOffer(Upgrade):
    """Offer of SPDY/3.1, as Kubernetes clients (kubectl) make it.  gate tunnels its bytes unparsed."""

    protocol = b"SPDY/3.1"

    @classmethod
    def is_requested(cls, headers: Iterable[Header]) -> bool:
        """Return whether the client requests an upgrade to SPDY alone."""
        return [value.strip(b" \t").lower() for name, value in headers if name == b"upgrade"] == [cls.protocol.lower()]

    @classmethod
    def from_request(cls, method: str, headers: Iterable[Header]) -> "SpdyOffer":
        """Return the offer of a request.  Raises HandshakeRefused if it has a body, or is neither GET nor POST."""
        by_name = group_by_name(headers)
        has_body = b"transfer-encoding" in by_name or any(length != b"0" for length in by_name.get(b"content-length", ()))
        if method not in ("GET", "POST") or has_body:
            raise HandshakeRefused(400, "SPDY begins with a GET or POST request without a body")
        return cls()


def group_by_name(headers: Iterable[Header]) -> dict[bytes, list[bytes]]:
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value.strip(b" \t"))
    return by_name


def list_elements(values: Iterable[bytes]) -> Iterator[bytes]:
    """Return the elements of a list header (RFC 9110 5.6.1)."""
    return (element.strip(b" \t") for value in values for element in value.split(b","))
