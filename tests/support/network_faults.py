"""Faults of a network: a relay to a server on loopback that a test can slow down, stall or cut."""

import asyncio
import threading
from contextlib import suppress
from typing import Self

from tests.support.closing import stop_accepting

TICK = 0.01


class FaultyLink:
    """Relay from `port` to `server_port`. Its methods are thread-safe and apply to existing and new connections."""

    def __init__(self, server_port: int):
        self._server_port = server_port
        self._is_silent = False
        self._is_cut = False
        self._delay = 0.0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="faulty line", daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._relay, "127.0.0.1", 0), self._loop).result(5)
        self.port = self._server.sockets[0].getsockname()[1]

    def stall(self) -> None:
        """Drop all data without closing connections."""
        self._is_silent = True

    def cut(self) -> None:
        """Reset all connections, and new ones immediately."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(self._break)

    def slow_down(self, seconds: float) -> None:
        """Delay each chunk by this time, in both directions."""
        self._delay = seconds

    def restore(self) -> None:
        """Relay new connections again; those that lost data stay unusable."""
        self._is_silent = self._is_cut = False
        self._delay = 0.0

    def _break(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._is_cut:
                return
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
            self._writers.add(far_writer)
            try:
                await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
            finally:
                self._writers.discard(far_writer)
                far_writer.transport.abort()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_lost = False
        while piece := await reader.read(65536):
            has_lost = has_lost or self._is_silent
            if has_lost:
                continue
            await asyncio.sleep(self._delay)
            writer.write(piece)
            await writer.drain()
        raise ConnectionResetError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        async def close() -> None:
            await stop_accepting(self._server)
            self._break()
            await asyncio.sleep(TICK)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()
