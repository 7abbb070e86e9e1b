"""Clients that send requests without reading responses, over HTTP/1.1 and HTTP/2, and an upstream that counts its connections."""

import asyncio
import contextlib
import socket
from collections import Counter
from typing import Self, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, ResponseReceived, StreamReset
from h2.settings import SettingCodes

from tests.support.closing import stop_accepting
from tests.support.eventually import eventually

PIECE = b"x" * 65536


class EndlessUpstream:
    """Upstream of streaming responses, by path.

    `/events` sends an event each time `more` is set. `/think` starts its response, and `/pause` continues one of plain text, when
    `more` is set. Every other path has a response without an end. Over HTTP/2 only `/think` differs: its response never starts.
    `open` counts the active responses by path. With `speaks_http2` it speaks only HTTP/2 with prior knowledge.
    """

    def __init__(self, *, speaks_http2: bool = False, content_type: str = "application/octet-stream") -> None:
        self.open: Counter[str] = Counter()
        self.started: Counter[str] = Counter()
        self.more = asyncio.Event()
        self._answer = self._answer_http2 if speaks_http2 else self._answer_http1
        self._content_type = content_type
        self._answering: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._answered, "127.0.0.1", 0, backlog=2048)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_accepting(self._server)
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
        await self._server.wait_closed()

    async def is_open(self, path: str, count: int) -> None:
        """Wait until this many are open."""
        await eventually(lambda: self.open[path] == count)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._answering.add(cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            await self._answer(reader, writer)
        finally:
            writer.transport.abort()

    async def _answer_http1(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1].decode()
            self.open[path] += 1
            self.started[path] += 1
            try:
                if path == "/events":
                    await self._events(reader, writer)
                elif path in ("/think", "/pause"):
                    await self._thoughts(writer, begins=path == "/pause")
                else:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (self._content_type.encode(), 10**12)
                    )
                    while True:
                        writer.write(PIECE)
                        await writer.drain()
            finally:
                self.open[path] -= 1

    async def _thoughts(self, writer: asyncio.StreamWriter, *, begins: bool) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\nConnection: close\r\n\r\n"
        writer.write(head + b"so" if begins else b"")
        await self.more.wait()
        writer.write(b"me" if begins else head + b"some")
        await writer.drain()

    async def _events(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        left = asyncio.ensure_future(reader.read())
        while not left.done():
            writer.write(b"9\r\ndata: 1\n\n\r\n")
            more = asyncio.ensure_future(self.more.wait())
            await asyncio.wait([left, more], return_when=asyncio.FIRST_COMPLETED)
            more.cancel()
            self.more.clear()

    async def _answer_http2(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send as much as the window allows; Envoy does not extend it while its client does not read."""
        connection = H2Connection(H2Configuration(client_side=False))
        connection.initiate_connection()
        paths: dict[int, str] = {}
        with contextlib.suppress(OSError):
            while True:
                for stream in (stream for stream, path in paths.items() if not path.startswith("/think")):
                    with contextlib.suppress(Exception):
                        while size := min(connection.local_flow_control_window(stream), 16384):
                            connection.send_data(stream, PIECE[:size])
                writer.write(connection.data_to_send())
                if not (data := await reader.read(65536)):
                    break
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived):
                        path = paths[event.stream_id] = dict(event.headers)[b":path"].decode()
                        self.open[path] += 1
                        if not path.startswith("/think"):
                            connection.send_headers(event.stream_id, [(":status", "200"), ("content-type", self._content_type)])
                    elif isinstance(event, StreamReset):
                        self.open[paths.pop(event.stream_id)] -= 1
        for path in paths.values():
            self.open[path] -= 1


Headers = dict[str, str]


class Silent1:
    """`count` connections over HTTP/1.1, each with one request whose response is not read."""

    def __init__(self, port: int, host: str, path: str, count: int, headers: Headers):
        self._where, self._count = ("127.0.0.1", port), count
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items())]
        self._request = "\r\n".join([*lines, "", ""]).encode()
        self._sockets: list[socket.socket] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        for _ in range(self._count):
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            made.setblocking(False)
            self._sockets.append(made)
            await loop.sock_connect(made, self._where)
            await loop.sock_sendall(made, self._request)
        return self

    async def __aexit__(self, *_: object) -> None:
        for made in self._sockets:
            made.close()


class Silent2:
    """`count` streams over HTTP/2 with a window of zero, a hundred per connection."""

    def __init__(self, port: int, host: str, path: str, count: int, headers: Headers):
        self._port, self._count = port, count
        pseudo = {":method": "GET", ":scheme": "http", ":authority": host, ":path": path}
        self._headers = [*pseudo.items(), *((name.lower(), value) for name, value in headers.items())]
        self._writers: list[asyncio.StreamWriter] = []
        self._readers: list[asyncio.Task[None]] = []
        self.answered = 0

    async def __aenter__(self) -> Self:
        for first in range(0, self._count, 100):
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            connection = H2Connection()
            connection.local_settings[SettingCodes.INITIAL_WINDOW_SIZE] = 0
            connection.initiate_connection()
            for _ in range(min(100, self._count - first)):
                connection.send_headers(connection.get_next_available_stream_id(), self._headers, end_stream=True)
            writer.write(connection.data_to_send())
            self._writers.append(writer)
            self._readers.append(asyncio.create_task(self._listen(connection, reader, writer)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task, writer in zip(self._readers, self._writers, strict=True):
            task.cancel()
            writer.transport.abort()

    async def _listen(self, connection: H2Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Process heads and connection frames without ever extending a window."""
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                for event in connection.receive_data(data):
                    assert not isinstance(event, DataReceived)
                    self.answered += isinstance(event, ResponseReceived)
                writer.write(connection.data_to_send())


def plain_request(host: str, path: str, headers: Headers) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", f"Host: {host}", *(f"{n}: {v}" for n, v in headers.items()), "", ""]).encode()


async def events(port: int, host: str, headers: Headers) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a client of `/events` that has read the head and the first event."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(plain_request(host, "/events", headers))
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    await reader.readuntil(b"data: 1\n\n")
    return reader, writer
