"""Access that ends, ends, whatever state Envoy, gate or the machine is in: what Envoy forwards is cut, or Envoy is started again."""

import asyncio
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from tests.integration.test_envoy import DRIP, envoy_of, rest_of, service
from tests.support.children import Child, free_port, is_open, wait_until
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE
from tests.support.gate import GateBuilder, RunningGate, sign_in, sign_out
from tests.support.raw_http import RawClient
from tests.support.reloading import reload
from tests.support.upstream import SampleUpstream

HOST, API = "app.localhost", "api.localhost"
LASTS = "6s"  # of the session, which time ends: nothing needs a new connection
UNCONFIRMED = "envoy restarted: connection reset unconfirmed"
BALANCER = """
defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{front}
    default_backend gate
backend gate
    server gate 127.0.0.1:{gate} send-proxy
"""
HTTP2_PROXY = """
defaults
    mode http
    http-reuse always
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend front
    bind 127.0.0.1:{front} proto h2
    default_backend gate
backend gate
    server gate 127.0.0.1:{gate} ssl verify none alpn h2 sni str(api.localhost)
"""


@contextmanager
def behind(front: str, builder: GateBuilder, directory: Path) -> Iterator[RunningGate]:
    with ExitStack() as stack:
        if front.endswith("dual stack"):
            builder.setting(address=f":{builder.port}")
        if front == "PROXY protocol":
            hidden, file = free_port(), directory / "haproxy.cfg"
            file.write_text(BALANCER.format(front=builder.port, gate=hidden))
            builder.setting(address=f"127.0.0.1:{hidden}", use_proxy_protocol=True)
            stack.enter_context(Child("haproxy", "-db", "-f", file))
        yield stack.enter_context(builder.start(directory))


def has_ended(client: RawClient) -> bool:
    """Whether the connection ends, however."""
    client.socket.settimeout(PATIENCE)
    try:
        while client.socket.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def take_descriptors(pid: int) -> None:
    """From now on each new one fails."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))


def stop(gate: RunningGate) -> None:
    os.kill(envoy_of(gate), signal.SIGSTOP)


def reload_often(gate: RunningGate) -> None:
    """Replace all clusters, again and again while the session ends."""
    for family in ["V4_ONLY", "AUTO"] * 2:
        reload(gate, dns_lookup_family=family)


def nothing(gate: RunningGate) -> None: ...


SHORTAGES: dict[str, Callable[[RunningGate], None]] = {
    "none": nothing,
    "reloads": reload_often,
    "a stopped Envoy": stop,
    "no descriptors at Envoy": lambda gate: take_descriptors(envoy_of(gate)),
    "no descriptors at gate": lambda gate: take_descriptors(gate.child.process.pid),
}
CASES = [
    *((front, "none") for front in ("IPv4", "IPv6 of a dual stack", "IPv4 of a dual stack", "PROXY protocol")),
    *(("IPv4", shortage) for shortage in SHORTAGES if shortage != "none"),
]


@pytest.mark.parametrize(("front", "shortage"), CASES)
async def test_a_download_ends_with_the_session(
    front: str, shortage: str, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    builder = GateBuilder(provider.url).route(HOST, to=upstream.url, allow_any_authenticated_user=True, timeout="60s")
    builder.setting(data_plane="envoy", cookie_expire=LASTS)
    with behind(front, builder, tmp_path) as gate:
        async with gate.client() as browser:
            assert (await sign_in(browser, gate.url(HOST), "alice")).status_code == 200
            cookie = client_cookies(browser, HOST)
        address = "::1" if front.startswith("IPv6") else "127.0.0.1"
        with RawClient(gate.port, host=address, tls=gate.certificates.client_context(), server_name=HOST) as client:
            client.send(f"GET /drip HTTP/1.1\r\nHost: {HOST}:{gate.port}\r\nCookie: {cookie}\r\n\r\n".encode())
            assert b"200 OK" in client.socket.recv(100)
            before = envoy_of(gate)
            SHORTAGES[shortage](gate)
            assert has_ended(client)
        if shortage == "a stopped Envoy":
            gate.wait_for_event(UNCONFIRMED)
            wait_until(lambda: gate._answers_ping(), "the next Envoy answers")
            assert envoy_of(gate) != before
        else:
            gate.wait_for_event("connections reset after access ended", lambda entry: entry["connections"] == 1)
            assert envoy_of(gate) == before


async def test_behind_an_http2_proxy_a_sign_out_ends_only_calls_of_that_user(provider: DevelopmentProvider, tmp_path: Path) -> None:
    front, file = free_port(), tmp_path / "haproxy.cfg"
    async with AsyncExitStack() as stack:
        url, _ = await stack.enter_async_context(service())
        builder = GateBuilder(provider.url).route(API, to=url, allow_any_authenticated_user=True, upstream_http2=True)
        builder.setting(data_plane="envoy", trusted_proxies=["127.0.0.1/32"])
        file.write_text(HTTP2_PROXY.format(front=front, gate=builder.port))
        gate = stack.enter_context(builder.start(tmp_path))
        haproxy = stack.enter_context(Child("haproxy", "-db", "-f", file))
        haproxy.wait_for(lambda: is_open(front), "HAProxy answers")
        clients = {name: await stack.enter_async_context(gate.client()) for name in ("alice", "bob")}
        options = [("grpc.default_authority", f"{API}:{gate.port}")]
        calls = await stack.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{front}", options=options))
        drips = {}
        for name, client in clients.items():
            await sign_in(client, gate.url(API, "/x"), name)
            drips[name] = calls.unary_stream(DRIP)(b"", metadata=(("cookie", client_cookies(client, API)),))
            assert await asyncio.wait_for(drips[name].read(), PATIENCE) == b"."
        await sign_out(clients["alice"], gate)
        with pytest.raises(grpc.aio.AioRpcError):
            await asyncio.wait_for(rest_of(drips["alice"]), PATIENCE)
        for _ in range(20):
            assert await asyncio.wait_for(drips["bob"].read(), PATIENCE) == b"."
