"""Workers other than the primary; with real processes: tests/integration/gateproject/process/workers."""

import asyncio
import socket
import time

from gateproject.process.workers.worker import detect_suspension


async def test_stopped_process_detects_it_before_responding() -> None:
    received: list[str] = []
    loop = asyncio.get_running_loop()
    detect_suspension(loop, lambda: received.append("stood still"))
    await asyncio.sleep(0.5)
    assert received == [], "no suspension was detected"

    async def request() -> None:
        received.append("request")

    tasks: list[asyncio.Task[None]] = []
    reader, writer = socket.socketpair()

    def read() -> None:
        loop.remove_reader(reader)
        tasks.append(asyncio.create_task(request()))

    loop.add_reader(reader, read)
    writer.send(b"x")
    time.sleep(1.2)
    await asyncio.sleep(0.05)
    reader.close()
    writer.close()
    assert received == ["stood still", "request"]
