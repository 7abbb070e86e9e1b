"""Questions come in pieces, several on one connection, and one that can't be answered ends it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import structlog

from proxy.envoy import ext_authz_listener
from proxy.envoy.ext_authz_listener import MAX_REQUEST_BYTES, ExtAuthzListener


async def echo(head: bytes, body: bytes) -> bytes:
    if b"/never" in head:
        raise PermissionError("not our Envoy")
    return b"<%b|%b>" % (head, body)


@asynccontextmanager
async def connection(directory: Path) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(directory / "judge"))
    listening.listen()
    listening.setblocking(False)
    server = ExtAuthzListener(listening, echo)
    reader, writer = await asyncio.open_unix_connection(directory / "judge")
    try:
        yield reader, writer
    finally:
        writer.close()
        server.close()


async def test_each_request_gets_its_response(tmp_path: Path) -> None:
    async with connection(tmp_path) as (reader, writer), asyncio.timeout(10):
        for piece in (b"GET / HTTP/1.1\r\nhost: a\r", b"\n\r\n", b"POST /x HTTP/1.1\r\ncontent-length: 4\r\n\r\nab", b"cd"):
            writer.write(piece)
            await asyncio.sleep(0.01)
        expected = b"<GET / HTTP/1.1\r\nhost: a\r\n|><POST /x HTTP/1.1\r\ncontent-length: 4\r\n|abcd>"
        assert await reader.readexactly(len(expected)) == expected


async def test_failing_check_is_a_500(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as payload:
        async with connection(tmp_path) as (reader, writer), asyncio.timeout(10):
            writer.write(b"GET /never HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 500 ")
    assert [entry["event"] for entry in payload] == ["ext_authz check failed"]


async def test_endless_head_is_aborted(tmp_path: Path) -> None:
    async with connection(tmp_path) as (reader, writer), asyncio.timeout(10):
        writer.write(b"a" * (MAX_REQUEST_BYTES + 1))
        with suppress(ConnectionError):
            assert await reader.read() == b""


async def test_where_descriptors_run_short_envoy_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_short = True
    monkeypatch.setattr(ext_authz_listener, "is_exhausted", lambda descriptor: is_short)
    async with connection(tmp_path) as (reader, writer), asyncio.timeout(10):
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await reader.readexactly(1)
        is_short = False
        assert (await reader.readexactly(1)) == b"<"
