"""Envoy confirms each reset or is killed; no peer is lost."""

import asyncio
import errno
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from proxy.envoy import downstream_connections as module
from proxy.envoy.downstream_connections import MAX_PEERS, DownstreamConnections
from proxy.envoy.process.control_connection import ControlConnection
from proxy.envoy.resources.control_listener import RECORD_BYTES, records_for
from tests.support.eventually import eventually

ONE, OTHER = ("127.0.0.1", 1), ("2001:db8::2", 2)


class FakeEnvoy:
    """Listener for cuts.  Each request gets the next of `answers`, else its own body; `is_silent` answers none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[tuple[str, bytes]] = []
        self.answers: list[bytes] = []
        self.is_silent = False
        self.connected = 0
        self.ends = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self.connected += 1
        while head := await _head(reader):
            body = await reader.readexactly(int(head.rpartition(b"content-length: ")[2]))
            self.requests.append((head.split()[1].decode(), body))
            if not self.is_silent:
                writer.write(self.answers.pop(0) if self.answers else answer(body))
        writer.transport.abort()


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, OSError):
        return b""


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


@pytest.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[FakeEnvoy]:
    made = FakeEnvoy(tmp_path / "cuts")
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def connections(envoy: FakeEnvoy, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DownstreamConnections]:
    """Connections of a fake Envoy that exits when killed."""
    monkeypatch.setattr(module, "CONFIRM_TIMEOUT", 0.5)

    def end() -> None:
        envoy.ends += 1
        asyncio.get_running_loop().call_soon(made.on_envoy_exit)

    made = DownstreamConnections(envoy.path, end)
    following = asyncio.get_running_loop().create_task(made.keep_open())
    await eventually(lambda: made.can_reset)
    yield made
    following.cancel()
    made.on_envoy_exit()


async def test_one_connection_serves_all_requests(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    assert await connections.reset([ONE, OTHER]) == 2
    envoy.answers = [answer(records_for([ONE]))]
    assert await connections.shut_down([ONE, OTHER]) == {ONE}
    assert envoy.requests == [("/cut", records_for([ONE, OTHER])), ("/finish", records_for([ONE, OTHER]))]
    assert (envoy.connected, envoy.ends) == (1, 0)


async def test_many_are_cut_in_bounded_pieces(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    peers = [(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 1) for number in range(300_000)]
    assert await connections.reset(peers) == len(peers)
    assert max(len(body) for _, body in envoy.requests) == MAX_PEERS * RECORD_BYTES < 1 << 16
    assert sum(len(body) for _, body in envoy.requests) == len(peers) * RECORD_BYTES


@pytest.mark.parametrize("bad", [answer(b"", b"503 Service Unavailable"), answer(b"", b"413 Payload Too Large"), b"nonsense\r\n\r\n"])
async def test_invalid_response_is_no_confirmation(envoy: FakeEnvoy, connections: DownstreamConnections, bad: bytes) -> None:
    envoy.answers = [bad]
    assert await connections.reset([ONE]) == 1
    assert [path for path, _ in envoy.requests] == ["/cut", "/cut"]
    envoy.answers = [bad] * 100
    assert await connections.reset([ONE]) == 0
    assert envoy.ends == 1


async def test_unresponsive_envoy_is_killed(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    envoy.is_silent = True
    assert await asyncio.gather(*(connections.reset([ONE]) for _ in range(20))) == [0] * 20
    assert envoy.ends == 1, "its end is that of all"


async def test_missing_descriptor_kills_envoy(
    envoy: FakeEnvoy, connections: DownstreamConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_descriptor(path: Path, on_lost: Callable[[ControlConnection], None]) -> ControlConnection:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(ControlConnection, "open", no_descriptor)
    assert await connections.reset([ONE]) == 1, "the connection is open already"
    envoy.answers = [b"nonsense\r\n\r\n"]
    assert await connections.reset([ONE]) == 0
    assert (envoy.ends, connections.can_reset) == (1, False)


async def test_invalid_peer_kills_envoy(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    assert await connections.reset([("@", 1)]) == 0
    assert envoy.ends == 1


async def test_blocked_event_loop_kills_no_envoy(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    """The answer was there in time."""
    cutting = asyncio.get_running_loop().create_task(connections.reset([ONE]))
    await eventually(lambda: envoy.requests)
    time.sleep(1.0)
    assert (await cutting, envoy.ends) == (1, 0)


async def test_reset_without_connected_envoy_does_nothing(tmp_path: Path) -> None:
    """One that has not been connected to has forwarded nothing."""
    connections = DownstreamConnections(tmp_path / "cuts", lambda: pytest.fail("it was ended"))
    assert await connections.reset([ONE]) == 0


async def test_after_the_end_of_envoy_the_next_one_is_connected_to(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    connections.on_envoy_exit()
    assert not connections.can_reset
    await eventually(lambda: connections.can_reset)
    assert await connections.reset([ONE]) == 1
    assert envoy.connected == 2


async def test_unanswered_shutdown_closes_nothing_and_keeps_envoy(envoy: FakeEnvoy, connections: DownstreamConnections) -> None:
    envoy.is_silent = True
    assert await connections.shut_down([ONE]) == {ONE}
    assert envoy.ends == 0
    envoy.is_silent = False
    await eventually(lambda: connections.can_reset)
    assert await connections.reset([OTHER]) == 1


async def test_opened_waits_until_the_control_connection_is_open(tmp_path: Path) -> None:
    envoy = FakeEnvoy(tmp_path / "cuts")
    connections = DownstreamConnections(envoy.path, lambda: None)
    following = asyncio.create_task(connections.keep_open())
    opened = asyncio.create_task(connections.wait_open())
    await asyncio.sleep(0.1)
    assert not opened.done()
    await envoy.start()
    async with asyncio.timeout(10):
        await opened
    assert connections.can_reset
    following.cancel()
    connections.on_envoy_exit()
    await envoy.stop()
