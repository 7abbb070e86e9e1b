"""A canary upstream: records the exact bytes it received, and answers the exact bytes it was told to."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.support.closing import stop_accepting

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Script = Callable[["Conversation"], Awaitable[None]]


@dataclass(frozen=True)
class ReceivedRequest:
    """`head` is raw, with its empty line; `body` is unframed."""

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
        """Every value whose header's folded name is the folded `name`: what an upstream behind CGI would see."""
        return [value for candidate, value in self.headers if _fold(candidate) == _fold(name)]


class Conversation:
    """One connection, from the upstream's side."""

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
        """Waits until the proxy has closed its side."""
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


class CanaryUpstream:
    """`answer` is sent to every request; a `script` speaks on each connection instead.  Without a `port` it is one that is free."""

    def __init__(self, answer: bytes = OK, *, script: Script | None = None, tls: ssl.SSLContext | None = None, port: int = 0):
        self.requests: list[ReceivedRequest] = []
        self.connections = 0
        self._answer, self._script, self._tls = answer, script or self._answer_each, tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self.port = port

    async def __aenter__(self) -> "CanaryUpstream":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_closed = True
        await stop_accepting(self._server)  # what was accepted just now comes to _accept, which ends it
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_closed:  # it came when the end had begun
            writer.transport.abort()
            return
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        conversation = Conversation(reader, writer)
        try:
            await self._script(conversation)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass  # the proxy hung up, or the test is over
        finally:
            self._tasks.discard(task)
            conversation.reset()

    async def _answer_each(self, conversation: Conversation) -> None:
        while True:
            self.requests.append(await conversation.request())
            await conversation.send(self._answer)


def _fold(name: bytes) -> bytes:
    return bytes(byte if chr(byte).isalnum() and byte < 0x80 else ord("-") for byte in name.lower())
