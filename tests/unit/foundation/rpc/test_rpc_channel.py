"""Calls have a deadline, survive reconnects, and reject unauthenticated servers."""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from config.options import Options
from databroker.rpc import databroker_pb2 as pb
from foundation.rpc.rpc_channel import RpcChannel, RpcError, grpc_target, root_certificates
from foundation.rpc.rpc_server import RpcServer
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import HostPort, Url
from tests.support.certs import certificate_files
from tests.support.children import free_port
from tests.support.options import make_options
from tests.support.rpc import loopback_url

METHOD = "/a.B/Ask"
Behaviour = Callable[[pb.GetRequest, grpc.aio.ServicerContext], Awaitable[pb.DeleteResponse]]


async def yes(request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.DeleteResponse:
    return pb.DeleteResponse(existed=True)


async def serve(options: Options, behaviour: Behaviour = yes, *, host: str = "127.0.0.1", port: int = 0) -> RpcServer:
    server = RpcServer(options, SharedSecret(options.shared_secret))
    handler = grpc.unary_unary_rpc_method_handler(behaviour, pb.GetRequest.FromString, pb.DeleteResponse.SerializeToString)
    server.add("a.B", {"Ask": handler})
    server.bind(HostPort(host, port))
    await server.start()
    return server


@asynccontextmanager
async def channel_to(url: Url, options: Options) -> AsyncIterator[RpcChannel]:
    channel = RpcChannel(url, options, SharedSecret(options.shared_secret))
    try:
        yield channel
    finally:
        await channel.close()


async def ask(channel: RpcChannel, id: str = "", *, idempotent: bool = False) -> bool:
    return (await channel.call(METHOD, pb.GetRequest(id=id), pb.DeleteResponse, idempotent=idempotent)).existed


async def test_a_call_is_answered(options):
    server = await serve(options)
    async with channel_to(loopback_url(server.port), options) as channel:
        assert await ask(channel)
    await server.stop()


async def test_a_server_that_is_not_there_yet_is_waited_for(options):
    port = free_port()
    async with channel_to(loopback_url(port), options) as channel:
        call = asyncio.ensure_future(ask(channel))
        await asyncio.sleep(0.05)
        server = await serve(options, port=port)
        assert await call
        await server.stop()


async def test_a_call_ends_with_its_timeout(tmp_path):
    options = make_options(tmp_path, grpc_client_timeout="50ms")

    async def never(request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.DeleteResponse:
        await asyncio.sleep(60)
        return pb.DeleteResponse()

    server = await serve(options, never)
    for port in (server.port, free_port()):
        async with channel_to(loopback_url(port), options) as channel:
            with pytest.raises(RpcError) as error:
                await ask(channel, idempotent=True)
        assert error.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    await server.stop()


async def test_repeatable_call_is_retried_until_it_succeeds(options):
    calls = []

    async def third_time(request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.DeleteResponse:
        calls.append(request.id)
        if len(calls) < 3:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
        return pb.DeleteResponse(existed=True)

    server = await serve(options, third_time)
    async with channel_to(loopback_url(server.port), options) as channel:
        assert await ask(channel, "x", idempotent=True)
    assert calls == ["x", "x", "x"]
    await server.stop()


async def test_non_repeatable_call_is_sent_once(options):
    calls = []

    async def fail(request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.DeleteResponse:
        calls.append(request.id)
        await context.abort(grpc.StatusCode.UNAVAILABLE, "it may have happened")
        raise AssertionError

    server = await serve(options, fail)
    async with channel_to(loopback_url(server.port), options) as channel:
        with pytest.raises(RpcError) as error:
            await ask(channel, "x")
    assert calls == ["x"]
    assert error.value.code is grpc.StatusCode.UNAVAILABLE
    await server.stop()


class Imposter:
    """A server that serves every client and has no secret."""

    def __init__(self, code: grpc.StatusCode | None = None):
        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            if code is not None:
                await context.abort(code, "so they say")
            return pb.DeleteResponse(existed=True).SerializeToString()

        async def stream(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
            if code is not None:
                await context.abort(code, "so they say")
            yield pb.DeleteResponse(existed=True).SerializeToString()

        self.server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        handlers = {"Ask": grpc.unary_unary_rpc_method_handler(answer), "Follow": grpc.unary_stream_rpc_method_handler(stream)}
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", handlers),))
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    async def __aenter__(self) -> "Imposter":
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop(0)


@pytest.mark.parametrize("code", [None, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ABORTED], ids=str)
async def test_an_imposter_is_not_believed(options, code):
    async with Imposter(code) as imposter, channel_to(loopback_url(imposter.port), options) as channel:
        with pytest.raises(RpcError) as error:
            await ask(channel)
        assert error.value.code is grpc.StatusCode.UNKNOWN
        with pytest.raises(RpcError) as error:
            await anext(channel.stream("/a.B/Follow", pb.GetRequest(), pb.DeleteResponse, 5))
        assert error.value.code is grpc.StatusCode.UNKNOWN


async def test_mismatched_secret_is_distinguished_from_outage(options, tmp_path):
    other = make_options(tmp_path, shared_secret="A" * 43 + "=")
    server = await serve(other)
    async with channel_to(loopback_url(server.port), options) as channel:
        with pytest.raises(RpcError) as error:
            await ask(channel, idempotent=True)
    assert error.value.code is grpc.StatusCode.UNAUTHENTICATED
    await server.stop()


async def test_a_silent_stream_is_a_broken_one(options):
    async def silent(request: pb.GetRequest, context: grpc.aio.ServicerContext) -> AsyncIterator[pb.DeleteResponse]:
        yield pb.DeleteResponse(existed=True)
        await asyncio.sleep(3)
        yield pb.DeleteResponse()  # received by a client that waits longer than its timeout

    server = RpcServer(options, SharedSecret(options.shared_secret))
    handler = grpc.unary_stream_rpc_method_handler(silent, pb.GetRequest.FromString, pb.DeleteResponse.SerializeToString)
    server.add("a.B", {"Follow": handler})
    server.bind(HostPort("127.0.0.1", 0))
    await server.start()
    async with channel_to(loopback_url(server.port), options) as channel:
        stream = channel.stream("/a.B/Follow", pb.GetRequest(), pb.DeleteResponse, 0.2)
        assert (await anext(stream)).existed
        with pytest.raises(RpcError) as error:
            await anext(stream)
    assert error.value.code is grpc.StatusCode.UNAVAILABLE
    await server.stop()


@pytest.mark.parametrize(("spread", "answering"), [(True, 2), (False, 1)])
async def test_calls_are_spread_over_every_address_of_a_name(tmp_path, spread, answering):
    options = make_options(tmp_path, grpc_client_dns_roundrobin=spread)
    calls: Counter[str] = Counter()

    def at(place: str) -> Behaviour:
        async def answer(request: pb.GetRequest, context: grpc.aio.ServicerContext) -> pb.DeleteResponse:
            calls[place] += 1
            return pb.DeleteResponse(existed=True)

        return answer

    four = await serve(options, at("IPv4"))
    six = await serve(options, at("IPv6"), host="::1", port=four.port)
    async with channel_to(Url("http", "localhost", four.port), options) as channel:
        # The second address is connected to while the first one answers already.
        for _ in range(200):
            await ask(channel)
            if len(calls) == 2:
                break
    assert len(calls) == answering
    await four.stop()
    await six.stop()


async def test_tls_uses_configured_authority_and_dialled_name_or_override(tmp_path):
    files = certificate_files(tmp_path, "localhost")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    pair = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key), "grpc_insecure": False}
    authority_settings = {"certificate_authority_file": str(files.authority)}
    server = await serve(make_options(tmp_path, **pair))
    quick = {"grpc_client_timeout": "400ms"}
    for settings, host, is_answered in (
        ({**authority_settings}, "localhost", True),
        ({**authority_settings, **quick}, "127.0.0.1", False),
        ({**authority_settings, "override_certificate_name": "localhost"}, "127.0.0.1", True),
        ({**authority_settings, **quick, "override_certificate_name": "other.localhost"}, "localhost", False),
        ({**quick, "certificate_authority_file": str(certificate_files(foreign, "localhost").authority)}, "localhost", False),
        ({**quick}, "localhost", False),
        ({**authority_settings, **quick, "grpc_insecure": True}, "localhost", False),
    ):
        options = make_options(tmp_path, **{**pair, **settings})
        async with channel_to(Url("https", host, server.port), options) as channel:
            if is_answered:
                assert await ask(channel), (settings, host)
            else:
                with pytest.raises(RpcError):
                    await ask(channel)
    await server.stop()


async def test_a_proxy_variable_leads_no_call_astray(options, monkeypatch):
    server = await serve(options)
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    async with channel_to(Url("http", "localhost", server.port), options) as channel:
        assert await ask(channel)
    await server.stop()


@pytest.mark.parametrize(
    ("url", "target"),
    [
        (Url("https", "broker.internal"), "dns:///broker.internal:443"),
        (Url("http", "broker.internal"), "dns:///broker.internal:80"),
        (Url("https", "broker.internal", 5443), "dns:///broker.internal:5443"),
        (Url("https", "127.0.0.1", 5443), "ipv4:127.0.0.1:5443"),
        (Url("https", "[::1]", 5443), "ipv6:[::1]:5443"),
    ],
)
def test_where_to_connect_follows_from_the_url(url, target):
    assert grpc_target(url) == target


def test_custom_authority_is_added_to_those_of_the_system():
    pem = root_certificates(b"-----BEGIN CERTIFICATE-----\nours\n")
    assert pem is not None
    assert b"ours" in pem
    system = ssl.get_default_verify_paths()
    if Path(system.cafile or system.openssl_cafile).is_file():
        assert pem.count(b"BEGIN CERTIFICATE") > 1
