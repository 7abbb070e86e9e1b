"""Checks of the health service of grpcio, and of servers with responses that it never sends."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived, StreamEnded

from config.routes.route import Route
from proxy.upstreams.grpc_health import METHOD, check_grpc
from proxy.upstreams.health_state import HealthCheckFailed
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.upstream_tls import client_context
from tests.support.certs import certificate_files
from tests.unit.proxy.upstreams.test_health_checks import CHECK, Checked

SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
SERVES = b"\0\0\0\0\x02\x08\x01"
NAME = "upstream.example.com"


def route_to(port: int, scheme: str = "http", **keys: object) -> Route:
    return Route.model_validate({"from": "https://app.example.com", "to": f"{scheme}://127.0.0.1:{port}", **keys})


async def run_check(route: Route, *, seconds: float = 20, **check: object) -> None:
    checked = route_to(1, health_checks=[{**CHECK, "grpc_health_check": check}])
    context = client_context(route, "h2") if route.to[0].url.scheme == "https" else None
    await check_grpc(Upstream.build(route), context, checked.health_checks[0].grpc_health_check, seconds)


@asynccontextmanager
async def health_service(credentials: grpc.ServerCredentials | None = None) -> AsyncIterator[tuple[int, health.aio.HealthServicer]]:
    server, servicer, address = grpc.aio.server(), health.aio.HealthServicer(), "127.0.0.1:0"
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
    await server.start()
    try:
        yield port, servicer
    finally:
        await server.stop(None)


@asynccontextmanager
async def http2_server(status: str, body: bytes) -> AsyncIterator[tuple[int, list[dict[str, str]]]]:
    """HTTP/2 server with a fixed response; yields its port and the request heads that it received."""
    heads: list[dict[str, str]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    heads.append(dict(event.headers))
                elif isinstance(event, StreamEnded):
                    connection.send_headers(event.stream_id, [(":status", status), ("content-type", "application/grpc")])
                    for start in range(0, len(body), 10_000):
                        connection.send_data(event.stream_id, body[start : start + 10_000])
                    connection.end_stream(event.stream_id)
            writer.write(connection.data_to_send())

    async with tcp_server(answer) as port:
        yield port, heads


@asynccontextmanager
async def tcp_server(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """TCP server whose connections all end before the test; yields its port."""
    running: list[asyncio.Task[None]] = []

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.append(asyncio.current_task())
        try:
            await answer(reader, writer)
        finally:
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(converse, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
    await asyncio.gather(*running, return_exceptions=True)


async def test_checks_server_and_named_service():
    async with health_service() as (port, servicer):
        route = route_to(port)
        await run_check(route)
        with pytest.raises(HealthCheckFailed, match="grpc-status 5"):
            await run_check(route, service_name="shop.Orders")
        await servicer.set("shop.Orders", SERVING)
        await run_check(route, service_name="shop.Orders")
        await servicer.set("shop.Orders", NOT_SERVING)
        with pytest.raises(HealthCheckFailed, match="it returned NOT_SERVING") as refused:
            await run_check(route, service_name="shop.Orders")
        assert refused.value.immediate


async def test_not_serving_upstream_is_unhealthy():
    async with health_service() as (first, servicer), health_service() as (second, _):
        check = {**CHECK, "grpc_health_check": {}}
        async with Checked(*(f"http://127.0.0.1:{port}" for port in (first, second)), health_checks=[check]) as checked:
            await checked.until("healthy", "healthy")
            await servicer.set("", NOT_SERVING)
            await checked.until("unhealthy", "healthy")
            await servicer.set("", SERVING)
            await checked.until("healthy", "healthy")


async def test_uses_tls_settings_of_the_route(tmp_path):
    files = certificate_files(tmp_path, NAME)
    custom_ca = {"tls_custom_ca": base64.b64encode(files.authority.read_bytes()).decode()}
    credentials = grpc.ssl_server_credentials([(files.key.read_bytes(), files.certificate.read_bytes())])
    async with health_service(credentials) as (port, _):
        await run_check(route_to(port, "https", **custom_ca, tls_server_name=NAME))
        await run_check(route_to(port, "https", tls_skip_verify=True))
        for keys in (custom_ca, {**custom_ca, "tls_server_name": "other.example.com"}, {"tls_server_name": NAME}):
            with pytest.raises(OSError, match="certificate verify failed"):
                await run_check(route_to(port, "https", **keys))


async def test_member_has_http2_tls_context(tmp_path):
    files = certificate_files(tmp_path, NAME)
    keys = {"tls_custom_ca": base64.b64encode(files.authority.read_bytes()).decode(), "tls_server_name": NAME}
    credentials = grpc.ssl_server_credentials([(files.key.read_bytes(), files.certificate.read_bytes())])
    async with health_service(credentials) as (port, servicer):
        check = {**CHECK, "grpc_health_check": {}}
        async with Checked(f"https://127.0.0.1:{port}", health_checks=[check], **keys) as checked:
            (member,) = checked.cluster.members
            assert isinstance(member.http2, ssl.SSLContext)
            assert member.http2 is not member.upstream.ssl  # upstream.ssl offers only HTTP/1.1
            await servicer.set("", NOT_SERVING)
            await checked.until("unhealthy")
            await servicer.set("", SERVING)
            await checked.until("healthy")


async def test_sends_grpc_request():
    async with http2_server("200", SERVES) as (port, heads):
        await run_check(route_to(port))
        await run_check(route_to(port), authority="orders.internal")
    assert [head[":authority"] for head in heads] == [f"127.0.0.1:{port}", "orders.internal"]
    assert {(head[":method"], head[":path"], head["content-type"], head["te"]) for head in heads} == {
        ("POST", METHOD, "application/grpc", "trailers")
    }


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        ("503", b"", "status 503"),
        ("404", SERVES, "status 404"),
        ("200", b"", "grpc-status missing"),
        ("200", b"\0\0", "not gRPC"),
        ("200", b"\x01" + SERVES[1:], "not gRPC"),
        ("200", SERVES + b"\x08", "not gRPC"),
        ("200", SERVES + SERVES, "not gRPC"),
        ("200", b"\0\0\0\0\0", "it returned UNKNOWN"),
        ("200", b"\0\0\0\0\x02\x08\x63", "it returned 99"),
        ("200", b"x" * 60_000, "not gRPC"),
    ],
)
async def test_fails_unless_serving(status, body, reason):
    async with http2_server(status, body) as (port, _):
        with pytest.raises(HealthCheckFailed, match=reason) as refused:
            await run_check(route_to(port))
        assert refused.value.immediate is (status == "503")


async def test_http1_upstream_is_unhealthy():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async with tcp_server(answer) as port:
        with pytest.raises(OSError, match=r"."):
            await run_check(route_to(port))
