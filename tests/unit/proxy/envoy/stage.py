"""Authorization server without an Envoy: tests send Envoy's requests and check gate's responses."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from proxy.envoy.downstream_connections import DownstreamConnections
from proxy.envoy.envoy_request_head import HEADERS_TO_REMOVE
from proxy.envoy.ext_authz_server import ExtAuthzServer
from proxy.envoy.proxied.active_requests import ActiveRequests
from proxy.envoy.resources.internal_headers import STREAM_ID, Address
from proxy.planes.open_streams import OpenStreams, Stream
from tests.support.signed_in import SignedIn

TOKEN, MARK = "t" * 43, "m" * 43
TO = {"to": "http://127.0.0.1:9"}
ROUTES = [
    {"from": "https://app.example.com", **TO, "allow_any_authenticated_user": True, "pass_identity_headers": True},
    {"from": "https://finance.example.com", **TO, "allowed_groups": ["finance"]},
    {"from": "https://open.example.com", "prefix": "/in", "prefix_rewrite": "/out", **TO, "allow_public_unauthenticated_access": True},
    {"from": "https://two.example.com", "to": ["http://127.0.0.1:9", "http://localhost:9"], "allow_public_unauthenticated_access": True},
    {"from": "https://rpc.example.com", **TO, "allow_public_unauthenticated_access": True, "upstream_http2": True},
    {"from": "https://patient.example.com", **TO, "allow_public_unauthenticated_access": True, "timeout": "1h"},
    {"from": "https://endless.example.com", **TO, "allow_public_unauthenticated_access": True, "timeout": "0s"},
    {"from": "https://watch.example.com", **TO, "allow_public_unauthenticated_access": True, "upstream_http2": True, "timeout": "0s"},
    {"from": "https://old.example.com", "redirect": {"https_redirect": True}, "allow_public_unauthenticated_access": True},
]


class NoConnections(DownstreamConnections):
    """None are open; which were cut is in `cuts`, and in `finished` which were to be finished.  Clients of those in
    `unsent` have not taken everything."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), lambda: None)
        self.cuts: list[set[Address]] = []
        self.finished: list[set[Address]] = []
        self.unsent: set[Address] = set()
        self.is_open = True

    @property
    def can_reset(self) -> bool:
        return self.is_open

    async def reset(self, peers: Iterable[Address]) -> int:
        self.cuts.append(set(peers))
        return len(self.cuts[-1])

    async def shut_down(self, peers: Iterable[Address]) -> set[Address]:
        self.finished.append(set(peers))
        return self.finished[-1] & self.unsent


class Stage:
    def __init__(
        self, ext_authz: ExtAuthzServer, forwarded: ActiveRequests, connections: NoConnections, ann: SignedIn, streams: OpenStreams
    ):
        self.ext_authz, self.forwarded, self.connections, self.ann, self.streams = ext_authz, forwarded, connections, ann, streams

    def cookie(self, host: str) -> tuple[str, str]:
        return "cookie", self.ann.cookie(host)

    async def send_request(self, question: bytes) -> dict[str, bytes | None]:
        """The headers that gate sets; what it removes has None."""
        return reported(await self.ext_authz.respond(question, b""))

    async def begin(self, question: bytes) -> tuple[str, Stream]:
        """Number and stream of a request that Envoy carries from now on."""
        before = set(self._streams())
        number = (await self.send_request(question))[STREAM_ID]
        assert number is not None
        (stream,) = set(self._streams()) - before
        return number.decode(), stream

    def _streams(self) -> list[Stream]:
        return [stream for streams in self.streams._by_session.values() for stream in streams]

    async def cuts(self) -> list[set[Address]]:
        for _ in range(5):
            await asyncio.sleep(0)
        return self.connections.cuts


def reported(answer: bytes) -> dict[str, bytes | None]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    assert (status, lines[-1], body) == (b"HTTP/1.1 200 OK", b"content-length: 0", b"")
    found: dict[str, bytes | None] = {}
    for line in lines[:-1]:
        name, _, value = line.partition(b": ")
        assert name.decode() not in found
        found[name.decode()] = value
    removed = found.pop(HEADERS_TO_REMOVE.decode(), b"") or b""
    return found | dict.fromkeys(name.decode() for name in removed.split(b",") if name)
