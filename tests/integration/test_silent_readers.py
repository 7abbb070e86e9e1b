"""A client that does not read, or that claims to want a stream, holds no connection to an application for long.

On both data planes, over each HTTP, whatever the route's `timeout`: `timeout_idle` bounds it, unless the answer is a stream.
An application that thinks is none of these: the route's `timeout` bounds it.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import httpx
import pytest

from tests.support.certs import certificate_files
from tests.support.children import Child, free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import manage
from tests.support.gate import GateBuilder
from tests.support.zero_window import EndlessUpstream, Silent1, Silent2, events

APP, UNBOUNDED, LARGE = "app.localhost", "unbounded.localhost", "large.localhost"
FORGED = ("X-Gate-Edge-May-Stream: 1", "X-Gate-Edge-Cluster: gate", "X-Gate-Edge-Cluster: gate-judge", "X-Gate-Edge-Ticket: 1")
COUNT = 12
CLAIMS = {
    "nothing": {},
    "a stream": {"Accept": "text/event-stream"},
    "a stream among others": {"Accept": "text/html, text/event-stream, */*"},
}
PLANES = [("embedded", Silent1), ("envoy", Silent1), ("envoy", Silent2)]


@asynccontextmanager
async def running(
    provider: DevelopmentProvider,
    directory: Path,
    plane: str,
    to: str,
    *,
    upstream_http2: bool = False,
    large: str = "",
    **settings: object,
) -> AsyncIterator[tuple[int, Child]]:
    """Its port, plain; nothing but `timeout_idle` bounds anything.  `large` is the URL of another application, at LARGE."""
    builder = GateBuilder(provider.url)
    all_users = {"to": to, "allow_public_unauthenticated_access": True, "upstream_http2": upstream_http2}
    builder.route(APP, **all_users)
    builder.route(UNBOUNDED, **all_users, timeout="0s")
    builder.route(LARGE, to=large or to, allow_public_unauthenticated_access=True)
    builder.setting(data_plane=plane, insecure_server=True, certificate_file=None, certificate_key_file=None)
    builder.setting(**{"timeout_idle": "2s", "default_upstream_timeout": "10m", **settings})
    config = builder.write(directory, certificate_files(directory, APP))
    with manage("rungate", "-config", config) as child:
        child.wait_for_line("gate is ready")
        yield builder.port, child


@asynccontextmanager
async def gate(provider: DevelopmentProvider, directory: Path, plane: str, to: str, *, upstream_http2: bool = False) -> AsyncIterator[int]:
    async with running(provider, directory, plane, to, upstream_http2=upstream_http2) as (port, _):
        yield port


@pytest.mark.parametrize(("plane", "silent"), PLANES, ids=lambda part: part if isinstance(part, str) else part.__name__)
async def test_silent_reader_is_disconnected(
    plane: str, silent: type[Silent1 | Silent2], provider: DevelopmentProvider, tmp_path: Path
) -> None:
    async with EndlessUpstream() as upstream, gate(provider, tmp_path, plane, upstream.url) as port:
        for host in (APP, UNBOUNDED):
            for claimed in CLAIMS.values():
                async with silent(port, f"{host}:{port}", "/large", COUNT, claimed):
                    await upstream.is_open("/large", COUNT)
                    await upstream.is_open("/large", 0)


async def test_envoy_connection_limit_is_reported(provider: DevelopmentProvider, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    maximum = {"envoy_max_connections": 10, "envoy_max_heap": 128, "metrics_address": address, "timeout_idle": "5m"}
    async with EndlessUpstream() as upstream, running(provider, tmp_path, "envoy", upstream.url, **maximum) as (port, child):
        async with Silent1(port, f"{APP}:{port}", "/large", 30, {}), httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(60):
            await upstream.is_open("/large", 10)
            received = ""
            while 'gate_envoy_resource_usage_ratio{service="gate",resource="connections"} 1.0' not in received:
                await asyncio.sleep(0.2)
                received = (await client.get(f"http://{address}/metrics")).text
            assert 0 < float(re.findall(r'gate_envoy_resource_usage_ratio{service="gate",resource="heap"} ([0-9.e-]+)', received)[0]) < 1
        await asyncio.to_thread(child.wait_for_line, "envoy rejected connections")
        async with httpx.AsyncClient(trust_env=False) as client, asyncio.timeout(60):
            while (await answered(client, f"http://127.0.0.1:{port}/ping")) != 200:
                await asyncio.sleep(0.1)


async def answered(client: httpx.AsyncClient, url: str) -> int:
    try:
        return (await client.get(url)).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.parametrize("plane", ["embedded", "envoy"])
async def test_a_stream_of_events_lives_on(plane: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    """A stream stays open in silence for longer than the limit of a client that does not read."""
    async with EndlessUpstream() as upstream, gate(provider, tmp_path, plane, upstream.url) as port:
        reader, writer = await events(port, f"{APP}:{port}", CLAIMS["a stream"])
        for _ in range(2):
            async with Silent1(port, f"{APP}:{port}", "/large", 1, {}):
                await upstream.is_open("/large", 1)
                await upstream.is_open("/large", 0)
        upstream.more.set()
        await reader.readuntil(b"data: 1\n\n")
        assert upstream.open["/events"] == 1
        writer.close()
        await upstream.is_open("/events", 0)


@pytest.mark.parametrize("claimed", [{"Content-Type": "application/grpc", "TE": "trailers"}, *CLAIMS.values()])
async def test_over_http_2_to_the_application_too(claimed: dict[str, str], provider: DevelopmentProvider, tmp_path: Path) -> None:
    """Requests that only Envoy can forward, such as gRPC and event streams: the response's type decides there too."""
    async with (
        EndlessUpstream(speaks_http2=True) as upstream,
        gate(provider, tmp_path, "envoy", upstream.url, upstream_http2=True) as port,
    ):
        for host in (APP, UNBOUNDED):
            async with Silent2(port, f"{host}:{port}", "/large", COUNT, claimed):
                await upstream.is_open("/large", COUNT)
                await upstream.is_open("/large", 0)


async def test_a_stream_over_http_2_lives_on(provider: DevelopmentProvider, tmp_path: Path) -> None:
    """A requested stream outlives the limit of a client that did not request one."""
    async with (
        EndlessUpstream(speaks_http2=True, content_type="text/event-stream") as streams,
        gate(provider, tmp_path, "envoy", streams.url, upstream_http2=True) as port,
        Silent2(port, f"{APP}:{port}", "/asked", 1, CLAIMS["a stream"]),
    ):
        await streams.is_open("/asked", 1)
        async with Silent2(port, f"{APP}:{port}", "/unasked", 1, {}):
            await streams.is_open("/unasked", 1)
            await streams.is_open("/unasked", 0)
        assert streams.open["/asked"] == 1


async def outlast(port: int, upstream: EndlessUpstream) -> None:
    """Wait for longer than the limit of a client that does not read."""
    for _ in range(2):
        async with Silent1(port, f"{LARGE}:{port}", "/large", 1, {}):
            await upstream.is_open("/large", 1)
            await upstream.is_open("/large", 0)


@pytest.mark.parametrize("plane", ["embedded", "envoy"])
async def test_slow_application_is_awaited(plane: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    async with (
        EndlessUpstream() as upstream,
        running(provider, tmp_path, plane, upstream.url, timeout_idle="1s") as (port, _),
        asyncio.timeout(60),
    ):
        incoming = [asyncio.create_task(whole(port, host, path)) for host in (APP, UNBOUNDED) for path in ("/think", "/pause")]
        for path in ("/think", "/pause"):
            await upstream.is_open(path, 2)
        await outlast(port, upstream)
        upstream.more.set()
        for answer in await asyncio.gather(*incoming):
            assert answer.startswith(b"HTTP/1.1 200")
            assert answer.endswith(b"some")


async def whole(port: int, host: str, path: str, *headers: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}:{port}", *headers, "Connection: close", "", ""]).encode())
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_a_call_of_grpc_may_think(provider: DevelopmentProvider, tmp_path: Path) -> None:
    more, started = asyncio.Event(), asyncio.Semaphore(0)

    async def think(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
        started.release()
        await more.wait()
        return request

    async def watch(request: bytes, context: grpc.aio.ServicerContext) -> AsyncIterator[bytes]:
        started.release()
        await more.wait()
        yield request

    methods = {"Think": grpc.unary_unary_rpc_method_handler(think), "Watch": grpc.unary_stream_rpc_method_handler(watch)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", methods),))
    url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        async with (
            EndlessUpstream() as upstream,
            running(provider, tmp_path, "envoy", url, upstream_http2=True, large=upstream.url, timeout_idle="1s") as (port, _),
            asyncio.timeout(60),
        ):
            for host in (APP, UNBOUNDED):
                more.clear()
                options = (("grpc.default_authority", f"{host}:{port}"),)
                async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
                    thought, watched = channel.unary_unary("/test.Service/Think")(b"a"), channel.unary_stream("/test.Service/Watch")(b"b")
                    first = asyncio.ensure_future(watched.read())
                    for _ in range(2):
                        await started.acquire()
                    await outlast(port, upstream)
                    more.set()
                    assert (await thought, await first) == (b"a", b"b")
    finally:
        await server.stop(None)


def endings(child: Child) -> list[object]:
    """(status, ending) of each request that a timeout cut, from the access log."""
    received = [(event.get("status"), event.get("problem") or event.get("ending")) for event in child.events]
    return [each for each in received if each[1] in ("timeout", "idle_timeout")]


@pytest.mark.parametrize("timeout_idle", ["1s", "5m"])
async def test_response_cut_by_timeout_is_logged(timeout_idle: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    """Carried by gate, or by Envoy."""
    settings = {"default_upstream_timeout": "2s", "timeout_idle": timeout_idle}
    async with EndlessUpstream() as upstream, running(provider, tmp_path, "envoy", upstream.url, **settings) as (port, child):
        async with asyncio.timeout(60):
            assert (await whole(port, APP, "/pause")).endswith(b"so")
        await asyncio.to_thread(child.wait_for, lambda: bool(endings(child)), "line of the access log")
        assert endings(child) == [(200, "timeout")]


@pytest.mark.parametrize(
    ("host", "idle", "received"), [(APP, "1s", "idle_timeout"), (UNBOUNDED, "1s", "idle_timeout"), (APP, "5m", "timeout")]
)
async def test_envoy_http2_cut_is_logged_as_cut(host: str, idle: str, received: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    settings = {"default_upstream_timeout": "2s", "timeout_idle": idle}
    async with (
        EndlessUpstream(speaks_http2=True) as upstream,
        running(provider, tmp_path, "envoy", upstream.url, upstream_http2=True, **settings) as (port, child),
        Silent2(port, f"{host}:{port}", "/large", COUNT, {}),
    ):
        await upstream.is_open("/large", COUNT)
        await asyncio.to_thread(child.wait_for, lambda: len(endings(child)) == COUNT, "line of the access log for each")
        assert endings(child) == [(200, received)] * COUNT


async def test_a_client_that_speaks_as_gate_does_lifts_no_bound(provider: DevelopmentProvider, tmp_path: Path) -> None:
    """The application is silent over HTTP/2, which Envoy alone carries: its bound is `timeout_idle` for who claims nothing."""
    async with (
        EndlessUpstream(speaks_http2=True) as upstream,
        running(provider, tmp_path, "envoy", upstream.url, upstream_http2=True, timeout_idle="1s") as (port, _),
        asyncio.timeout(60),
    ):
        for number, line in enumerate(FORGED):
            name, value = line.split(": ")
            async with Silent2(port, f"{APP}:{port}", f"/think/{number}", 1, {name: value}):
                await upstream.is_open(f"/think/{number}", 1)
                await upstream.is_open(f"/think/{number}", 0)
