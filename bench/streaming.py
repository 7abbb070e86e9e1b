"""Memory of large bodies, and time until gate is ready.

    python -m bench.streaming

Goals: 1 GiB up and 1 GiB down, growth under 64 MiB; ready within 3 s of the command, with an existing database.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.support.harness import free_port, gate_settings, start_gate
from bench.support.process_stats import resident
from bench.support.upstream import start_upstream

BODY = 1 << 30
CHUNK = b"x" * (1 << 16)
GOAL_GROWTH = 64 << 20
GOAL_READY = 3.0  # seconds
HOST = "stream.localhost"


def main() -> None:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, port = free_port(), free_port()
        route = {
            "from": f"https://{HOST}",
            "to": f"http://127.0.0.1:{upstream}",
            "allow_public_unauthenticated_access": True,
            "timeout": "10m",
        }
        settings = {**gate_settings(directory, port, "http://127.0.0.1:9", f"http://127.0.0.1:{upstream}"), "policy": [route]}
        with ExitStack() as first:
            start_gate(first, directory, settings)  # creates the database
        started = time.monotonic()
        process = start_gate(stack, directory, settings)
        ready = time.monotonic() - started
        growth, speeds = asyncio.run(measure(port, upstream, process.pid))
    print(f"{'ready after':34} {ready:8.2f} s      goal {GOAL_READY:.0f} s")
    for name, speed in speeds.items():
        print(f"{name:34} {speed / (1 << 20):8.0f} MiB/s")
    print(f"{'growth of memory':34} {growth / (1 << 20):8.1f} MiB    goal {GOAL_GROWTH >> 20} MiB")
    sys.exit(growth > GOAL_GROWTH or ready > GOAL_READY)


async def measure(port: int, upstream: int, process_id: int) -> tuple[int, dict[str, float]]:
    """Return (peak resident memory minus that before, bytes per second in each direction)."""
    async with await start_upstream(respond, upstream):
        await transfer(port, 1 << 20, 1 << 20)  # excludes allocations that happen once
        Path(f"/proc/{process_id}/clear_refs").write_text("5")  # resets the peak
        before = resident(process_id)
        speeds = {}
        for name, up, down in (("1 GiB up", BODY, 0), ("1 GiB down", 0, BODY)):
            started = time.monotonic()
            await transfer(port, up, down)
            speeds[name] = BODY / (time.monotonic() - started)
        return resident(process_id, "VmHWM") - before, speeds


async def transfer(port: int, up: int, down: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /?down={down} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {up}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    for sent in range(0, up, len(CHUNK)):
        writer.write(CHUNK[: up - sent])
        await writer.drain()
    received = await reader.readuntil(b"\r\n\r\n")
    count = 0
    while chunk := await reader.read(1 << 18):
        count += len(chunk)
    writer.close()
    if not received.startswith(b"HTTP/1.1 200") or count != down:
        sys.exit(f"{up} up, {down} down: got {count} bytes after\n{received.decode()}")


def respond(head: str) -> tuple[int, Iterator[bytes]]:
    """Return the requested number of bytes."""
    down = int(head.split("down=")[1].split(" ")[0])
    return down, (CHUNK[: down - sent] for sent in range(0, down, len(CHUNK)))


if __name__ == "__main__":
    main()
