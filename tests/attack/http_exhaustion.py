"""B51: what can clients that are not signed in make gate and Envoy hold?  B52: does revoked access end under that load?"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import h2.config
import h2.connection
import h2.events
import h2.settings

from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target
from tests.support.cookies import client_cookies
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.upstream import SampleUpstream

HOST = "app.localhost"
DESCRIPTORS = 1500
CONNECTIONS, STREAMS = 30, 100
BURST_SECONDS = 6.0
SESSION_SECONDS = 10  # more than a sign-in and the begin of a download take on a busy machine
SERVED = 0.9  # of the requests of a signed-in user: on a busy machine a decision may come too late
ENDS_WITHIN = 20.0  # seconds; gate promises one, and a busy machine is slow
START = f"""
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS}))
sys.argv = ["manage.py", "rungate"]
runpy.run_path("manage.py", run_name="__main__")
"""


@attack("B51", "strangers hold little: streams of HTTP/2 at few descriptors", together=1, sample=1, minutes=2)
def strangers(target: Target) -> Iterator[Case]:
    yield Case(f"{CONNECTIONS} connections of {STREAMS} streams", partial(_burst, ends=False))


@attack("B52", "ends under exhaustion: access that ends in a burst of strangers", together=1, sample=1, minutes=2)
def ends(target: Target) -> Iterator[Case]:
    yield Case(f"{CONNECTIONS} connections of {STREAMS} streams", partial(_burst, ends=True))


async def _burst(target: Target, *, ends: bool) -> Outcome:
    with TemporaryDirectory(prefix="gate-attack-") as directory, SampleUpstream() as upstream:
        builder = GateBuilder(target.gate.builder.settings["idp_provider_url"])
        builder.route(HOST, to=upstream.url, allow_any_authenticated_user=True, timeout="60s").setting(data_plane="envoy")
        if ends:
            builder.setting(cookie_expire=f"{SESSION_SECONDS}s")
        gate = await asyncio.to_thread(builder.start, Path(directory), lambda port, certificates: ("-c", START))
        try:
            async with gate.client() as browser:
                expect((await sign_in(browser, gate.url(HOST), "alice")).status_code == 200, "no user could sign in")
                cookie = client_cookies(browser, HOST)
            if ends:
                reader, writer = await _download(gate, cookie)
            async with _strangers(gate):
                if ends:
                    await _ends(reader, writer)
                else:
                    await _is_served(gate, cookie)
        finally:
            await asyncio.to_thread(gate.__exit__)
    return REFUSED


async def _is_served(gate: RunningGate, cookie: str) -> None:
    """Over a new connection for each request."""
    statuses, started_at = [], time.monotonic()
    while time.monotonic() - started_at < BURST_SECONDS:
        async with asyncio.timeout(ENDS_WITHIN):
            reader, writer = await _sent(gate, "/x", cookie)
            statuses.append((await reader.readline()).split()[1])
            writer.transport.abort()
    served = statuses.count(b"200")
    expect(served >= max(1, SERVED * len(statuses)), f"a signed-in user was served {served} of {len(statuses)} times")


async def _download(gate: RunningGate, cookie: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin a download, before the burst: the session must not be over by then."""
    reader, writer = await _sent(gate, "/drip", cookie)
    expect(b" 200 " in await reader.readline(), "the download did not begin")
    return reader, writer


async def _ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        async with asyncio.timeout(SESSION_SECONDS + ENDS_WITHIN):
            with suppress(OSError, ssl.SSLError):
                while await reader.read(65536):
                    pass
    except TimeoutError:
        expect(False, "a download went on after the end of its session")
    finally:
        writer.transport.abort()


async def _sent(gate: RunningGate, path: str, cookie: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    tls = gate.certificates.client_context()
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port, ssl=tls, server_hostname=HOST)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {HOST}:{gate.port}\r\nCookie: {cookie}\r\n\r\n".encode())
    return reader, writer


@asynccontextmanager
async def _strangers(gate: RunningGate) -> AsyncIterator[None]:
    """Clients without a session: on each connection as many streams as it may have, each asked again when it is answered."""
    tasks = [asyncio.ensure_future(_stranger(gate)) for _ in range(CONNECTIONS)]
    try:
        await asyncio.sleep(1)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _stranger(gate: RunningGate) -> None:
    tls = gate.certificates.client_context()
    tls.set_alpn_protocols(["h2"])
    while True:
        with suppress(OSError, ssl.SSLError, EOFError):
            reader, writer = await asyncio.open_connection("127.0.0.1", gate.port, ssl=tls, server_hostname=HOST)
            try:
                await _ask_for_ever(gate, reader, writer)
            finally:
                writer.transport.abort()
        await asyncio.sleep(0.05)


async def _ask_for_ever(gate: RunningGate, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding=None))
    connection.initiate_connection()
    head = [(":method", "GET"), (":path", "/x"), (":authority", f"{HOST}:{gate.port}"), (":scheme", "https")]
    open_streams = 0
    while True:
        while open_streams < STREAMS and connection.highest_outbound_stream_id < 2**30:
            connection.send_headers(connection.get_next_available_stream_id(), head, end_stream=True)
            open_streams += 1
        writer.write(connection.data_to_send())
        await writer.drain()
        if not (data := await reader.read(65536)):
            return
        for event in connection.receive_data(data):
            if isinstance(event, h2.events.DataReceived) and event.flow_controlled_length:
                connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                open_streams -= 1
