"""Read-only databases under a whole gate: signed-in users continue, no failed write is reported as done, each failure is logged."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.integration.test_store_trouble import (
    BOUND,
    HOST,
    HTML,
    builder_of,
    must_come_back,
    signed_in_soon,
    status_of,
)
from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.gate import RunningGate, follow, sign_in
from tests.support.postgresql import PostgresServer
from tests.support.upstream import SampleUpstream

CALLBACK = "/.gate/callback/"
WRITE_VERSION = 18  # the offset of a byte of the file: above 2, SQLite may only read it (its file format, 1.3.3)


@dataclass(frozen=True)
class ReadOnly:
    settings: dict[str, object]
    now: Callable[[], AbstractContextManager[None]]
    message: str


def checkpoint(connection: sqlite3.Connection) -> None:
    busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert not busy


@pytest.fixture
def sqlite(tmp_path: Path) -> ReadOnly:
    """Behave as a read-only file does; file permissions would not stop root."""
    path = tmp_path / "data" / "gate.sqlite3"

    def mark(version: int) -> None:
        # Nothing of the file may be in the log beside it, or that would be read, and written back, instead of what we write.
        # The second checkpoint makes connections that read the first page in between read it again.
        with closing(sqlite3.connect(path, timeout=20)) as other:
            while True:
                checkpoint(other)
                with path.open("r+b") as file:
                    file.seek(WRITE_VERSION)
                    file.write(bytes((version,)))
                checkpoint(other)
                if path.read_bytes()[WRITE_VERSION] == version:
                    return

    @contextmanager
    def now() -> Iterator[None]:
        mark(3)
        yield
        mark(2)

    return ReadOnly({"databroker_storage_type": "database"}, now, "readonly")


@pytest.fixture
def postgresql() -> Iterator[ReadOnly]:
    with PostgresServer() as server:

        @contextmanager
        def now() -> Iterator[None]:
            """As after a switch to a server that follows another."""
            server.query("ALTER SYSTEM SET default_transaction_read_only = on")
            server.query("SELECT pg_reload_conf()")
            yield
            server.query("ALTER SYSTEM RESET default_transaction_read_only")
            server.query("SELECT pg_reload_conf()")

        yield ReadOnly({"databroker_storage_type": "database", "database_url": server.url}, now, "read-only")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_read_only_database_fails_closed_and_recovers(
    kind: str, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    read_only: ReadOnly = request.getfixturevalue(kind)
    builder = builder_of(provider, upstream).setting(admin_allowed_users=["alice@example.com"], **read_only.settings)
    with builder.start(tmp_path) as gate:
        async with (
            gate.client(timeout=BOUND, headers=HTML) as alice,
            gate.client(timeout=BOUND, headers=HTML) as bob,
            gate.client(timeout=BOUND, headers=HTML) as carol,
        ):
            assert (await sign_in(alice, gate.url(HOST), "alice")).status_code == 200
            link = await last_link_of_sign_in(carol, gate, "carol")
            with read_only.now():
                await must_come_back(bob, gate)
                page = await follow(alice, await alice.get(gate.url(builder.authenticate_host, "/.gate/admin/")))
                assert (page.status_code, page.headers.get("retry-after")) == (503, "5"), page.text
                page = await carol.get(link)
                assert (page.status_code, page.headers["retry-after"]) == (503, "5"), page.text
                assert await status_of(carol, gate) == 302
                assert await status_of(alice, gate) == 200
                assert await sign_out(alice, gate) == 503
                assert await status_of(alice, gate) == 200
            assert any(read_only.message in line for line in gate.child.lines)
            assert await status_of(alice, gate) == 200
            assert await signed_in_soon(bob, gate, "bob") < BOUND
            async with asyncio.timeout(BOUND):
                while (page := await carol.get(link)).status_code != 302:
                    assert page.status_code == 503
            assert await status_of(carol, gate) == 200
            async with asyncio.timeout(BOUND):
                while await status_of(alice, gate) == 200:
                    assert await sign_out(alice, gate) in (302, 503), "each connection may have to learn of it"
            assert await status_of(alice, gate) == 302
        assert gate.child.process.poll() is None
        assert [line for line in gate.child.lines if "Traceback" in line] == []


async def last_link_of_sign_in(client: httpx.AsyncClient, gate: RunningGate, user: str) -> str:
    """Where a browser is sent that needs one step more to be signed in at the host of the route."""
    page = await follow(client, await client.get(gate.url(HOST)))
    response = await pick_user(client, page, user)
    while not str(response.headers["location"]).startswith(gate.url(HOST, CALLBACK)):
        response = await client.get(response.headers["location"])
    return str(response.headers["location"])


async def sign_out(client: httpx.AsyncClient, gate: RunningGate) -> int:
    """Sign out in a browser that keeps its cookies, and return the status."""
    host = gate.builder.authenticate_host
    page = await client.get(gate.url(host, "/.gate/"))
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    cookies = httpx.Cookies(client.cookies)
    answer = await client.post(gate.url(host, "/.gate/signout/"), data={"_gate_csrf": token})
    client.cookies = cookies
    return answer.status_code
