"""The control connection: one answer for each request, in whatever pieces it comes, or the connection is lost."""

import asyncio
from pathlib import Path

import pytest

from proxy.envoy.process.control_connection import ControlConnection
from tests.support.eventually import eventually

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        ([OK], b"abc"),
        ([OK[:20], OK[20:-1], OK[-1:]], b"abc"),
        ([b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"], None),
        ([b"HTTP/1.1 200 OK\r\n\r\nabc"], None),
        ([OK[:-1]], None),
    ],
)
async def test_response_is_complete_or_none(tmp_path: Path, pieces: list[bytes], answer: bytes | None) -> None:
    lost: list[ControlConnection] = []

    async def envoy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"POST /cut HTTP/1.1\r\n")
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.01)
        writer.transport.abort()

    server = await asyncio.start_unix_server(envoy, tmp_path / "cuts")
    connection = await ControlConnection.open(tmp_path / "cuts", lost.append)
    try:
        if answer is None:
            with pytest.raises(ConnectionError):
                await connection.post("/cut", b"")
        else:
            assert await connection.post("/cut", b"") == answer
    finally:
        connection.close()
        server.close()
        await asyncio.sleep(0.02)
    await eventually(lambda: lost)
    assert lost == [connection]
    await asyncio.sleep(0.05)
