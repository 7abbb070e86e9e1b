"""Unauthenticated callers use little memory, for any method: a real server, and a raw HTTP/2 client."""

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from config.options import Options
from foundation.rpc import rpc_server as rpc_server
from foundation.rpc.rpc_server import MAX_REQUEST_BYTES, RpcServer
from foundation.rpc.shared_secret import TOKEN, SharedSecret
from foundation.values import HostPort

MIB = 1024 * 1024
STREAMS = 60
PATIENCE = 20.0  # seconds; a stream ends within a fraction of one
BY_BODY, ECHO = "/a.B/ByBody", "/a.B/Echo"
METHODS = [
    ECHO,
    BY_BODY,
    "/a.B/NoSuchMethod",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
]


async def echo(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
    return request[:10]


@pytest.fixture
def secret(options: Options) -> SharedSecret:
    return SharedSecret(options.shared_secret)


@pytest.fixture
async def server(options: Options, secret: SharedSecret, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RpcServer]:
    monkeypatch.setattr(rpc_server, "MAX_READS_PER_ADDRESS", 3)
    monkeypatch.setattr(rpc_server, "READ_TIMEOUT", 0.5)
    proof = lambda method, metadata: method == BY_BODY and (lambda request: request == b"the proof")  # noqa: E731
    server = RpcServer(options, secret, proof)
    handler = grpc.unary_unary_rpc_method_handler(echo)
    server.add("a.B", {"Echo": handler, "ByBody": handler})
    server.bind(HostPort("127.0.0.1", 0))
    await server.start()
    yield server
    await server.stop()


def sent_unfinished(port: int, method: str) -> tuple[int, int]:
    """(bytes that the server let come, streams that it ended), of streams with a message that lacks its last byte."""
    h2, unsent, ended = H2Connection(H2Configuration(header_encoding="utf-8")), dict[int, int](), set[int]()
    h2.initiate_connection()
    pseudo = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost")]
    sent, until = 0, time.monotonic() + PATIENCE
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:

        def exchange() -> None:
            client.settimeout(PATIENCE)
            client.sendall(h2.data_to_send())
            client.settimeout(0.02)
            try:
                data = client.recv(65536)
            except TimeoutError:
                return
            for event in h2.receive_data(data):
                if isinstance(event, StreamEnded | StreamReset) and event.stream_id:
                    ended.add(event.stream_id)

        exchange()
        for _ in range(STREAMS):
            stream = h2.get_next_available_stream_id()
            h2.send_headers(stream, [*pseudo, ("content-type", "application/grpc"), ("te", "trailers")])
            h2.send_data(stream, b"\0" + struct.pack(">I", MAX_REQUEST_BYTES))
            unsent[stream] = MAX_REQUEST_BYTES - 1
        while len(ended) < STREAMS and time.monotonic() < until:
            for stream in unsent.keys() - ended:
                try:
                    size = min(unsent[stream], h2.local_flow_control_window(stream), h2.max_outbound_frame_size)
                    h2.send_data(stream, b"x" * size)
                except ProtocolError:  # it was ended just now
                    continue
                unsent[stream] -= size
                sent += size
            exchange()
    return sent, len(ended)


@pytest.mark.parametrize("method", METHODS)
async def test_unfinished_messages_of_unauthenticated_peers_are_dropped(server: RpcServer, method: str) -> None:
    sent, ended = await asyncio.to_thread(sent_unfinished, server.port, method)
    assert ended == STREAMS
    assert sent < 45 * MIB < STREAMS * MAX_REQUEST_BYTES / 5


async def test_authenticated_message_is_answered_and_others_are_refused(server: RpcServer) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.unary_unary(BY_BODY)
        assert await asyncio.gather(*(call(b"the proof", timeout=PATIENCE) for _ in range(50))) == [b"the proof"] * 50
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"another", timeout=PATIENCE)
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.aio.AioRpcError) as empty:
            await channel.stream_unary(BY_BODY)(iter([]), timeout=PATIENCE)
        assert empty.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_other_calls_are_answered_while_an_unauthenticated_one_is_read(server: RpcServer, secret: SharedSecret) -> None:
    """Authenticated callers do not wait, and waiting callers get their slot."""
    flood = asyncio.create_task(asyncio.to_thread(sent_unfinished, server.port, BY_BODY))
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        token = secret.token(ECHO)
        while not flood.done():
            assert await channel.unary_unary(ECHO)(b"hello", metadata=[(TOKEN, token)], timeout=PATIENCE) == b"hello"
            await asyncio.sleep(0.05)
        assert await channel.unary_unary(BY_BODY)(b"the proof", timeout=PATIENCE) == b"the proof"
        health = health_pb2_grpc.HealthStub(channel)
        assert (await health.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE)).status == health_pb2.HealthCheckResponse.SERVING
        watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    await flood


async def test_no_message_is_decompressed(server: RpcServer) -> None:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}", compression=grpc.Compression.Gzip) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(BY_BODY)(b"the proof" + b"x" * 100_000, timeout=PATIENCE)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
