"""Upgrades to another protocol (RFC 9110 7.8): the upstream is offered what the client offers, and what both agree on is tunnelled."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from foundation.errors import BadRequest, UpstreamError
from foundation.web.asgi_types import Header
from proxy.forwarding.http_forwarding import ForwardResult, ResponseRule, StreamHandle
from proxy.forwarding.tunnel import ByteTunnel, ConnectionTakeover, Tunnel, run_tunnel
from proxy.upstreams.upstream_exchange import UpstreamExchange

_FRAMING = (b"content-length", b"transfer-encoding")


class HandshakeRefused(BadRequest):
    """Refusal of the client's handshake, before anybody else hears of it."""

    def __init__(self, status: int, reason: str, headers: tuple[Header, ...] = ()):
        super().__init__(reason)
        self.status = status
        self.headers = headers


class Upgrade:
    """Offer of a client to go on by `protocol`; `prefix` begins the names of headers that belong to this handshake alone."""

    __slots__ = ()

    protocol: ClassVar[bytes]
    prefix: ClassVar[tuple[bytes, ...]] = ()

    def for_upstream(self, cleaned: Iterable[Header]) -> list[Header]:
        """Headers of the request that asks the upstream for the same."""
        return [*cleaned, (b"upgrade", self.protocol), (b"connection", b"Upgrade")]

    def validate_response(self, headers: Sequence[Header]) -> list[Header]:
        """Headers of this handshake in a 101.  Raises UpstreamError where it is not the answer to this offer."""
        by_name = group_by_name(headers)
        if [value.lower() for value in by_name.get(b"upgrade", [])] != [self.protocol.lower()]:
            raise UpstreamError(f"the upstream switched to another protocol than {self.protocol.decode()}")
        if b"upgrade" not in [option.lower() for option in list_elements(by_name.get(b"connection", []))]:
            raise UpstreamError("the upstream's 101 has no Connection: Upgrade")
        return self._negotiated_headers(by_name)

    def _negotiated_headers(self, by_name: dict[bytes, list[bytes]]) -> list[Header]:
        return []

    def tunnel(self, accepted: Sequence[Header]) -> Tunnel:
        """Tunnel for what both ends say from now on."""
        return ByteTunnel()

    async def run(
        self,
        take_over: ConnectionTakeover,
        response_headers: ResponseRule,
        timeout: float | None,
        exchange: UpstreamExchange,
        raw_headers: Sequence[Header],
        handle: StreamHandle,
        result: ForwardResult,
    ) -> None:
        """What `forward` does with a 101: takes both connections over and carries until the end, or `timeout` in seconds from now."""
        accepted = self.validate_response(raw_headers)
        others = [pair for pair in raw_headers if not pair[0].lower().startswith((*self.prefix, *_FRAMING))]
        tunnel = self.tunnel(accepted)
        try:
            tunnel.client.connection, client_bytes = take_over([*response_headers(others), *accepted], tunnel.client, self.protocol)
        except ValueError as error:
            raise UpstreamError("the upstream sent headers that can't be forwarded") from error
        result.status = 101
        tunnel.upstream.connection, upstream_bytes = exchange.take_over(tunnel.upstream)
        await run_tunnel(tunnel, client_bytes, upstream_bytes, timeout, handle, result)


class SpdyOffer(Upgrade):
    """Offer of SPDY/3.1, as clients of clusters (kubectl) make it: after both ends have agreed, opaque bytes both ways."""

    protocol = b"SPDY/3.1"

    @classmethod
    def is_requested(cls, headers: Iterable[Header]) -> bool:
        """Whether an upgrade to SPDY, and to nothing else, is asked for."""
        return [value.strip(b" \t").lower() for name, value in headers if name == b"upgrade"] == [cls.protocol.lower()]

    @classmethod
    def from_request(cls, method: str, headers: Iterable[Header]) -> "SpdyOffer":
        """Offer of a request.  Raises HandshakeRefused for one with a body."""
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
    """Elements of a list (RFC 9110 5.6.1)."""
    return (element.strip(b" \t") for value in values for element in value.split(b","))
