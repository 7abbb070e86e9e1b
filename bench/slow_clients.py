"""Latency of normal clients while 2,000 slow clients are connected.

    python -m bench.slow_clients                # three times 25 s of each of the four modes of slowhttptest
    python -m bench.slow_clients --seconds 10

slowhttptest (-H, -B, -R, -X) sends slow headers, slow bodies, range floods and slow readers, on 2,000 connections at a time. Concurrently
a normal client with a session sends fifty requests a second, every tenth on a new connection. Goals: its p99 is at most twice that of the
same client before the attack, in the median of the rounds, and every response is a 200.

`coming` are the responses from slowhttptest's start until a second after its last connection, `held` those afterwards. gate has one core.
The normal client, the upstream and slowhttptest share the other one, where slowhttptest is niced, because its busy loop is not caused by
gate. `baseline` is the p99 of the same client while the same attack targets an nginx on gate's core; if that is more than twice the
baseline, the machine is the cause. Responses during stalls of the machine (bench/support/scheduler_stalls.py) are counted as `stalled`
and excluded.
"""

import argparse
import asyncio
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench.support.harness import (
    HOST,
    free_port,
    gate_settings,
    pin,
    signed_in_cookie,
    start_gate,
    start_nginx,
    start_provider,
)
from bench.support.process_stats import resident
from bench.support.scheduler_stalls import StallMonitor, watched

CONNECTIONS = 2000
GOAL = 2.0  # times the p99 without slow clients
SETTLED = 1.0  # seconds after the last of them
GONE = 3.0  # seconds until gate has closed all connections
NICE = 15  # slowhttptest
EVERY = 0.02  # seconds between requests
PATIENCE = 30.0
MAX_BASELINE_SECONDS = 20  # seconds
BIG = 16 << 20  # bytes, more than all buffers on the way
SLOW_HOST = "localhost"  # slowhttptest connects to the host that it names
MODES = {  # (path, options)
    "slow heads": ("/", "-H"),
    "slow bodies": ("/read", "-B", "-s", "8192"),
    "range floods": ("/files/big", "-R", "-a", "10", "-b", "3000"),
    "slow readers": ("/files/big", "-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32"),
}


@dataclass
class Observations:
    """Observations. `answers`: (send time, seconds until the response). Each attack took `coming` seconds to connect."""

    answers: list[tuple[float, float]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    attacks: list[float] = field(default_factory=list)
    coming: float = 0.0
    stalled: int | None = 0  # None if this machine does not allow monitoring
    memory: int = 0  # memory of gate at the end, bytes

    def p(self, percent: int, *, coming: bool | None = None) -> float:
        waits = [wait for when, wait in self.answers if coming is None or coming == self._is_coming(when)]
        return statistics.quantiles(waits, n=100, method="inclusive")[percent - 1] if len(waits) > 1 else math.nan

    def leave_out(self, stalls: StallMonitor) -> None:
        undisturbed_answers = [(when, wait) for when, wait in self.answers if not stalls.met(when, when + wait)]
        self.stalled, self.answers = len(self.answers) - len(undisturbed_answers) if stalls.known else None, undisturbed_answers

    def _is_coming(self, when: float) -> bool:
        return any(0 <= when - started < self.coming for started in self.attacks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=25, help="of each round")
    parser.add_argument("--rounds", type=int, default=3, help="of each mode")
    parser.add_argument("--rate", type=int, default=400, help="new slow connections a second; slowhttptest's own default is 50")
    parser.add_argument("--mode", choices=MODES, help="only this one")
    arguments = parser.parse_args()
    if missing := [command for command in ("slowhttptest", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install slowhttptest nginx-light)")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port, process = start(stack, directory)
        other = start_other(stack, directory / "other")
        cookie = signed_in_cookie(port)
        pin(1)
        asyncio.run(listen(port, cookie, 3.0, Observations()))  # warm-up of allocations that happen once
        print(f"{'':16} {'answers':>8} {'stalled':>7} {'failed':>6} {'p50 ms':>7} {'p99 ms':>7} {'before':>7} {'ratio':>6}", end="")
        print(f" {'coming':>7} {'held':>7} {'baseline':>7} {'KiB each':>9}", flush=True)
        is_passed = True
        for name, (path, *options) in MODES.items():
            if arguments.mode not in (None, name):
                continue
            ratios = []
            for _ in range(arguments.rounds):
                before = undisturbed(port, cookie, arguments.seconds, process.pid)
                attack = partial(attacked, port, cookie, process.pid, options, arguments.rate)
                baseline = attack(f"{other}{path}", min(arguments.seconds, MAX_BASELINE_SECONDS))
                observed = attack(f"http://{SLOW_HOST}:{port}{path}", arguments.seconds)
                show(name, observed, before, baseline)
                ratios.append(observed.p(99) / before.p(99))
                is_passed &= not observed.failures and not before.failures
            print(f"{name:16} median ratio {statistics.median(ratios):.2f}, goal {GOAL:.1f}", flush=True)
            is_passed &= statistics.median(ratios) <= GOAL
    sys.exit(not is_passed)


def start(stack: ExitStack, directory: Path) -> tuple[int, subprocess.Popen[str]]:
    upstream = start_nginx(stack, directory)
    directory.chmod(0o711)  # nginx drops root privileges
    (directory / "files").mkdir()
    (directory / "files" / "big").write_bytes(bytes(BIG))
    port = free_port()
    settings = gate_settings(directory, port, start_provider(stack), upstream)
    public = {"from": f"https://{SLOW_HOST}:{port}", "to": upstream, "allow_public_unauthenticated_access": True}
    return port, start_gate(stack, directory, {**settings, "policy": [*settings["policy"], public]})


def start_other(stack: ExitStack, directory: Path) -> str:
    """Start an nginx without relation to gate, on gate's core."""
    directory.mkdir()
    other = start_nginx(stack, directory, core=0)
    (directory / "files").symlink_to(directory.parent / "files")
    return other


def undisturbed(port: int, cookie: str, seconds: int, process_id: int) -> Observations:
    time.sleep(GONE)
    observed = Observations()
    with watched() as stalls:
        asyncio.run(listen(port, cookie, seconds, observed))
    observed.leave_out(stalls)
    observed.memory = resident(process_id)
    return observed


def attacked(port: int, cookie: str, process_id: int, options: Sequence[str], rate: int, url: str, seconds: int) -> Observations:
    """Return the normal client's observations from the start of the attack."""
    size = ("-c", str(CONNECTIONS), "-r", str(rate), "-i", "10", "-l", str(seconds))
    command = ("nice", "-n", str(NICE), "slowhttptest", *options, *size, "-u", url)
    observed = Observations(coming=CONNECTIONS / rate + SETTLED)

    async def attack() -> None:
        attacking = asyncio.ensure_future(repeat_attack(command, observed))
        try:
            await listen(port, cookie, seconds, observed)
            observed.memory = resident(process_id)
        finally:
            attacking.cancel()
            await asyncio.wait([attacking])

    with watched() as stalls:
        asyncio.run(attack())
    observed.leave_out(stalls)
    return observed


async def repeat_attack(command: tuple[str, ...], observed: Observations) -> None:
    """Repeat the attack, which ends when gate has closed all its connections."""
    silent = asyncio.subprocess.DEVNULL
    while True:
        observed.attacks.append(time.monotonic())
        process = await asyncio.create_subprocess_exec(*command, stdin=silent, stdout=silent, stderr=silent)
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def listen(port: int, cookie: str, seconds: float, observed: Observations) -> None:
    """Send at a fixed rate regardless of response times, so that a slow response does not hide those queued behind it (coordinated
    omission).
    """
    pending = set[asyncio.Task[None]]()
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    started = time.monotonic()
    for number in range(int(seconds / EVERY)):
        await asyncio.sleep(started + number * EVERY - time.monotonic())
        task = asyncio.ensure_future(send_request(port, cookie, observed, idle, is_new=number % 10 == 0))
        pending.add(task)
        task.add_done_callback(pending.discard)
    await asyncio.gather(*pending)
    for _, writer in idle:
        writer.close()


async def send_request(
    port: int, cookie: str, observed: Observations, idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]], *, is_new: bool
) -> None:
    started = time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = idle.pop() if idle and not is_new else await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {cookie}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await reader.readexactly(length)
    except (OSError, EOFError, TimeoutError) as error:
        observed.failures.append(repr(error))
        return
    observed.answers.append((started, time.monotonic() - started))
    if not head.startswith(b"HTTP/1.1 200 "):
        observed.failures.append(head.split(b"\r\n")[0].decode())
    if is_new and len(idle) > 1:
        writer.close()
    else:
        idle.append((reader, writer))


def show(name: str, observed: Observations, before: Observations, baseline: Observations) -> None:
    failed = f"{len(observed.failures)}: {observed.failures[0]}" if observed.failures else "0"
    stalled = "unknown" if observed.stalled is None else str(observed.stalled)
    print(f"{name:16} {len(observed.answers):8} {stalled:>7} {failed:>6} {observed.p(50) * 1000:7.2f} {observed.p(99) * 1000:7.2f}", end="")
    print(f" {before.p(99) * 1000:7.2f} {observed.p(99) / before.p(99):6.2f}", end="")
    print("".join(f" {wait * 1000:7.2f}" for wait in (observed.p(99, coming=True), observed.p(99, coming=False), baseline.p(99))), end="")
    print(f" {(observed.memory - before.memory) / 1024 / CONNECTIONS:9.0f}", flush=True)


if __name__ == "__main__":
    main()
