"""Request bodies on both data planes: they arrive as sent once the request is allowed, and clients can't hold resources with them.

Envoy itself forwards small bodies with a declared length. gate forwards all others, behind Envoy.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import Iterator

import pytest

from foundation.web.problem_details import default_advice
from proxy.envoy.envoy_request_head import MAX_BUFFERED_BODY
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import Broken, RawClient, RawResponse
from tests.support.raw_http2 import RawHttp2Client
from tests.support.upstream import OK, Exchange, RawUpstream, ReceivedRequest

APP, MEMBERS, BELOW, TWO = (f"{name}.localhost" for name in ("app", "members", "below", "two"))
OPEN = {"allow_public_unauthenticated_access": True}
PORT = free_port()
REFUSAL = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge"


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    to = f"http://127.0.0.1:{PORT}"
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=to, **OPEN)
        .route(MEMBERS, to=to, allowed_groups=["engineering"])
        .route(BELOW, to=to, prefix="/in", prefix_rewrite="/out", **OPEN)
        .route(TWO, to=[to, f"http://127.0.0.1:{free_port()}"], **OPEN)
        .setting(data_plane=request.param, timeout_read="2s")
    )
    with builder.start(tmp_path_factory.mktemp(request.param)) as running:
        yield running


def tls(gate: RunningGate) -> ssl.SSLContext:
    return gate.certificates.client_context()


def connected(gate: RunningGate, host: str = APP) -> RawClient:
    return RawClient(gate.port, tls=tls(gate), server_name=host)


def head(gate: RunningGate, length: int, *lines: str, host: str = APP, method: str = "POST", path: str = "/in/x") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}:{gate.port}", f"Content-Length: {length}", *lines, "", ""]).encode()


def incoming(upstream: RawUpstream) -> ReceivedRequest:
    (request,) = upstream.requests
    upstream.requests.clear()
    return request


SIZES = (0, 1, 1000, MAX_BUFFERED_BODY, MAX_BUFFERED_BODY + 1, 1_000_000)


@pytest.mark.parametrize(("host", "path"), [(APP, b"/in/x"), (BELOW, b"/out/x"), (TWO, b"/in/x")])
async def test_each_body_arrives_as_it_was_sent(gate: RunningGate, host: str, path: bytes) -> None:
    async with RawUpstream(port=PORT) as upstream:
        for method in ("POST", "PUT", "DELETE", "GET"):
            for size in SIZES:
                body = bytes(at % 251 for at in range(size))

                def sent(method: str = method, body: bytes = body) -> int:
                    with connected(gate, host) as client:
                        whole = head(gate, len(body), "Content-Type: text/plain", host=host, method=method) + body
                        return client.send(whole).response(method).status

                assert await asyncio.to_thread(sent) == 200
                request = incoming(upstream)
                assert (request.target, request.body) == (path, body)
                assert request.values(b"content-length") == [str(size).encode()] or size == 0
                assert not [name for name, _ in request.headers if name.lower().startswith((b"x-gate-", b"x-envoy-", b"expect"))]


async def test_http2_body_must_match_content_length(gate: RunningGate) -> None:
    """An upstream would read extra bytes as another request, and the next request as missing bytes."""
    if gate.builder.settings["data_plane"] == "embedded":
        return

    def requested(output: int | None, body: bytes, *trailers: tuple[str, str]) -> RawResponse | None:
        headers = () if output is None else (("content-length", str(output)),)
        with contextlib.suppress(Broken), RawHttp2Client(gate.port, tls(gate), APP) as client:
            return client.request("POST", "/x", f"{APP}:{gate.port}", *headers, body=body, trailers=trailers)
        return None

    async with RawUpstream(port=PORT) as upstream:
        for output, body in ((5, b"12345"), (None, b"12345"), (16_000, b"x" * 16_000)):
            answer = await asyncio.to_thread(requested, output, body)
            assert answer is not None
            assert answer.status == 200
            assert incoming(upstream).body == body
        answer = await asyncio.to_thread(requested, 5, b"12345", ("x-gate-claim-email", "eve@example.com"))
        assert answer is not None
        assert answer.status == 200
        request = incoming(upstream)
        assert (request.body, request.values(b"x-gate-claim-email")) == (b"12345", [])
        for output, body in ((5, b"1234"), (5, b"123456"), (5, b""), (MAX_BUFFERED_BODY + 1, b"1")):
            answer = await asyncio.to_thread(requested, output, body)
            assert answer is None or (answer.status >= 400 and "x-gate-" not in str(answer.headers))
        assert upstream.requests == []
        await asyncio.to_thread(requested, 0, b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.to_thread(requested, 5, b"12345")
        assert {(request.line, request.body) for request in upstream.requests} <= {
            (b"POST /x HTTP/1.1", b""),
            (b"POST /x HTTP/1.1", b"12345"),
        }


@pytest.mark.parametrize(("body", "trailers"), [(b"hi", ()), (b"", ()), (None, (("x-trailer", "1"),))])
async def test_http2_get_with_body_is_refused(gate: RunningGate, body: bytes | None, trailers: tuple[tuple[str, str], ...]) -> None:
    if gate.builder.settings["data_plane"] == "embedded":
        return

    def requested() -> RawResponse:
        with RawHttp2Client(gate.port, tls(gate), APP) as client:
            return client.request("GET", "/x", f"{APP}:{gate.port}", body=body, trailers=trailers)

    async with RawUpstream(port=PORT) as upstream:
        answer = await asyncio.to_thread(requested)
        assert (answer.status, answer.body.decode()) == (411, f"411 \n{default_advice(411)}\n")
        assert "x-gate-" not in str(answer.headers)
        assert upstream.requests == []


async def test_denied_request_reaches_no_upstream(gate: RunningGate) -> None:
    def sent(size: int) -> int:
        with connected(gate, MEMBERS) as client:
            return client.send(head(gate, size, "Sec-Fetch-Mode: cors", host=MEMBERS) + b"x" * size).response("POST").status

    async with RawUpstream(port=PORT) as upstream:
        for size in SIZES:
            assert await asyncio.to_thread(sent, size) == 401
        assert (upstream.connections, upstream.requests) == (0, [])


async def test_expect_100_continue(gate: RunningGate) -> None:
    def sent() -> list[int]:
        with connected(gate) as client:
            first = client.send(head(gate, 5, "Expect: 100-continue")).one_response("POST")
            return [first.status, client.send(b"12345").response("POST").status]

    async with RawUpstream(port=PORT) as upstream:
        assert await asyncio.to_thread(sent) == [100, 200]
        assert incoming(upstream).body == b"12345"


@pytest.mark.parametrize("sent", [0, 90])
@pytest.mark.parametrize("length", [100, MAX_BUFFERED_BODY + 1])
async def test_stalled_body_gets_408(gate: RunningGate, length: int, sent: int) -> None:
    def stopped(path: str) -> RawResponse:
        with connected(gate) as client:
            answer = client.send(head(gate, length, path=path) + b"x" * sent).response("POST")
            assert client.is_closed()
            return answer

    path = f"/stops/{length}/{sent}"
    async with RawUpstream(port=PORT):
        answer = await asyncio.to_thread(stopped, path)
        assert (answer.status, b"request body" in answer.body) == (408, True)
        assert answer.header("content-type") == "text/plain; charset=utf-8"
        assert not [name for name, _ in answer.headers if name.lower().startswith("x-gate")]
        await has_left(gate, path)


async def has_left(gate: RunningGate, path: str) -> None:
    """To its application a client that is too slow is as one that has left."""
    line = await asyncio.to_thread(gate.wait_for_event, "request", lambda event: event["path"] == path)
    assert (line["status"], line["ending"], line["method"], line.get("problem")) == (499, "client_disconnected", "POST", None)


@pytest.mark.parametrize("length", [100, MAX_BUFFERED_BODY + 1])
async def test_a_client_that_drips_is_cut_off(gate: RunningGate, length: int) -> None:
    def dripped(path: str) -> None:
        with connected(gate) as client, contextlib.suppress(OSError, Broken):
            client.send(head(gate, length, path=path))
            client.socket.settimeout(0.2)
            until = time.monotonic() + 60
            while time.monotonic() < until:
                client.send(b"x")
                with contextlib.suppress(TimeoutError):
                    if not client.socket.recv(4096):
                        return
            raise AssertionError("it may drip for ever")

    path = f"/drip/{length}"
    async with RawUpstream(port=PORT) as upstream:
        await asyncio.to_thread(dripped, path)
        await has_left(gate, path)
        is_taken_whole = length <= MAX_BUFFERED_BODY and gate.builder.settings["data_plane"] == "envoy"
        assert (upstream.connections, upstream.requests) == (0 if is_taken_whole else 1, [])


async def test_slow_client_above_minimum_rate_is_served(gate: RunningGate) -> None:
    """Longer than `timeout_read` in all, with enough in each."""

    def sent() -> int:
        with connected(gate) as client:
            client.send(head(gate, 10 * 300))
            for _ in range(10):
                client.send(b"x" * 300)
                time.sleep(0.3)
            return client.response("POST").status

    async with RawUpstream(port=PORT) as upstream:
        assert await asyncio.to_thread(sent) == 200
        assert incoming(upstream).body == b"x" * 3000


async def test_an_application_may_think_for_longer_than_its_client_may_be_silent(gate: RunningGate) -> None:
    async def slow(conversation: Exchange) -> None:
        await conversation.request()
        await asyncio.sleep(2.5)
        await conversation.send(OK)

    def sent() -> int:
        with connected(gate) as client:
            return client.send(head(gate, 5) + b"12345").response("POST").status

    async with RawUpstream(script=slow, port=PORT):
        assert await asyncio.to_thread(sent) == 200


async def test_early_upstream_response_is_forwarded(gate: RunningGate) -> None:
    async def refuses(conversation: Exchange) -> None:
        await conversation.head()
        await conversation.send(REFUSAL)

    def sent(size: int, piece: int) -> bytes:
        with connected(gate) as client:
            with contextlib.suppress(OSError):
                client.send(head(gate, size))
                for at in range(0, size, piece):
                    client.send(b"x" * min(piece, size - at))
            return client.response("POST").body

    async with RawUpstream(script=refuses, port=PORT):
        for _ in range(10):
            for size, piece in ((MAX_BUFFERED_BODY, 5000), (MAX_BUFFERED_BODY, MAX_BUFFERED_BODY), (500_000, 50_000)):
                assert await asyncio.to_thread(sent, size, piece) == b"large"


async def test_aborted_body_is_not_forwarded(gate: RunningGate) -> None:
    def left(path: str) -> None:
        with connected(gate) as client:
            client.send(head(gate, 1000, path=path) + b"x" * 500)

    def whole() -> int:
        with connected(gate) as client:
            return client.send(head(gate, 9) + b"all of it").response("POST").status

    async with RawUpstream(port=PORT) as upstream:
        await asyncio.to_thread(left, "/left")
        await asyncio.to_thread(left, "/left/too")
        assert await asyncio.to_thread(whole) == 200
        assert incoming(upstream).body == b"all of it"
