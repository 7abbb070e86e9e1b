"""Stores that are full or hang, under a whole gate: no request is allowed by mistake, each failure is logged, and gate recovers."""

import asyncio
import re
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, sign_in, status_or_cut
from tests.support.network_faults import FaultyLink
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream

HOST, PUBLIC_HOST = "app.localhost", "public.localhost"
STALENESS = 4.0
# A call to the database may take 5 s, and another waits for its turn; no request takes longer.
BOUND = 20.0
SILENT = "did not respond within"  # said of any store, also of one that would have said something else a moment later
POSTGRESQL_FILE = 16 * 1024 * 1024  # bytes: its log is written in files of that size, which exist before

During = Callable[[RunningGate], AbstractContextManager[None]]


@dataclass(frozen=True)
class Trouble:
    """Failures of a store for the duration of a context, and their texts in the log."""

    settings: dict[str, object]
    is_full: During
    full_text: str
    hangs: During
    hang_text: str
    is_silent: bool = True  # while it hangs, nothing can be read either
    end_sessions: Callable[[], object] = lambda: None  # behind gate's back, while it hangs


@contextmanager
def without_disk(pid: int) -> Iterator[None]:
    """As where the disk is full: what this process writes to files fails."""
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


@pytest.fixture
def kvstore(tmp_path: Path) -> Iterator[Trouble]:
    with RedisServer(tmp_path / "redis", "--appendonly", "yes") as server:

        @contextmanager
        def is_full(gate: RunningGate) -> Iterator[None]:
            server.command("CONFIG", "SET", "maxmemory", "1")
            yield
            server.command("CONFIG", "SET", "maxmemory", "0")

        @contextmanager
        def hangs(gate: RunningGate) -> Iterator[None]:
            server.hang()
            yield
            server.go_on()

        settings = {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": server.url}
        yield Trouble(settings, is_full, "maxmemory", hangs, SILENT)


@pytest.fixture
def sqlite(tmp_path: Path) -> Trouble:
    def is_full(gate: RunningGate) -> AbstractContextManager[None]:
        return without_disk(gate.child.process.pid)

    @contextmanager
    def hangs(gate: RunningGate) -> Iterator[None]:
        """Another program keeps the file to itself; who reads need not wait for it."""
        other = sqlite3.connect(tmp_path / "data" / "gate.sqlite3", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        yield
        other.close()

    return Trouble({"databroker_storage_type": "database"}, is_full, "disk", hangs, "locked", is_silent=False)


@pytest.fixture
def postgresql() -> Iterator[Trouble]:
    with PostgresServer() as server, FaultyLink(server.port) as line:

        @contextmanager
        def is_full(gate: RunningGate) -> Iterator[None]:
            server.limit_file_size(POSTGRESQL_FILE)
            fill(server)
            yield
            server.limit_file_size(None)
            server.query("DELETE FROM databroker_storedrecord WHERE type = 'filling'")

        @contextmanager
        def hangs(gate: RunningGate) -> Iterator[None]:
            line.stall()
            yield
            line.restore()

        def end_sessions() -> None:
            server.query("DELETE FROM databroker_storedrecord WHERE type = 'session'")

        settings = {
            "databroker_storage_type": "database",
            "database_url": server.url.replace(str(server.port), str(line.port)),
        }
        yield Trouble(settings, is_full, "could not extend file", hangs, SILENT, end_sessions=end_sessions)


def fill(server: PostgresServer) -> None:
    """Until not even a short row finds room, nor will."""
    server.query("ALTER TABLE databroker_storedrecord SET (autovacuum_enabled = false)")
    version = 0
    for rows, message in ((1000, 60), (1000, 1), (50, 1), (1, 1)):  # 60 words: four rows a page
        data = f"(SELECT string_agg(md5(n::text || m), '') FROM generate_series(1, {message}) m)"
        with suppress(AssertionError):
            while True:
                server.query(
                    "INSERT INTO databroker_storedrecord (type, record_id, version, modified_at, is_deleted, data)"
                    f" SELECT 'filling', n, n, 0, true, {data} FROM generate_series({version - rows}, {version - 1}) n"
                )
                version -= rows


@pytest.fixture(params=["kvstore", "sqlite", "postgresql"])
def trouble(request: pytest.FixtureRequest) -> Trouble:
    return request.getfixturevalue(request.param)


@pytest.fixture
def gate(trouble: Trouble, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    """Its log is looked at when the test is over: no trouble of a store ends it, or shows a trace."""
    builder = builder_of(provider, upstream).setting(session_staleness=f"{STALENESS:g}s", **trouble.settings)
    with builder.start(tmp_path) as running:
        yield running
        assert running.child.process.poll() is None
        assert [line for line in running.child.lines if "Traceback" in line] == []


async def test_full_store_fails_closed_and_recovers(trouble: Trouble, gate: RunningGate) -> None:
    async with user(gate) as alice, user(gate) as bob, user(gate) as carol:
        for client, name in ((alice, "alice"), (carol, "carol")):
            assert (await sign_in(client, gate.url(HOST), name)).status_code == 200
        with trouble.is_full(gate):
            assert await status_of(alice, gate) == 200
            await must_come_back(bob, gate)
            await sign_out_is_done_or_reported_as_failed(carol, gate)
        assert any(trouble.full_text in line for line in gate.child.lines)
        assert await signed_in_soon(bob, gate, "bob") < BOUND


async def test_hanging_store_fails_closed_and_recovers(trouble: Trouble, gate: RunningGate) -> None:
    async with user(gate) as alice:
        assert (await sign_in(alice, gate.url(HOST), "alice")).status_code == 200
        with trouble.hangs(gate):
            if trouble.is_silent:
                await until(alice, gate, 503)
                answer = await alice.get(gate.url(HOST))
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
                await nothing_waits_for_it(alice, gate)
            else:
                assert await status_of(alice, gate) == 200
            trouble.end_sessions()
            async with user(gate) as carol:
                await must_come_back(carol, gate, "carol")
        assert any(trouble.hang_text in line or SILENT in line for line in gate.child.lines)
        has_ended = trouble.end_sessions is not Trouble.end_sessions
        assert await until(alice, gate, 302 if has_ended else 200) < BOUND
        async with user(gate) as carol:
            assert await signed_in_soon(carol, gate, "carol") < BOUND


def user(gate: RunningGate) -> httpx.AsyncClient:
    return gate.client(timeout=BOUND, headers=HTML)


def builder_of(provider: DevelopmentProvider, upstream: SampleUpstream) -> GateBuilder:
    """A gate with one route for signed-in users, and one public route."""
    return (
        GateBuilder(provider.url)
        .route(HOST, to=upstream.url, allow_any_authenticated_user=True)
        .route(PUBLIC_HOST, to=upstream.url, allow_public_unauthenticated_access=True)
    )


async def status_of(client: httpx.AsyncClient, gate: RunningGate) -> int:
    return (await client.get(gate.url(HOST), headers=HTML)).status_code


async def until(client: httpx.AsyncClient, gate: RunningGate, status: int) -> float:
    """The seconds until this is the answer; another than 200, 302 and 503 is never given."""
    started = time.monotonic()
    async with asyncio.timeout(60):
        while (found := await status_or_cut(client, gate.url(HOST), headers=HTML)) != status:
            assert found in (None, 200, 302, 503)
            await asyncio.sleep(0.05)
    return time.monotonic() - started


async def must_come_back(client: httpx.AsyncClient, gate: RunningGate, name: str = "bob") -> None:
    """A sign-in now ends on a page with `Retry-After`, and no user is signed in."""
    page = await sign_in(client, gate.url(HOST), name)
    assert page.status_code == 503, page.text
    assert int(page.headers["retry-after"]) > 0
    assert "text/html" in page.headers["content-type"]
    assert await status_of(client, gate) == 302
    assert (await client.get(gate.url(PUBLIC_HOST))).status_code == 200


async def sign_out_is_done_or_reported_as_failed(client: httpx.AsyncClient, gate: RunningGate) -> None:
    """A full store may have room for a sign-out; gate confirms only a sign-out that was stored."""
    host = gate.builder.authenticate_host
    page = await client.get(gate.url(host, "/.gate/"))
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    cookies = httpx.Cookies(client.cookies)
    answer = await client.post(gate.url(host, "/.gate/signout/"), data={"_gate_csrf": token})
    assert answer.status_code in (302, 503)
    assert answer.status_code == 302 or int(answer.headers["retry-after"]) > 0
    client.cookies = cookies  # as a client that kept them
    assert await status_of(client, gate) == (302 if answer.status_code == 302 else 200)


async def nothing_waits_for_it(client: httpx.AsyncClient, gate: RunningGate) -> None:
    """Many concurrent requests need the store: each gets a response within its deadline, and public requests get one at once."""
    many = [asyncio.create_task(status_of(client, gate)) for _ in range(30)]
    await asyncio.sleep(0)
    assert (await client.get(gate.url(PUBLIC_HOST, "/ping"))).status_code == 200
    assert (await client.get(gate.url(PUBLIC_HOST))).status_code == 200
    assert not all(each.done() for each in many)
    async with asyncio.timeout(BOUND):
        assert set(await asyncio.gather(*many)) == {503}


async def signed_in_soon(client: httpx.AsyncClient, gate: RunningGate, name: str) -> float:
    """A sign-in may end in a remaining store failure and succeed in part; then the provider shows no form again."""
    started = time.monotonic()
    async with asyncio.timeout(60):
        while (status := await status_of(client, gate)) != 200:
            assert status in (302, 503)
            page = await follow(client, await client.get(gate.url(HOST)))
            if str(page.url).startswith(str(gate.builder.settings["idp_provider_url"])):
                await follow(client, await pick_user(client, page, name))
            else:
                await asyncio.sleep(0.05)
    return time.monotonic() - started
