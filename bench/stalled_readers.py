"""Resources held by a thousand clients that request a large response and do not read it.

    python -m bench.stalled_readers
    python -m bench.stalled_readers --count 200

On both data planes, over HTTP/1.1 and (Envoy) HTTP/2 with a window of zero, for clients with and without a request for an event stream,
on a route with `timeout: 0s`. `growth`: KiB of gate and Envoy per client; `held`: connections to the application with all clients
connected; `after`: those that remain a few seconds after `timeout_idle` (here 10 s). Goal: none.
"""

import argparse
import asyncio
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.support.harness import HOST, free_port, gate_settings, start_gate
from bench.support.idle_clients import allow_many_files
from bench.support.process_stats import family, resident
from tests.support.zero_window import EndlessUpstream, Silent1, Silent2

IDLE, GRACE = 10, 6  # seconds
CLAIMS = {"nothing": {}, "a stream": {"Accept": "text/event-stream"}}


def weight(pid: int) -> int:
    return sum(map(resident, family(pid)))


async def measured(pid: int, port: int, upstream: EndlessUpstream, silent: type[Silent1 | Silent2], count: int, claims: dict) -> tuple:
    """Return (KiB per stream, connections held, connections after the timeout)."""
    async with silent(port, HOST, "/large", 20, claims):
        await upstream.is_open("/large", 20)
    await upstream.is_open("/large", 0)
    before = weight(pid)
    goal = upstream.started["/large"] + count
    max_connections = heaviest = 0

    async def watch(seconds: float, *, for_all: bool) -> None:
        nonlocal max_connections, heaviest
        for _ in range(int(seconds * 10)):
            max_connections, heaviest = max(max_connections, upstream.open["/large"]), max(heaviest, weight(pid))
            if for_all and upstream.started["/large"] >= goal:
                return
            await asyncio.sleep(0.1)

    async with silent(port, HOST, "/large", count, claims):
        await watch(60, for_all=True)
        await watch(IDLE + GRACE, for_all=False)
        return (heaviest - before) / count / 1024, max_connections, upstream.open["/large"]


async def main(count: int) -> int:
    allow_many_files()
    left = 0
    print(f"{count} clients that do not read, timeout_idle {IDLE} s")
    print(f"{'plane':<10}{'HTTP':<7}{'claims':<12}{'growth':>9}{'held':>7}{'after':>7}")
    async with EndlessUpstream() as upstream:
        for plane, silents in (("embedded", (Silent1,)), ("envoy", (Silent1, Silent2))):
            with ExitStack() as stack:
                directory, port = Path(stack.enter_context(tempfile.TemporaryDirectory())), free_port()
                settings = gate_settings(directory, port, "http://127.0.0.1:9", upstream.url)
                route = {"from": f"https://{HOST}", "to": upstream.url, "timeout": "0s"}
                settings |= {
                    "policy": [{**route, "allow_public_unauthenticated_access": True}],
                    "data_plane": plane,
                    "timeout_idle": f"{IDLE}s",
                    "proxy_log_level": "warn",
                }
                gate = start_gate(stack, directory, settings)
                for silent in silents:
                    for claimed, headers in CLAIMS.items():
                        growth, held, after = await measured(gate.pid, port, upstream, silent, count, headers)
                        left += after
                        http = "1.1" if silent is Silent1 else "2"
                        print(f"{plane:<10}{http:<7}{claimed:<12}{growth:>5.0f} KiB{held:>7}{after:>7}", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    sys.exit(asyncio.run(main(parser.parse_args().count)))
