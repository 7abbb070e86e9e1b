"""How much memory do large bodies cost, and how soon is gate ready?

    python -m bench.streaming

Goals: 1 GiB up and 1 GiB down, growth under 64 MiB; ready to serve within 3 s of the command, on a database that exists.
"""

import asyncio
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

from bench.support.rig import child, free_port, gate_settings, wait_for

BODY = 1 << 30
CHUNK = b"x" * (1 << 16)
GOAL_GROWTH = 64 << 20
GOAL_READY = 3.0  # seconds
HOST = "stream.localhost"


def main() -> None:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, port = free_port(), free_port()
        config = directory / "config.yaml"
        route = {
            "from": f"https://{HOST}",
            "to": f"http://127.0.0.1:{upstream}",
            "allow_public_unauthenticated_access": True,
            "timeout": "10m",
        }
        settings = gate_settings(directory, port, "http://127.0.0.1:9", f"http://127.0.0.1:{upstream}")
        config.write_text(yaml.safe_dump({**settings, "policy": [route]}))
        command = [sys.executable, "manage.py", "rungate", "-config", str(config)]
        with child(command, core=0):
            wait_for(port)  # the first start makes the database
        started = time.monotonic()
        process = stack.enter_context(child(command, core=0))
        wait_for(port)
        ready = time.monotonic() - started
        growth, speeds = asyncio.run(measure(port, upstream, process.pid))
    print(f"{'ready after':34} {ready:8.2f} s      goal {GOAL_READY:.0f} s")
    for name, speed in speeds.items():
        print(f"{name:34} {speed / (1 << 20):8.0f} MiB/s")
    print(f"{'growth of memory':34} {growth / (1 << 20):8.1f} MiB    goal {GOAL_GROWTH >> 20} MiB")
    sys.exit(growth > GOAL_GROWTH or ready > GOAL_READY)


async def measure(port: int, upstream: int, process_id: int) -> tuple[int, dict[str, float]]:
    """(peak resident memory less that before, bytes a second each way)."""
    async with await asyncio.start_server(answer, "127.0.0.1", upstream):
        await transfer(port, 1 << 20, 1 << 20)  # what is allocated once is not growth
        reset_peak(process_id)
        before = resident(process_id, "VmRSS")
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


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An upstream that counts what it is sent and sends what it is asked for."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    down = int(head.split("down=")[1].split(" ")[0])
    left = int(head.split("content-length: ")[1].split("\r\n")[0])
    while left:
        left -= len(await reader.read(1 << 18))
    writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {down}\r\nConnection: close\r\n\r\n".encode())
    for sent in range(0, down, len(CHUNK)):
        writer.write(CHUNK[: down - sent])
        await writer.drain()
    writer.close()


def resident(process_id: int, field: str) -> int:
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) << 10
    raise LookupError(field)


def reset_peak(process_id: int) -> None:
    Path(f"/proc/{process_id}/clear_refs").write_text("5")


if __name__ == "__main__":
    main()
