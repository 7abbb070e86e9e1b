"""Link between the primary and each worker: requests of the primary, and the workers' responses."""

import asyncio
import os
import pickle
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog

from gateproject.process.workers.worker_configuration import WorkerConfiguration

log = structlog.get_logger(__name__)

_LENGTH = 8
CONNECT_SECONDS = 60.0

Answer = Callable[[Any], Awaitable[Any]]


def _frame(message: object) -> bytes:
    written = pickle.dumps(message)
    return len(written).to_bytes(_LENGTH) + written


async def _message(reader: asyncio.StreamReader) -> Any:
    # Only gate's own processes can connect: see WorkerConfiguration.
    return pickle.loads(await reader.readexactly(int.from_bytes(await reader.readexactly(_LENGTH))))  # noqa: S301


class WorkerUnavailable(Exception):
    """The worker has exited or does not respond."""


class WorkerConnection:
    """Primary's end of the link to one worker."""

    def __init__(self, number: int, id: int, writer: asyncio.StreamWriter):
        self.number = number
        self.process_id = id
        self._writer = writer
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._last = 0

    def __repr__(self) -> str:
        return f"<WorkerConnection {self.number}, process {self.process_id}>"

    async def request(self, what: str, argument: object, seconds: float) -> Any:
        """Return the worker's response. Raise WorkerUnavailable after `seconds`."""
        self._last += 1
        number = self._last
        answer = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(_frame((number, what, argument)))
                await self._writer.drain()
                return await answer
        except (TimeoutError, OSError) as error:
            raise WorkerUnavailable(f"worker {self.number} does not respond") from error
        finally:
            self._pending.pop(number, None)

    def set_answer(self, number: int, answer: object) -> None:
        if (pending := self._pending.get(number)) is not None and not pending.done():
            pending.set_result(answer)

    def fail_pending(self) -> None:
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(WorkerUnavailable(f"worker {self.number} exited"))
        self._writer.close()

    def kill(self) -> None:
        """Kill an unresponsive worker, which the supervisor restarts."""
        log.error("worker unresponsive", worker_number=self.number, process_id=self.process_id)
        with suppress(ProcessLookupError):
            os.kill(self.process_id, signal.SIGKILL)


class WorkerConnections:
    """Links to all workers. `configuration` returns what a joining worker starts with; `on_end` is called with each lost link."""

    def __init__(self, count: int, configuration: Callable[[], Awaitable[WorkerConfiguration]], on_end: Callable[[WorkerConnection], None]):
        self._count = count
        self._configuration = configuration
        self._on_end = on_end
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[Any] | None] = set()
        self.serving: dict[int, WorkerConnection] = {}
        self.all_ready = asyncio.Event()
        self._joining = 0
        self._is_changing = False
        self._changed = asyncio.Condition()

    async def start(self, path: Path) -> None:
        self._server = await asyncio.start_unix_server(self._on_connected, path)

    async def _on_connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._open.add(task)
        link: WorkerConnection | None = None
        try:
            number, id = await _message(reader)
            link = WorkerConnection(number, id, writer)
            async with self._begin(), asyncio.timeout(CONNECT_SECONDS):
                writer.write(_frame(await self._configuration()))
                await writer.drain()
                await _message(reader)  # it serves, with this configuration
                self._add_serving(link)
            while True:
                link.set_answer(*await _message(reader))
        except (OSError, EOFError):  # it has exited; a TimeoutError is an OSError
            pass
        finally:
            self._open.discard(task)
            if link is not None:
                self._remove_lost(link)
            writer.close()

    @asynccontextmanager
    async def _begin(self) -> AsyncIterator[None]:
        """Exclude joins from reloads: a worker may not join during a reload, and a reload waits for joins in progress."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._is_changing)
            self._joining += 1
        try:
            yield
        finally:
            async with self._changed:
                self._joining -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def change(self) -> AsyncIterator[None]:
        """Replace the configuration of joining workers; none joins during the change."""
        async with self._changed:
            self._is_changing = True
            await self._changed.wait_for(lambda: not self._joining)
        try:
            yield
        finally:
            async with self._changed:
                self._is_changing = False
                self._changed.notify_all()

    def _add_serving(self, link: WorkerConnection) -> None:
        self.serving[link.number] = link
        if len(self.serving) == self._count - 1:
            self.all_ready.set()

    def _remove_lost(self, link: WorkerConnection) -> None:
        link.fail_pending()
        if self.serving.get(link.number) is link:
            del self.serving[link.number]
            self._on_end(link)

    async def request_all(self, what: str, argument: object, seconds: float) -> Mapping[WorkerConnection, Any]:
        """Return the responses of all serving workers, a WorkerUnavailable for each that failed."""
        links = list(self.serving.values())
        answers = await asyncio.gather(*(link.request(what, argument, seconds) for link in links), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, WorkerUnavailable):
                raise answer
        return dict(zip(links, answers, strict=True))

    async def stop(self, seconds: float) -> None:
        """Wait at most `seconds` until the workers have exited, because their last requests need this process."""
        if self._server is not None:
            self._server.close()
        if tasks := {task for task in self._open if task is not None}:
            await asyncio.wait(tasks, timeout=seconds)
            for task in tasks:
                task.cancel()


class PrimaryConnection:
    """Worker's end of the link to the primary."""

    def __init__(self, path: Path, number: int):
        """Connect and receive the initial `configuration`. Raise OSError or EOFError if the primary is gone."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(CONNECT_SECONDS)
        self._socket.connect(str(path))
        self._socket.sendall(_frame((number, os.getpid())))
        self.configuration: WorkerConfiguration = pickle.loads(self._exactly(int.from_bytes(self._exactly(_LENGTH))))  # noqa: S301

    def _exactly(self, length: int) -> bytes:
        read = self._socket.recv(length, socket.MSG_WAITALL)
        if len(read) < length:
            raise EOFError
        return read

    async def follow(self, answers: Mapping[str, Answer]) -> None:
        """Report that this process serves, then respond to requests until the primary is gone."""
        self._socket.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=self._socket)
        writer.write(_frame(None))
        try:
            while True:
                number, what, argument = await _message(reader)
                writer.write(_frame((number, await answers[what](argument))))
                await writer.drain()
        except (OSError, EOFError):  # the primary is gone, and the supervisor ends this process
            pass
        finally:
            writer.close()


def terminate_when_closed(supervisor_alive: int, loop: asyncio.AbstractEventLoop) -> None:
    """Stop, as by SIGTERM, when the process at the other end of the pipe exits."""

    def over() -> None:
        loop.remove_reader(supervisor_alive)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(supervisor_alive, over)


async def follow_lines(news: int, on_line: Callable[[bytes], None]) -> None:
    """Read lines from a pipe until its other end is closed."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(news, "rb", 0))
    while line := await reader.readline():
        on_line(line)
