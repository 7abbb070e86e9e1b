"""Streams end with their session, and gate reads no faster than the slowest reader."""

import asyncio
import socket
import ssl
import time
from pathlib import Path

import httpx
import pytest

from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE
from tests.support.gate import HTML, GateBuilder, RunningGate, sign_in, sign_out
from tests.support.upstream import OK, Exchange, RawUpstream

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n6\r\ndata\n\n\r\n"


async def application(conversation: Exchange) -> None:
    while (await conversation.request()).target != b"/events":
        await conversation.send(OK)
    await conversation.send(EVENTS)
    await conversation.ended()


async def open_stream(client, gate: RunningGate):
    """A response whose first event has arrived; events are flushed at once."""
    for _ in range(10):  # on a stalled machine, a session of seconds may expire before its stream opens
        if (await client.get(gate.url("app.localhost"), headers=HTML)).next_request is not None:
            await sign_in(client, gate.url("app.localhost"), "alice")
        response = await client.send(client.build_request("GET", gate.url("app.localhost", "/events")), stream=True)
        if response.status_code == 200:
            break
        await response.aclose()
    assert response.status_code == 200
    events = response.aiter_raw()
    assert await asyncio.wait_for(anext(events), PATIENCE) == b"data\n\n"
    return events


async def ends(events) -> None:
    """Cut, so that it can't be taken for a whole response."""
    with pytest.raises(httpx.TransportError):
        await asyncio.wait_for(anext(events), PATIENCE)


@pytest.mark.parametrize("way", ["sign-out", "expiry"])
async def test_a_stream_ends_with_its_session(way: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    async with RawUpstream(script=application) as canary:
        builder = GateBuilder(provider.url).route("app.localhost", to=canary.url, allow_any_authenticated_user=True)
        if way == "expiry":
            builder.setting(cookie_expire="3s")
        with builder.start(tmp_path) as gate:
            async with gate.client() as client:
                events = await open_stream(client, gate)
                if way == "sign-out":
                    await sign_out(client, gate)
                await ends(events)
            gate.wait_for_event("stream terminated", lambda entry: entry["reason"] == "the session has ended")


async def test_a_reader_that_stops_reading_stops_the_upstream(provider: DevelopmentProvider, tmp_path: Path) -> None:
    sent = 0

    async def flood(conversation: Exchange) -> None:
        nonlocal sent
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
        while True:
            await conversation.send(b"x" * 65536)
            sent += 65536

    async with RawUpstream(script=flood) as canary:
        builder = GateBuilder(provider.url).route("app.localhost", to=canary.url, allow_public_unauthenticated_access=True)
        with builder.start(tmp_path) as gate:
            with await asyncio.to_thread(idle_reader, gate):
                before = -1
                deadline = time.monotonic() + PATIENCE
                while (not sent or before != sent) and time.monotonic() < deadline:
                    before = sent
                    await asyncio.sleep(0.05)
                assert 0 < sent < 32 * 1024 * 1024
            async with gate.client() as other:
                assert (await other.get(gate.url("app.localhost", "/ping"))).status_code == 200


def idle_reader(gate: RunningGate) -> ssl.SSLSocket:
    """Asks, and never reads the answer."""
    raw = socket.create_connection(("127.0.0.1", gate.port))
    connection = gate.certificates.client_context().wrap_socket(raw, server_hostname="app.localhost")
    connection.sendall(f"GET / HTTP/1.1\r\nHost: app.localhost:{gate.port}\r\n\r\n".encode())
    return connection
