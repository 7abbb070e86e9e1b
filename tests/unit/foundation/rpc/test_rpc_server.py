"""Authentication, ports, and connection age, with a real server and real connections."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from config.options import Options
from databroker.records import SESSION
from databroker.rpc import databroker_pb2 as pb
from databroker.store.memory import MemoryStore
from foundation.errors import BadRequest, ConfigError
from foundation.rpc.rpc_server import RpcServer
from foundation.rpc.shared_secret import PROOF, TOKEN, SharedSecret
from foundation.telemetry.metrics import registry
from foundation.values import HostPort
from tests.support.certs import certificate_files
from tests.support.options import make_options
from tests.support.rpc import client_of, serve_broker

SERVICE = pb.DESCRIPTOR.services_by_name["DataBrokerService"]
METHODS = [method.name for method in SERVICE.methods]


@pytest.fixture
async def server(options: Options) -> AsyncIterator[RpcServer]:
    store = MemoryStore()
    await store.put(SESSION, "a", {"n": 1})
    server = await serve_broker(options, store)
    yield server
    await server.stop()


@pytest.fixture
async def channel(server: RpcServer) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield channel


async def outcome(channel: grpc.aio.Channel, method: str, metadata: list[tuple[str, str]], body: bytes = b"") -> grpc.StatusCode:
    try:
        async for _ in channel.unary_stream(method)(body, metadata=metadata, timeout=5):
            break
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("name", [*METHODS, "NoSuchMethod"])
async def test_no_method_answers_a_caller_that_proves_nothing(channel, options, name):
    method = f"/databroker.DataBrokerService/{name}"
    old = SharedSecret(options.shared_secret, lambda: 1_000_000_000.0)
    foreign = SharedSecret([b"x" * 32])
    raw = options.shared_secret[0].reveal()
    for metadata in (
        [],
        [("jwt", jwt.encode({"exp": 2**40}, raw, algorithm="HS256"))],
        [(TOKEN, jwt.encode({"exp": 2**40}, raw, algorithm="HS256"))],
        [(TOKEN, jwt.encode({"exp": 2**40}, None, algorithm="none"))],
        [(TOKEN, old.token(method))],
        [(TOKEN, foreign.token(method))],
        [(TOKEN, SharedSecret(options.shared_secret).token("/databroker.DataBrokerService/Other"))],
    ):
        assert await outcome(channel, method, metadata) is grpc.StatusCode.UNAUTHENTICATED


async def test_authenticated_call_gets_authenticated_response(channel, options):
    secret, method = SharedSecret(options.shared_secret), "/databroker.DataBrokerService/Get"
    token = secret.token(method)
    call = channel.unary_unary(method)(pb.GetRequest(type=SESSION, id="a").SerializeToString(), metadata=[(TOKEN, token)], timeout=5)
    secret.verify_proof(method, token, await call.initial_metadata())
    assert pb.GetResponse.FromString(await call).record.id == "a"


async def test_a_refusal_proves_nothing_to_the_refused(channel):
    call = channel.unary_unary("/databroker.DataBrokerService/Get")(b"", timeout=5)
    with pytest.raises(grpc.aio.AioRpcError):
        await call
    assert PROOF not in dict(await call.initial_metadata()) | dict(await call.trailing_metadata())


async def test_health_and_reflection_need_no_credentials(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "databroker.DataBrokerService"):
        answer = await health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = reflection.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=5)
    names = [service.name async for answer in call for service in answer.list_services_response.service]
    assert "databroker.DataBrokerService" in names


async def test_a_taken_port_is_an_error_that_names_the_setting(server, options):
    second = RpcServer(options, SharedSecret(options.shared_secret))
    with pytest.raises(ConfigError) as error:
        second.bind(HostPort("127.0.0.1", server.port))
    assert error.value.problems[0].key == "grpc_address"


async def test_internal_error_is_not_disclosed_to_callers(options):
    async def fail(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        if request == b"bad":
            raise BadRequest("the request is empty")
        raise RuntimeError("password=hunter2")

    server, secret = RpcServer(options, SharedSecret(options.shared_secret)), SharedSecret(options.shared_secret)
    server.add("a.B", {"Fail": grpc.unary_unary_rpc_method_handler(fail)})
    server.bind(HostPort("127.0.0.1", 0))
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        for body, code in ((b"bad", grpc.StatusCode.INVALID_ARGUMENT), (b"", grpc.StatusCode.INTERNAL)):
            with pytest.raises(grpc.aio.AioRpcError) as error:
                await channel.unary_unary("/a.B/Fail")(body, metadata=[(TOKEN, secret.token("/a.B/Fail"))], timeout=5)
            assert error.value.code() is code
            assert "hunter2" not in str(error.value)
    await server.stop()


async def test_a_method_that_takes_a_stream_is_not_served_unguarded(options):
    async def count(requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> bytes:
        return b"x"

    server, secret = RpcServer(options, SharedSecret(options.shared_secret)), SharedSecret(options.shared_secret)
    with pytest.raises(NotImplementedError):
        server.add("a.B", {"Count": grpc.stream_unary_rpc_method_handler(count)})
    assert secret.token("/a.B/Count")
    await server.stop()


async def test_a_request_beyond_the_bound_is_not_read(channel, options):
    method = "/databroker.DataBrokerService/Set"
    metadata = [(TOKEN, SharedSecret(options.shared_secret).token(method))]
    body = pb.SetRequest(type=SESSION, id="a", data=b'{"a": "' + b"x" * 5_000_000 + b'"}').SerializeToString()
    assert await outcome(channel, method, metadata, body) is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_connection_ends_with_its_age_and_a_stream_with_the_grace(tmp_path):
    options = make_options(tmp_path, grpc_server_max_connection_age="50ms", grpc_server_max_connection_age_grace="50ms")
    server, secret = await serve_broker(options, MemoryStore()), SharedSecret(options.shared_secret)
    method = "/databroker.DataBrokerService/Sync"
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.unary_stream(method)(b"", metadata=[(TOKEN, secret.token(method))], timeout=20)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await _read_all(call)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "max connection age" in (error.value.details() or "")
    await server.stop()


async def test_without_such_an_age_in_sight_the_stream_stays(options):
    server, secret = await serve_broker(options, MemoryStore()), SharedSecret(options.shared_secret)
    method = "/databroker.DataBrokerService/Sync"
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        call = channel.unary_stream(method)(b"", metadata=[(TOKEN, secret.token(method))], timeout=20)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_read_all(call), 0.4)
    await server.stop()


async def _read_all(call: grpc.aio.UnaryStreamCall) -> None:
    async for _ in call:
        pass


async def test_each_name_has_its_certificate(tmp_path):
    names = ("one.localhost", "two.localhost")
    files = [certificate_files(_made(tmp_path / name), name) for name in names]
    pairs = [{"cert": str(each.certificate), "key": str(each.key)} for each in files]
    for name, each in zip(names, files, strict=True):
        settings = {"certificate_authority_file": str(each.authority), "override_certificate_name": name}
        options = make_options(tmp_path, grpc_insecure=False, certificates=pairs, **settings)
        server = await serve_broker(options, MemoryStore())
        client = client_of(server.port, options)
        assert await client.server_version() != ""
        await client.close()
        await server.stop()


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


async def test_changed_certificate_is_presented_to_new_connections(tmp_path):
    def options_with_a_new_pair() -> Options:
        files = certificate_files(tmp_path, "broker.example.com")
        pair = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}
        return make_options(tmp_path, insecure_server=None, grpc_insecure=False, **pair)

    def presented_certificate(port: int) -> bytes:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", port), 5) as plain, context.wrap_socket(plain) as tls:
            return tls.getpeercert(binary_form=True)

    first, second = options_with_a_new_pair(), options_with_a_new_pair()
    server = RpcServer(first, SharedSecret(first.shared_secret))
    server.bind(HostPort("127.0.0.1", 0))
    await server.start()
    for options in (first, second):
        server.reload(options)
        leaf = x509.load_pem_x509_certificates(options.certificate_pairs[0].certificate)[0]
        assert await asyncio.to_thread(presented_certificate, server.port) == leaf.public_bytes(Encoding.DER)
    await server.stop()


async def test_each_call_is_counted_by_method_and_outcome(server, channel, options):
    def counted(method: str, status: str, side: str = "server", **labels: str) -> float:
        names = {"service": "gate", "grpc_method": method, "grpc_service": "databroker.DataBrokerService", f"grpc_{side}_status": status}
        return registry.get_sample_value(f"grpc_{side}_requests_total", {**names, **labels}) or 0.0

    def all_of_them() -> list[float]:
        host = f"127.0.0.1:{server.port}"
        return [
            counted("Get", "OK"),
            counted("Get", "NOT_FOUND"),
            counted("Get", "UNAUTHENTICATED"),
            counted("Get", "OK", "client", host=host),
            counted("Get", "NOT_FOUND", "client", host=host),
        ]

    before, client = all_of_them(), client_of(server.port, options)
    assert (await client.get(SESSION, "a")) is not None
    assert (await client.get(SESSION, "b")) is None
    await client.close()
    assert await outcome(channel, "/databroker.DataBrokerService/Get", []) is grpc.StatusCode.UNAUTHENTICATED
    assert [now - then for then, now in zip(before, all_of_them(), strict=True)] == [1, 1, 1, 1, 1]


async def test_a_message_that_is_none_is_an_error_of_the_call_and_ends_nothing_else(server, channel, options):
    method = "/databroker.DataBrokerService/Get"
    metadata = [(TOKEN, SharedSecret(options.shared_secret).token(method))]
    assert await outcome(channel, method, metadata, b"\xff\xff\xff") is grpc.StatusCode.INTERNAL
    client = client_of(server.port, options)
    assert (await client.get(SESSION, "a")) is not None
    await client.close()
