"""Correctness and latency of reloads under load.

    python -m bench.config_reload

100 reloads (SIGHUP, each with another configuration) while 16 connections send requests without a pause. Goals: no failed request, and no
response that mixes two configurations.

Then a file of 10,000 routes, of which one changes each time, its rules or its upstream, under 200 requests a second. A request that
arrives while the event loop is blocked waits, so the longest wait shows pauses. Envoy applies new upstreams after the reloads, and is
waited for. Goals: 1 s from the signal to the log line, 50 ms, no failure.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import yaml

from bench.config_load import configuration
from bench.support.harness import free_port, gate_settings, run_gate
from bench.support.process_stats import cpu_seconds_with_children, resident
from bench.support.upstream import start_upstream
from config.config_watcher import SETTLED_SECONDS

HOST = "reload.localhost"
CONNECTIONS = 16
RELOADED, READ_BY_ENVOY = '"configuration reloaded"', '"envoy configuration applied"'


ROUTES = 10_000
LARGE_RELOADS = 5
PROBES, PROBE_EVERY = 4, 0.02  # connections, and seconds between the requests of each
GOAL_SECONDS, GOAL_WAIT = 1.0, 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reloads", type=int, default=100)
    parser.add_argument("--data-plane", choices=("embedded", "envoy"), default="embedded")
    arguments = parser.parse_args()
    data_plane = arguments.data_plane
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, port = free_port(), free_port()
        config = directory / "config.yaml"
        settings = build_settings(directory, port, data_plane)
        write(config, settings, upstream, 0)
        process = run_gate(stack, config, port, stdout=subprocess.PIPE)
        count = asyncio.run(Run(process, config, settings, upstream, port).measure(arguments.reloads))
    is_passed = report(arguments.reloads, count)
    for routes in (ROUTES // 10, ROUTES):
        for moves in (False, True):
            is_passed &= large(routes, LARGE_RELOADS, data_plane, moves=moves)
    sys.exit(not is_passed)


def build_settings(directory: Path, port: int, data_plane: str) -> dict[str, object]:
    settings = gate_settings(directory, port, "http://127.0.0.1:9", "")
    return {**settings, "log_level": "info", "proxy_log_level": "error", "data_plane": data_plane}


def large(routes: int, reloads: int, data_plane: str, *, moves: bool) -> bool:
    """Measure reloads of the large file; with `moves`, the upstream changes each time."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        port = free_port()
        config = directory / "config.yaml"
        settings = build_settings(directory, port, data_plane)
        run = LargeRun(config, settings, (free_port(), free_port()) if moves else (free_port(),), port, routes)
        run.write(0)
        started = time.monotonic()
        process = run_gate(stack, config, port, stdout=subprocess.PIPE)
        start = time.monotonic() - started
        found = asyncio.run(run.measure(process, reloads, READ_BY_ENVOY if moves and data_plane == "envoy" else ""))
    slowest, max_wait, quiet = max(found["seconds"]), max(found["waits"]), found["quiet"]
    what, fastest = "its upstream" if moves else "its rules", min(found["seconds"])
    print(f"{routes:>7,} routes, one changed, {what}; {found['asked']} requests meanwhile, failed: {found['failed']}")
    print(f"        start {start:.1f} s, until its port is open")
    print(f"        reload {fastest:.2f} to {slowest:.2f} s (goal {GOAL_SECONDS}), processor {found['processor']:.2f} s each")
    print(
        f"        longest wait {max_wait * 1000:.0f} ms (goal {GOAL_WAIT * 1000:.0f}), {max_wait / quiet:.1f} times that without a reload"
    )
    print(f"        memory at the end {found['mebibytes']:.0f} MiB")
    return slowest <= GOAL_SECONDS and max_wait <= GOAL_WAIT and not found["failed"]


def report(reloads: int, count: dict[str, Any]) -> bool:
    print(f"{reloads} reloads in {count['seconds']:.1f} s, {count['asked']} concurrent requests, versions seen: {count['worlds']}")
    print(f"failed requests: {count['failed']}    mixed answers: {count['mixed']}")
    return not count["failed"] and not count["mixed"]


def write(config: Path, settings: dict[str, object], upstream: int, world: int) -> None:
    """Write a configuration that rewrites the path and sets a header in its own way, so that a mixed response is detected."""
    route = {
        "from": f"https://{HOST}",
        "to": f"http://127.0.0.1:{upstream}",
        "prefix_rewrite": f"/{world}/",
        "set_request_headers": {"X-World": str(world)},
        "allow_public_unauthenticated_access": True,
    }
    new = config.with_suffix(".new")
    new.write_text(yaml.safe_dump({**settings, "policy": [route]}))
    new.replace(config)


class Run:
    def __init__(self, process: subprocess.Popen[str], config: Path, settings: dict[str, object], upstream: int, port: int):
        self._process, self._config, self._settings = process, config, settings
        self._upstream, self._port = upstream, port
        self._is_over = False
        self._count = {"asked": 0, "failed": 0, "mixed": 0}
        self._worlds: set[str] = set()

    async def measure(self, reloads: int) -> dict[str, Any]:
        async with await start_upstream(respond, self._upstream):
            askers = [asyncio.ensure_future(self._send_requests()) for _ in range(CONNECTIONS)]
            started = time.monotonic()
            for world in range(1, reloads + 1):
                await asyncio.to_thread(self._reload, world)
            seconds = time.monotonic() - started
            self._is_over = True
            await asyncio.gather(*askers)
        return {**self._count, "seconds": seconds, "worlds": len(self._worlds)}

    def _reload(self, world: int) -> None:
        """Wait for the log line; gate may have noticed the file before the signal."""
        write(self._config, self._settings, self._upstream, world)
        self._process.send_signal(signal.SIGHUP)
        wait_for_line(self._process, RELOADED)

    async def _send_requests(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while not self._is_over:
            writer.write(b"GET /x HTTP/1.1\r\nHost: %b\r\n\r\n" % HOST.encode())
            self._count["asked"] += 1
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                response = json.loads(await reader.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError, IndexError, ValueError):
                self._count["failed"] += 1
                return
            self._worlds.add(response["world"])
            self._count["failed"] += not head.startswith(b"HTTP/1.1 200")
            self._count["mixed"] += response["target"] != f"/{response['world']}/x"
        writer.close()


class LargeRun:
    def __init__(self, config: Path, settings: dict[str, object], upstreams: tuple[int, ...], port: int, routes: int):
        self._config, self._settings, self._upstreams, self._port, self._routes = config, settings, upstreams, port, routes
        self._is_over = False
        self._waits: list[float] = []
        self._failed = 0

    def write(self, version: int) -> None:
        mine = list(configuration(self._routes))[3:]
        upstream = self._upstreams[version % len(self._upstreams)]
        route = f"  - from: https://{HOST}\n    to: http://127.0.0.1:{upstream}\n    allow_public_unauthenticated_access: true\n"
        world = f"    set_request_headers: {{X-World: '{version}'}}\n"
        new = self._config.with_suffix(".new")
        head = yaml.safe_dump({key: value for key, value in self._settings.items() if key != "policy"})
        new.write_text(head + "policy:\n" + route + world + "".join(mine))
        new.replace(self._config)

    async def measure(self, process: subprocess.Popen[str], reloads: int, until: str) -> dict[str, Any]:
        """Measure the reloads; `until` is the line that ends the measurement."""
        async with AsyncExitStack() as stack:
            for upstream in self._upstreams:
                await stack.enter_async_context(await start_upstream(respond, upstream))
            askers = [asyncio.ensure_future(self._send_requests()) for _ in range(PROBES)]
            await asyncio.sleep(2.0)
            quiet, self._waits = max(self._waits), []
            seconds, used = [], cpu_seconds_with_children(process.pid)
            for version in range(1, reloads + 1):
                seconds.append(await asyncio.to_thread(self._reload, process, version))
            used = cpu_seconds_with_children(process.pid) - used
            if until:
                await asyncio.to_thread(wait_for_line, process, until)
            self._is_over = True
            await asyncio.gather(*askers)
        count = len(self._waits)
        return {
            "seconds": seconds,
            "waits": self._waits,
            "quiet": quiet,
            "asked": count,
            "failed": self._failed,
            "processor": used / reloads,
            "mebibytes": resident(process.pid) / 2**20,
        }

    def _reload(self, process: subprocess.Popen[str], version: int) -> float:
        """Return the seconds, without the time for which a file must be unchanged."""
        self.write(version)
        started = time.monotonic()
        process.send_signal(signal.SIGHUP)
        wait_for_line(process, RELOADED)
        return time.monotonic() - started - SETTLED_SECONDS

    async def _send_requests(self) -> None:
        """Send at a constant rate, so that a slow response does not reduce the load."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        due = time.monotonic()
        while not self._is_over:
            due += PROBE_EVERY
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            writer.write(b"GET /x HTTP/1.1\r\nHost: %b\r\n\r\n" % HOST.encode())
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
            except (asyncio.IncompleteReadError, ConnectionError, IndexError):
                self._failed += 1
                return
            self._failed += not head.startswith(b"HTTP/1.1 200")
            self._waits.append(time.monotonic() - due)
        writer.close()


def wait_for_line(process: subprocess.Popen[str], expected: str) -> None:
    for line in process.stdout or ():
        if expected in line:
            return
        if '"error"' in line:
            sys.exit(line)
    sys.exit("gate has ended")


def respond(head: str) -> tuple[int, list[bytes]]:
    """Return the target and the configuration that the upstream received."""
    world = head.split("x-world: ")[1].split("\r\n")[0]
    body = json.dumps({"target": head.split(" ")[1], "world": world}).encode()
    return len(body), [body]


if __name__ == "__main__":
    main()
