"""B35: does a session pass after its end, on the connections over which Envoy has forwarded its requests?"""

import asyncio
import atexit
import random
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from config.loader import load_options
from config.options import Options
from databroker.records import SESSION
from databroker.store.base import StoreBackend
from databroker.store.factory import open_store
from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target
from tests.support.gate import GateBuilder, RunningGate
from tests.support.redis_server import RedisServer
from tests.support.signed_in import SignedIn, sign_in
from tests.support.upstream import SampleUpstream

HOST = "app.localhost"
MANY = 10_000
OVERTAKEN = 1_000
AT_ONCE = 32  # connections
# gate promises a second; a busy machine is slow.
ENDS_WITHIN = 20.0  # seconds
LATER = 20  # requests after the first refusal

_to_the_end = ExitStack()
atexit.register(_to_the_end.close)


@dataclass(frozen=True)
class EnvoyGate:
    """A gate with Envoy, and its options."""

    gate: RunningGate
    options: Options

    @property
    def tls(self) -> ssl.SSLContext:
        return self.gate.certificates.client_context()

    def cookie(self, user: SignedIn) -> str:
        return user.cookie(f"{HOST}:{self.gate.port}")


class Connection:
    """One connection to the Envoy."""

    def __init__(self, home: EnvoyGate):
        self._home = home
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def status(self, cookie: str) -> int:
        """Status of the answer to a plain request; 0 where the connection was reset."""
        try:
            if self._streams is None:
                port = self._home.gate.port
                self._streams = await asyncio.open_connection("127.0.0.1", port, ssl=self._home.tls, server_hostname=HOST)
            reader, writer = self._streams
            lines = (f"Host: {HOST}:{self._home.gate.port}", f"Cookie: {cookie}", "Sec-Fetch-Mode: cors")
            writer.write("\r\n".join(["GET /x HTTP/1.1", *lines, "", ""]).encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            return int(head[9:12])
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            return 0

    async def close(self) -> None:
        """Return when the socket is closed: TLS would wait for the other end, and the event loop may end before."""
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()


@attack("B35", "sessions that end while Envoy forwards for them", together=16, sample=16, minutes=3)
def overtaken(target: Target) -> Iterator[Case]:
    """The end comes at any moment of a question, an answer, or between two requests."""
    for number in range(OVERTAKEN):
        yield Case(f"session {number}", partial(_ended_concurrently, number))


@attack("B35", "thousands of sessions that end at once", together=1, sample=0, minutes=2)
def thousands(target: Target) -> Iterator[Case]:
    yield Case(f"{MANY} sessions", _all_end)


async def _ended_concurrently(number: int, target: Target) -> Outcome:
    home, moment = await _home(target), random.Random(number)
    async with _broker(home) as broker:
        user = await sign_in(broker, home.options, f"overtaken{number}")
        cookie = home.cookie(user)
        passed: list[float] = []
        visitors = [asyncio.ensure_future(_until_refused(home, cookie, passed)) for _ in range(3)]
        while number % 2 and not passed:  # half of them end after a request has passed
            await asyncio.sleep(0.01)
        await asyncio.sleep(moment.random() * (0.5 if number % 2 else 0.02))
        await broker.delete(SESSION, user.session.id)
        ended = time.monotonic()
        await asyncio.gather(*visitors)
    late = max(passed, default=ended) - ended
    expect(late < ENDS_WITHIN, f"it passed {late:.1f} s after its end")
    return REFUSED


async def _until_refused(home: EnvoyGate, cookie: str, passed: list[float]) -> None:
    """Ask until it is refused, after which nothing passes any more on this connection; `passed` gets the moments at which it did."""
    connection, started_at = Connection(home), time.monotonic()
    while (status := await connection.status(cookie)) in (0, 200):
        passed += [time.monotonic()] if status else []
        expect(time.monotonic() - started_at < 2 * ENDS_WITHIN, "nobody refused it")
    expect(status == 401, f"an ended session was answered {status}")
    for _ in range(LATER):
        status = await connection.status(cookie)
        expect(status in (0, 401), f"after it was refused it was answered {status}")
        await asyncio.sleep(0.02)
    await connection.close()


async def _all_end(target: Target) -> Outcome:
    home = await _home(target)
    async with _broker(home) as broker:
        people = [await sign_in(broker, home.options, f"many{number}") for number in range(MANY + AT_ONCE)]
        cookies = [home.cookie(user) for user in people]
        expect(set(await _sent(home, cookies)) == {200}, "a signed-in user was refused")
        await asyncio.gather(*(broker.delete(SESSION, user.session.id) for user in people[:MANY]))
        ended = time.monotonic()
        while set(statuses := await _sent(home, random.sample(cookies[:MANY], 500))) != {401}:
            expect(time.monotonic() - ended < ENDS_WITHIN, f"{statuses.count(200)} of 500 sessions passed after their end")
        expect(set(await _sent(home, cookies[:MANY])) == {401}, "a session passed after its end")
        expect(set(await _sent(home, cookies[MANY:])) == {200}, "a session ended with those of others")
    return REFUSED


async def _sent(home: EnvoyGate, cookies: Sequence[str]) -> list[int]:
    """Statuses of one request with each cookie, over a few connections; where one was reset, of the next."""
    found: list[int] = []
    waiting = iter(cookies)

    async def work() -> None:
        connection = Connection(home)
        for cookie in waiting:
            found.append(await connection.status(cookie) or await connection.status(cookie))
        await connection.close()

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return found


@asynccontextmanager
async def _broker(home: EnvoyGate) -> AsyncIterator[StoreBackend]:
    store = open_store(home.options)
    try:
        yield store
    finally:
        await store.close()


async def _home(target: Target) -> EnvoyGate:
    """It runs an event loop while it starts, so it starts in another thread."""
    async with _starting():
        return await asyncio.to_thread(_started, target.gate.builder.settings["idp_provider_url"])


_locks: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}


def _starting() -> asyncio.Lock:
    """Cases run together, and the gate is started once."""
    return _locks.setdefault(asyncio.get_running_loop(), asyncio.Lock())


@cache
def _started(provider_url: str) -> EnvoyGate:
    directory = Path(_to_the_end.enter_context(tempfile.TemporaryDirectory(prefix="gate-attack-")))
    upstream = _to_the_end.enter_context(SampleUpstream())
    redis = RedisServer(directory / "redis")
    _to_the_end.callback(redis.kill)
    builder = (
        GateBuilder(provider_url)
        .route(HOST, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        .setting(data_plane="envoy")
        .setting(databroker_storage_type="kvstore", databroker_storage_connection_string=redis.url)
    )
    gate = _to_the_end.enter_context(builder.start(directory))
    return EnvoyGate(gate, load_options(gate.config_file, {}))
