"""Upstreams for tests: each records the requests it receives, and responds as the test needs."""

import asyncio
import contextlib
import json
import queue
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.support.children import free_port
from tests.support.closing import stop_accepting
from tests.support.websockets import accept_for

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Script = Callable[["Exchange"], Awaitable[None]]
WAIT = 15.0  # seconds; only a failing test waits that long

_CLOSED = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ok\n\n"
_SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %b\r\n%b\r\n"


@dataclass(frozen=True)
class ReceivedRequest:
    """A received request: `head` is raw, with its empty line; `body` is unframed."""

    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def target(self) -> bytes:
        return self.line.split(b" ")[1]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        lines = self.head.split(b"\r\n")[1:-2]
        return [(name, value.removeprefix(b" ")) for name, _, value in (line.partition(b":") for line in lines)]

    def values(self, name: bytes) -> list[bytes]:
        """Return every value of headers whose CGI name equals that of `name`."""
        return [value for candidate, value in self.headers if _fold(candidate) == _fold(name)]


class Exchange:
    """One connection on the upstream's side."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self._reader, self._writer = reader, writer

    async def request(self) -> ReceivedRequest:
        head = await self.head()
        return ReceivedRequest(head, await self._body(head.lower()))

    async def head(self) -> bytes:
        return await self._reader.readuntil(b"\r\n\r\n")

    async def read(self, size: int) -> bytes:
        return await self._reader.readexactly(size)

    async def ended(self) -> None:
        """Wait until the proxy has closed its side."""
        with suppress(ConnectionError):
            while await self._reader.read(65536):
                pass

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await self._writer.wait_closed()

    async def _body(self, head: bytes) -> bytes:
        if b"\r\ntransfer-encoding: chunked\r\n" in head:
            return await self._chunked_body()
        _, found, rest = head.partition(b"\r\ncontent-length: ")
        return await self._reader.readexactly(int(rest.split(b"\r\n", 1)[0])) if found else b""

    async def _chunked_body(self) -> bytes:
        body = b""
        while size := int(await self._reader.readline(), 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        assert await self._reader.readline() == b"\r\n"
        return body


class RawUpstream:
    """Raw upstream: sends `answer` to every request, or runs `script` on each connection. Without `port` it uses a free one."""

    def __init__(self, answer: bytes = OK, *, script: Script | None = None, tls: ssl.SSLContext | None = None, port: int = 0):
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self._answer, self._script, self._tls = answer, script or self._answer_each, tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.port = port

    async def __aenter__(self) -> "RawUpstream":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        await stop_accepting(self._server)  # a connection accepted concurrently reaches _accept, which closes it
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:  # it arrived during the shutdown
            writer.transport.abort()
            return
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        conversation = Exchange(reader, writer)
        try:
            await self._script(conversation)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the proxy has disconnected, or the test has ended
        finally:
            self._tasks.discard(task)
            conversation.reset()

    async def _answer_each(self, conversation: Exchange) -> None:
        while True:
            self.requests.append(await conversation.request())
            await conversation.send(self._answer)


class ThreadedUpstream:
    """Upstream that serves in a thread within its context."""

    def __init__(self, server: socketserver.ThreadingTCPServer) -> None:
        self._server = server
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self._thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class SampleUpstream(ThreadedUpstream):
    """HTTP upstream: `hits` counts requests, `posted` contains the bodies of POST requests; `pages` are HTML by path."""

    def __init__(self) -> None:
        upstream = self
        self.hits = 0
        self.posted: list[tuple[str, str, bytes]] = []  # (target, content type, body)
        self.pages: dict[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                upstream.hits += 1
                if self.path.endswith("/drip"):
                    self.drip()
                    return
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.command == "POST":
                    upstream.posted.append((self.path, self.headers.get("Content-Type", ""), content))
                received = {
                    "method": self.command,
                    "target": self.path,
                    "headers": [[name.lower(), value] for name, value in self.headers.items()],
                    "body": content.decode("latin-1"),
                }
                page = upstream.pages.get(self.path)
                body = json.dumps(received).encode() if page is None else page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if page is None else "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def drip(self) -> None:
                """Send a response without an end."""
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while True:
                        self.wfile.write(b"1\r\n.\r\n")
                        time.sleep(0.02)

            do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))


class RecordingUpstream(ThreadedUpstream):
    """Upstream that records every byte: `received` has each request with framed body and trailers, `by_case` the last per `X-Case`.

    It accepts handshakes, sends one event to requests for `text/event-stream`, and 200 to others; one request per connection.
    """

    def __init__(self) -> None:
        upstream = self
        self.received: list[bytes] = []
        self.by_case: dict[str, bytes] = {}

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = self._lines()
                named = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])}
                is_chunked = named.get(b"transfer-encoding", b"").lower() == b"chunked"
                request = head + (self._chunks() if is_chunked else self.rfile.read(int(named.get(b"content-length", 0))))
                if request:
                    upstream.received.append(request)
                    upstream.by_case[named.get(b"x-case", b"").decode()] = request
                    self.wfile.write(self._response(named))

            def _response(self, named: dict[bytes, bytes]) -> bytes:
                if b"upgrade" in named:
                    key = named.get(b"sec-websocket-key")
                    accept = b"Sec-WebSocket-Accept: %b\r\n" % accept_for(key) if key else b""
                    return _SWITCHED % (named[b"upgrade"], accept)
                return _EVENTS if b"event-stream" in named.get(b"accept", b"") else _CLOSED

            def _lines(self) -> bytes:
                """Read lines up to an empty line or the end."""
                found = b""
                while line := self.rfile.readline():
                    found += line
                    if line == b"\r\n":
                        break
                return found

            def _chunks(self) -> bytes:
                """Read chunks with their framing, and the trailers after the last."""
                found = b""
                while line := self.rfile.readline():
                    found += line
                    if not (size := int(line.partition(b";")[0], 16)):
                        return found + self._lines()
                    found += self.rfile.read(size + 2)
                return found

        super().__init__(_Server(("127.0.0.1", free_port()), Connection))


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, request_queue_size = True, 128

    def handle_error(self, *_: Any) -> None:
        """Ignore connections that end early."""


class TcpUpstream:
    """TCP upstream: `accepted()` returns the next connection. With `is_echo` connections are echoed instead, after `greeting`."""

    def __init__(self, *, is_echo: bool = False, greeting: bytes = b""):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"
        self.count = 0
        self._is_echo, self._greeting = is_echo, greeting
        self._connections: queue.Queue[socket.socket] = queue.Queue()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def accepted(self) -> socket.socket:
        return self._connections.get(timeout=WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.count += 1
            connection.settimeout(WAIT)
            connection.sendall(self._greeting)
            self._open.append(connection)
            if self._is_echo:
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()
            else:
                self._connections.put(connection)


def _fold(name: bytes) -> bytes:
    return bytes(byte if chr(byte).isalnum() and byte < 0x80 else ord("-") for byte in name.lower())


def _echo(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.settimeout(None)
        while data := connection.recv(65536):
            connection.sendall(data)
