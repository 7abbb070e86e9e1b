"""Features of `data_plane: envoy` alone: HTTP/2, gRPC, and the life cycle of the child process."""

import asyncio
import os
import signal
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc
import pytest
import yaml
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived
from h2.exceptions import ProtocolError

from tests.support.certs import certificate_files
from tests.support.children import Child, wait_until
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE
from tests.support.gate import GateBuilder, RunningGate, sign_in, sign_out
from tests.support.options import MINIMAL
from tests.support.raw_http import RawClient, RawResponse
from tests.support.raw_http2 import RawHttp2Client
from tests.support.reloading import RELOADED, reload, replace, wait_for_event
from tests.support.upstream import SampleUpstream

APP, API, OPEN = "app.localhost", "api.localhost", "open.localhost"
ECHO, DRIP = "/test.Service/Echo", "/test.Service/Drip"


@asynccontextmanager
async def http2_upstream() -> AsyncIterator[str]:
    """Answers each stream with its `x-a`; a malformed header ends the connection, as in most libraries."""
    connections = set[asyncio.Task[None] | None]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.current_task())
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        connection.initiate_connection()
        with suppress(ProtocolError, ConnectionError):
            writer.write(connection.data_to_send())
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived):
                        value = dict(event.headers).get("x-a")
                        leaks = [value for _, value in event.headers if "STOLEN" in value]
                        answer = [(":status", "200"), ("x-a", repr(value)), ("x-leaks", repr(leaks))]
                        connection.send_headers(event.stream_id, answer, end_stream=True)
                writer.write(connection.data_to_send())
        writer.transport.abort()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*(task for task in connections if task is not None))


@asynccontextmanager
async def service() -> AsyncIterator[tuple[str, list[dict[str, str | bytes]]]]:
    """A gRPC service, and the metadata that it was given."""
    granted: list[dict[str, str | bytes]] = []

    async def echo(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        granted.append(dict(context.invocation_metadata() or ()))
        context.set_trailing_metadata((("x-trailing", "said"),))
        return request

    async def drip(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        while True:
            yield b"."
            await asyncio.sleep(0.05)

    server = grpc.aio.server()
    methods = {"Echo": grpc.unary_unary_rpc_method_handler(echo), "Drip": grpc.unary_stream_rpc_method_handler(drip)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}", granted
    finally:
        await server.stop(None)


def channel(gate: RunningGate, host: str) -> grpc.aio.Channel:
    names = (("grpc.ssl_target_name_override", host), ("grpc.default_authority", f"{host}:{gate.port}"))
    credentials = grpc.ssl_channel_credentials(gate.certificates.authority.read_bytes())
    return grpc.aio.secure_channel(f"127.0.0.1:{gate.port}", credentials, options=names)


@pytest.mark.parametrize("value", ["a", " a", "a ", "\ta", "a\t", " ", ""])
async def test_an_upstream_with_http2_never_sees_blanks_around_a_value(value: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    """Its library ends the connection of such a request, with the streams of all other users."""
    async with http2_upstream() as to:
        builder = GateBuilder(provider.url).setting(data_plane="envoy")
        builder.route(OPEN, to=to, upstream_http2=True, allow_public_unauthenticated_access=True)
        with builder.start(tmp_path) as gate:

            def ask() -> RawResponse:
                with RawHttp2Client(gate.port, gate.certificates.client_context(), OPEN) as client:
                    return client.request("GET", "/", f"{OPEN}:{gate.port}", ("x-a", value))

            answer = await asyncio.to_thread(ask)
    assert (answer.status, answer.header("x-a")) == (200, repr(value.strip()))


async def test_http2_upstream_gets_no_gate_credential(provider: DevelopmentProvider, tmp_path: Path) -> None:
    """Envoy joins several lines of HTTP/1.1 by a comma."""
    async with http2_upstream() as to:
        builder = GateBuilder(provider.url).setting(data_plane="envoy")
        builder.route(OPEN, to=to, upstream_http2=True, allow_public_unauthenticated_access=True)
        lines = b"Cookie: a=1\r\nCookie: _gate=STOLEN\r\nAuthorization: Basic eDp5\r\nAuthorization: Bearer gate-STOLEN\r\n"
        with builder.start(tmp_path) as gate:

            def ask() -> RawResponse:
                with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=OPEN) as client:
                    return client.send(b"GET / HTTP/1.1\r\nHost: %b:%d\r\n%b\r\n" % (OPEN.encode(), gate.port, lines)).response()

            answer = await asyncio.to_thread(ask)
    assert (answer.status, answer.header("x-leaks")) == (200, "[]")


async def test_grpc_for_allowed_users_until_session_end(provider: DevelopmentProvider, tmp_path: Path) -> None:
    async with service() as (url, granted):
        builder = (
            GateBuilder(provider.url)
            .route(API, to=url, allowed_groups=["engineering"], pass_identity_headers=True, upstream_http2=True)
            .setting(data_plane="envoy", groups_claim="groups", jwt_claims_headers=["email"], default_upstream_timeout="1s")
        )
        with builder.start(tmp_path) as gate:
            async with gate.client() as client:
                # The application behind the sign-in answers no GET.
                await sign_in(client, gate.url(API, "/x"), "alice")
                cookie = client_cookies(client, API)
                async with channel(gate, API) as calls:
                    echo, drip = calls.unary_unary(ECHO), calls.unary_stream(DRIP)
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await echo(b"hello", timeout=PATIENCE)
                    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
                    assert granted == []
                    metadata = (("cookie", cookie), ("x-gate-claim-email", "evil@example.com"))
                    call = echo(b"hello", timeout=PATIENCE, metadata=metadata)
                    assert await call == b"hello"
                    assert dict(await call.trailing_metadata())["x-trailing"] == "said"
                    (received,) = granted
                    assert received["x-gate-claim-email"] == "alice@example.com"
                    assert "cookie" not in received
                    stream = drip(b"", metadata=metadata)
                    for _ in range(30):  # longer than the default timeout
                        assert await asyncio.wait_for(stream.read(), PATIENCE) == b"."
                    await sign_out(client, gate)
                    with pytest.raises(grpc.aio.AioRpcError):
                        await asyncio.wait_for(rest_of(stream), PATIENCE)
                    with pytest.raises(grpc.aio.AioRpcError) as after:
                        await echo(b"hello", timeout=PATIENCE, metadata=metadata)
                    assert after.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def rest_of(stream: grpc.aio.UnaryStreamCall) -> None:
    while await stream.read() is not grpc.aio.EOF:
        pass


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=upstream.url, allow_any_authenticated_user=True)
        .route(OPEN, to=upstream.url, allow_public_unauthenticated_access=True)
        .setting(data_plane="envoy")
    )
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


def envoy_of(gate: RunningGate) -> int:
    """The child of gate that is an Envoy."""
    children = Path(f"/proc/{gate.child.process.pid}/task")
    pids = [int(pid) for task in children.iterdir() for pid in (task / "children").read_text().split()]
    found = [pid for pid in pids if b"bootstrap.json" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    (pid,) = found
    return pid


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def answers(gate: RunningGate, host: str = OPEN, path: str = "/") -> int:
    try:
        with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=host) as client:
            return client.send(f"GET {path} HTTP/1.1\r\nHost: {host}:{gate.port}\r\n\r\n".encode()).response().status
    except OSError:
        return 0


def test_browsers_are_offered_http_2(gate: RunningGate) -> None:
    context = gate.certificates.client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with RawClient(gate.port, tls=context, server_name=OPEN) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        assert client.socket.selected_alpn_protocol() == "h2"


def test_an_envoy_that_was_killed_is_started_again(gate: RunningGate) -> None:
    first = envoy_of(gate)
    os.kill(first, signal.SIGKILL)
    gate.wait_for_event("envoy exited")
    wait_until(lambda: answers(gate) == 200, "the next Envoy answers")
    assert envoy_of(gate) != first


def test_new_certificate_keeps_connections(gate: RunningGate, tmp_path: Path) -> None:
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=OPEN) as client:
        ask = f"GET / HTTP/1.1\r\nHost: {OPEN}:{gate.port}\r\n\r\n".encode()
        assert client.send(ask).response().status == 200
        files = certificate_files(tmp_path, "authenticate.localhost", APP, OPEN)
        before = [path.read_bytes() for path in (gate.certificates.certificate, gate.certificates.key)]
        replace(gate.certificates.key, files.key.read_bytes())
        with wait_for_event(gate, RELOADED):
            replace(gate.certificates.certificate, files.certificate.read_bytes())
        wait_until(
            lambda: displayed(gate) == ssl.PEM_cert_to_DER_cert(files.issued.certificate_pem.decode()), "the new certificate is shown"
        )
        assert client.send(ask).response().status == 200
        replace(gate.certificates.key, before[1])
        with wait_for_event(gate, RELOADED):
            replace(gate.certificates.certificate, before[0])


def displayed(gate: RunningGate) -> bytes | None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with RawClient(gate.port, tls=context, server_name=OPEN) as client:
        assert isinstance(client.socket, ssl.SSLSocket)
        return client.socket.getpeercert(binary_form=True)


def test_new_rules_count_on_connections_that_are_open(gate: RunningGate) -> None:
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=OPEN) as client:
        ask = f"GET / HTTP/1.1\r\nHost: {OPEN}:{gate.port}\r\nAccept: text/html\r\n\r\n".encode()
        assert client.send(ask).response().status == 200
        app, public = gate.builder.policy
        closed = {"from": public["from"], "to": public["to"], "allow_any_authenticated_user": True}
        reload(gate, policy=[app, closed])
        assert client.send(ask).response().status == 302
        reload(gate, policy=[app, public])
        assert client.send(ask).response().status == 200


def test_requires_service_with_traffic(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    route = {"from": "https://app.example.com", "to": "http://127.0.0.1:9"}
    path.write_text(
        yaml.safe_dump({**MINIMAL, "data_dir": str(tmp_path / "data"), "data_plane": "envoy", "services": "databroker", "policy": [route]})
    )
    with Child.python("manage.py", "checkconfig", "-config", path) as child:
        assert child.process.wait(20) == 1
    assert "data_plane" in child.output
    assert "all or proxy" in child.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_envoy_ends_with_gate(number: signal.Signals, upstream: SampleUpstream, tmp_path: Path) -> None:
    builder = GateBuilder("http://127.0.0.1:9").route(OPEN, to=upstream.url, allow_public_unauthenticated_access=True)
    with builder.setting(data_plane="envoy").start(tmp_path) as gate:
        pid = envoy_of(gate)
        assert answers(gate) == 200
        gate.stop(number)
        wait_until(lambda: not is_running(pid), "Envoy ends")
        assert answers(gate) == 0
