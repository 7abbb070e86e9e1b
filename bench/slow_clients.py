"""What do good clients notice while 2,000 slow ones are connected?

    python -m bench.slow_clients                # 75 s of each of the four modes of slowhttptest
    python -m bench.slow_clients --seconds 20

slowhttptest (-H, -B, -R, -X) holds slow heads, slow bodies, range floods and slow readers against gate, 2,000 connections at a time.
Meanwhile a good client with a session asks fifty times a second, each tenth time on a new connection.  Goals: its p99 at most
twice that of the same client before the first slow one came, and every answer a 200.
"""

import argparse
import asyncio
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench.rig import HOST, child, free_port, gate_settings, pin, signed_in_cookie, start_nginx, start_provider, wait_for

CONNECTIONS = 2000
GOAL = 2.0  # times the p99 without slow clients
EVERY = 0.02  # seconds between two questions
PATIENCE = 30.0
BIG = 16 << 20  # bytes, more than the buffers on the way take
SLOW_HOST = "localhost"  # slowhttptest dials the host it names
MODES = {  # (path, options)
    "slow heads": ("/", "-H"),
    "slow bodies": ("/read", "-B", "-s", "8192"),
    "range floods": ("/files/big", "-R", "-a", "10", "-b", "3000"),
    "slow readers": ("/files/big", "-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32"),
}


@dataclass
class Heard:
    waits: list[float] = field(default_factory=list)  # seconds
    failures: list[str] = field(default_factory=list)

    def p(self, percent: int) -> float:
        return statistics.quantiles(self.waits, n=100, method="inclusive")[percent - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=75, help="of each mode")
    arguments = parser.parse_args()
    if missing := [command for command in ("slowhttptest", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install slowhttptest nginx-light)")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, process = start_gate(stack, directory)
        cookie = signed_in_cookie(port)
        pin(1)
        asyncio.run(listen(port, cookie, 3.0))  # what is made once is not measured
        before = asyncio.run(listen(port, cookie, arguments.seconds))
        print(f"{'':20} {'answers':>8} {'failed':>6} {'p50 ms':>7} {'p99 ms':>7} {'ratio':>6} {'goal':>5} {'gate MiB':>9}")
        show("no slow clients", before, before, process.pid)
        good = not before.failures
        for name, (path, *options) in MODES.items():
            heard = asyncio.run(attacked(port, cookie, arguments.seconds, path, *options))
            show(name, heard, before, process.pid)
            good &= not heard.failures and heard.p(99) <= GOAL * before.p(99)
    sys.exit(not good)


def start_gate(stack: ExitStack, directory: Path) -> tuple[int, subprocess.Popen[str]]:
    upstream = start_nginx(stack, directory)
    directory.chmod(0o711)  # nginx gives up root where it has it
    (directory / "files").mkdir()
    (directory / "files" / "big").write_bytes(bytes(BIG))
    port, config = free_port(), directory / "gate.yaml"
    settings = gate_settings(directory, port, start_provider(stack), upstream)
    public = {"from": f"https://{SLOW_HOST}:{port}", "to": upstream, "allow_public_unauthenticated_access": True}
    config.write_text(yaml.safe_dump({**settings, "policy": [*settings["policy"], public]}))
    process = stack.enter_context(child([sys.executable, "manage.py", "rungate", "-config", str(config)], core=0))
    wait_for(port)
    return port, process


async def attacked(port: int, cookie: str, seconds: int, path: str, *options: str) -> Heard:
    """What the good client heard from the moment the attack began."""
    url = f"http://{SLOW_HOST}:{port}{path}"
    command = ("slowhttptest", *options, "-c", str(CONNECTIONS), "-r", "400", "-i", "10", "-l", str(seconds), "-u", url)
    attacking = asyncio.ensure_future(attack_again_and_again(command))
    try:
        return await listen(port, cookie, seconds)
    finally:
        attacking.cancel()
        await asyncio.wait([attacking])


async def attack_again_and_again(command: tuple[str, ...]) -> None:
    """It ends by itself when gate has cut all its connections."""
    silent = asyncio.subprocess.DEVNULL
    while True:
        process = await asyncio.create_subprocess_exec(*command, stdin=silent, stdout=silent, stderr=silent)
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def listen(port: int, cookie: str, seconds: float) -> Heard:
    """Asks on a fixed beat, however long an answer takes, so that one slow answer cannot hide those that would have waited behind it."""
    heard, asked = Heard(), set[asyncio.Task[None]]()
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    started = time.monotonic()
    for number in range(int(seconds / EVERY)):
        await asyncio.sleep(started + number * EVERY - time.monotonic())
        task = asyncio.ensure_future(ask(port, cookie, heard, idle, is_new=number % 10 == 0))
        asked.add(task)
        task.add_done_callback(asked.discard)
    await asyncio.gather(*asked)
    for _, writer in idle:
        writer.close()
    return heard


async def ask(port: int, cookie: str, heard: Heard, idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]], *, is_new: bool) -> None:
    started = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = idle.pop() if idle and not is_new else await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {cookie}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(length)
    except (OSError, EOFError, TimeoutError) as error:
        heard.failures.append(repr(error))
        return
    heard.waits.append(time.monotonic() - started)
    if not head.startswith(b"HTTP/1.1 200 "):
        heard.failures.append(head.split(b"\r\n")[0].decode())
    if is_new and len(idle) > 1:
        writer.close()
    else:
        idle.append((reader, writer))


def show(name: str, heard: Heard, before: Heard, process_id: int) -> None:
    status = Path(f"/proc/{process_id}/status").read_text()
    memory = int(status.split("VmRSS:")[1].split()[0]) >> 10
    ratio = f"{heard.p(99) / before.p(99):6.2f} {GOAL:5.1f}" if heard is not before else f"{'':6} {'':5}"
    failed = f"{len(heard.failures)}: {heard.failures[0]}" if heard.failures else "0"
    print(f"{name:20} {len(heard.waits):8} {failed:>6} {heard.p(50) * 1000:7.2f} {heard.p(99) * 1000:7.2f} {ratio} {memory:9}", flush=True)


if __name__ == "__main__":
    main()
