"""A small HTTP server on loopback for vendors' APIs: records requests, and fails as a test configures.

async with SomeApi() as api:
    api.url
    api.fault = lambda request: Fault.DROP if request.path == "/x" else None
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.closing import stop_accepting


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path)

    @property
    def query(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def form(self) -> dict[str, str]:
        return {name: values[-1] for name, values in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True)
class Answer:
    """A response. With `body` None the connection is reset before it, with `is_cut` within it."""

    status: int = 200
    body: bytes | None = b""
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False
    never: bool = False


def as_json(document: Any, status: int = 200, **headers: str) -> Answer:
    return Answer(status, json.dumps(document).encode(), {"Content-Type": "application/json", **headers})


class FakeApi:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.fault: Callable[[Request], Answer | None] = lambda request: None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_accepting(self._server)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        raise NotImplementedError

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                made = self.fault(request) or self.handle(request)
                answer = await made if inspect.isawaitable(made) else made
                if answer.never:
                    await asyncio.Event().wait()
                if not await _write(writer, answer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _write(writer: asyncio.StreamWriter, answer: Answer) -> bool:
    """Write a response; return False if the connection ends with it."""
    if answer.body is None:
        return False
    headers = {"Content-Length": str(len(answer.body) + answer.is_cut), **answer.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode() + answer.body)
    await writer.drain()
    return not answer.is_cut
