"""Headers that some parser or filter of gate drops, folds or ignores: on no data plane does an upstream get what a client sent under their
names.  The names are those of the code, so that a new one is tested as soon as it is there.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.internal_headers import dropped_names
from tests.support.raw_http import Broken, RawClient
from tests.support.raw_http2 import RawHttp2Client
from tests.support.upstream import RawUpstream

HOST = "public.localhost"
MARK = "192.0.2.66"  # fits a header of any meaning
PLANES = {"embedded": {}, "workers": {"workers": 2}, "envoy": {"data_plane": "envoy"}}
# Refused, or nothing but the framing of the request itself.
FRAMING = {"host", "content-length", "transfer-encoding", "expect", "te", "connection", "upgrade", "keep-alive", "proxy-connection"}


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module", params=PLANES)
def gate(request: pytest.FixtureRequest, port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    with DevelopmentProvider() as provider:
        builder = GateBuilder(provider.url).setting(**PLANES[request.param])
        builder.route(HOST, to=f"http://127.0.0.1:{port}", allow_public_unauthenticated_access=True)
        with builder.start(tmp_path_factory.mktemp(request.param)) as running:
            yield running


@pytest.fixture
async def upstream(port: int) -> AsyncIterator[RawUpstream]:
    async with RawUpstream(port=port) as running:
        yield running


def by_http1(gate: RunningGate, lines: list[str], *, trailers: bool = False) -> int:
    head = [
        f"{'POST' if trailers else 'GET'} / HTTP/1.1",
        f"Host: {HOST}:{gate.port}",
        *(["Transfer-Encoding: chunked"] if trailers else lines),
    ]
    body = "\r\n".join(["2", "hi", "0", *lines, "", ""]) if trailers else ""
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=HOST) as client:
        return client.send(("\r\n".join([*head, "", ""]) + body).encode()).response().status


def by_http2(gate: RunningGate, lines: list[str], *, trailers: bool = False) -> int:
    pairs = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines))
    with RawHttp2Client(gate.port, gate.certificates.client_context(), HOST) as client:
        granted = {"body": b"hi", "trailers": pairs} if trailers else {}
        return client.request("POST" if trailers else "GET", "/", f"{HOST}:{gate.port}", *(() if trailers else pairs), **granted).status


def ways(gate: RunningGate) -> list[partial[int]]:
    speaks_http2 = gate.builder.settings["data_plane"] == "envoy"
    return [partial(send, gate) for send in (by_http1, *((by_http2,) if speaks_http2 else ()))]


def test_the_code_names_them() -> None:
    assert {"daphne-root-path", "x-gate-edge-judged", "x_gate_edge_judged", "impersonate-x", "proxy-connection"} <= {*dropped_names()}
    assert len(dropped_names()) > 150


async def test_no_upstream_gets_a_header_that_gate_ignores(gate: RunningGate, upstream: RawUpstream) -> None:
    for send in ways(gate):
        for name in dropped_names():
            before = len(upstream.requests)
            try:
                status = await asyncio.to_thread(send, [f"{name}: {MARK}"])
            except Broken:
                status = 400
            assert status == 200 or name in FRAMING, (send.func, name, status)
            received = b"".join(request.head for request in upstream.requests[before:])
            assert MARK.encode() not in received, (send.func, name, received)
            assert bool(received) == (status == 200), (send.func, name)


async def test_no_upstream_gets_a_trailer(gate: RunningGate, upstream: RawUpstream) -> None:
    """The canary takes a trailer for an error."""
    allowed = [name for name in dropped_names() if name not in FRAMING]
    for send in ways(gate):
        for start in range(0, len(allowed), 50):
            some = allowed[start : start + 50]
            assert await asyncio.to_thread(send, [f"{name}: {MARK}" for name in some], trailers=True) == 200, (send.func, some)
    assert not [request for request in upstream.requests if MARK.encode() in request.head + request.body]
