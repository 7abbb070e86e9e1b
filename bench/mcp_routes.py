"""Cost of MCP routes: of a call relative to the same POST on a route without `mcp`, of a filtered list, and memory of open streams.

`python -m bench.mcp_routes`: samples of a 4 KiB `tools/call` and of a `tools/list` with 500 tools, on both routes in turns, CPU time of
gate's process each; then 1,000 open event streams.  Medians.  The exit status is 1 if a goal is missed.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.support.bare_mcp import TOOLS
from bench.support.harness import HOST, child, free_port, gate_settings, pin, signed_in_cookie, start_gate, start_provider, wait_for
from bench.support.idle_clients import IdleClient, allow_many_files, idle_memory
from bench.support.process_stats import cpu_seconds
from bench.support.wrk_load import CONNECTIONS, wrk

CALL_BYTES = 4096
CALL_GOAL, LIST_GOAL, STREAM_GOAL = 60.0, 5000.0, 48.0  # microseconds, microseconds, KiB
ROUTES = {"route without mcp": "/plain", "MCP route": "/mcp"}
Samples = dict[str, list[float]]


class Stream(IdleClient):
    """Client of one event stream."""

    def __init__(self, cookie: str):
        super().__init__()
        self._request = f"GET /mcp HTTP/1.1\r\nHost: {HOST}\r\nCookie: {cookie}\r\nAccept: text/event-stream\r\n\r\n".encode()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(data.startswith(b"HTTP/1.1 200 "))


def call() -> str:
    """A `tools/call` of CALL_BYTES with many arguments, without spaces, as SDKs write it."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tool_1", "arguments": {}}}
    arguments: dict[str, str] = message["params"]["arguments"]  # type: ignore[index]
    while (missing := CALL_BYTES - len(text := json.dumps(message, separators=(",", ":")))) > 0:
        arguments[f"argument_{len(arguments)}"] = "x" * max(1, min(48, missing - 20))
    return text


def write_script(directory: Path, name: str, body: str) -> Path:
    """Return the script with which wrk sends this body."""
    headers = "".join(
        f'wrk.headers["{key}"] = "{value}"\n'
        for key, value in (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"))
    )
    script = directory / f"{name}.lua"
    script.write_text(f'wrk.method = "POST"\n{headers}wrk.body = [==[{body}]==]\n')
    return script


def measure(process: int, port: int, cookie: str, script: Path, rounds: int, seconds: int) -> Samples:
    """Return microseconds of gate's process per request."""
    samples: Samples = {name: [] for name in ROUTES}
    for _ in range(rounds):
        for name, path in ROUTES.items():
            before = cpu_seconds(process)
            options = [f"-c{CONNECTIONS}", "-s", str(script), "-H", f"Host: {HOST}", "-H", f"Cookie: {cookie}"]
            report = wrk([*options, f"http://127.0.0.1:{port}{path}"], seconds)
            samples[name].append((cpu_seconds(process) - before) / report.requests * 1e6)
    return samples


def report(title: str, samples: Samples, goal: float) -> bool:
    plain, mcp = (statistics.median(values) for values in samples.values())
    print(f"{title:34} {'µs':>8} {'ratio':>6}   samples")
    for name, values in samples.items():
        median = statistics.median(values)
        print(f"  {name:32} {median:8.0f} {median / plain:6.2f}   {' '.join(f'{value:.0f}' for value in values)}")
    print(f"  {'added by the MCP route':32} {mcp - plain:8.0f}   goal at most {goal:.0f}")
    return mcp - plain <= goal


def start_upstream(stack: ExitStack) -> str:
    port = free_port()
    stack.enter_context(child([sys.executable, "-m", "bench.support.bare_mcp", str(port)], core=1, stdout=subprocess.DEVNULL))
    wait_for(port)
    return f"http://127.0.0.1:{port}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    arguments = parser.parse_args()
    allow_many_files()
    with ExitStack() as stack:
        directory, port = Path(stack.enter_context(tempfile.TemporaryDirectory())), free_port()
        upstream = start_upstream(stack)
        settings = gate_settings(directory, port, start_provider(stack), upstream)
        (route,) = settings["policy"]
        rules = [{"deny": {"mcp_tool": {"ends_with": "_7"}}}]
        settings["policy"] = [{**route, "prefix": "/mcp", "mcp": {"path": "/mcp"}, "policy": rules}, route]
        gate = start_gate(stack, directory, settings, stdout=subprocess.DEVNULL)
        cookie = signed_in_cookie(port)
        pin(1)
        listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        reached = []
        for title, body, goal in (("tools/call of 4 KiB", call(), CALL_GOAL), (f"tools/list, {TOOLS} tools", listing, LIST_GOAL)):
            script = write_script(directory, title.partition(" ")[0].replace("/", "-"), body)
            reached.append(report(title, measure(gate.pid, port, cookie, script, arguments.rounds, arguments.seconds), goal))
        memory = asyncio.run(idle_memory(gate.pid, port, arguments.streams, lambda: Stream(cookie)))
        print(f"{f'memory of {arguments.streams} open streams':34} {memory:8.1f} KiB each   goal below {STREAM_GOAL:.0f}")
    return 0 if all(reached) and memory < STREAM_GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
