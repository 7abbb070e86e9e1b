"""Cost of TCP tunnels: memory of idle ones, and echoed messages and megabytes per second relative to a bare forwarder.

`python -m bench.tcp_tunnels`: 1,000 idle, with and without TLS; then 32 with ping-pong of 64 bytes and 8 that echo 256 KiB at a time, in
turns with the forwarder; medians. `python -m bench.tcp_tunnels echo PORT` is their upstream.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import yaml

from bench.support.harness import HOST, free_port, gate_settings, pin, run_gate, start_provider, wait_for
from bench.support.idle_clients import IdleClient, allow_many_files, connect, disconnect, idle_memory
from bench.websockets import start
from tests.support.certs import certificate_files

AUTHORITY = f"{HOST}:7"
SMALL, LARGE = b"x" * 64, b"y" * (256 * 1024)
GOAL_KIB, GOAL_RATIO = 48, 0.6


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Client(IdleClient):
    """Client of one tunnel, or a direct connection if `bare`; it sends each `message` again when it is echoed."""

    def __init__(self, *, is_bare: bool):
        super().__init__()
        self.message, self.received, self._is_bare = b"", 0, is_bare

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        if self._is_bare:
            self.opened.set_result(True)
        else:
            transport.write(f"CONNECT {AUTHORITY} HTTP/1.1\r\nHost: {AUTHORITY}\r\n\r\n".encode())

    def play(self, message: bytes) -> None:
        self.message = message
        self.transport.write(message)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(data.startswith(b"HTTP/1.1 200 "))
            return
        complete = self.received // len(self.message)
        self.received += len(data)
        if self.received // len(self.message) > complete:
            self.transport.write(self.message)


def tunnel() -> Client:
    return Client(is_bare=False)


async def echoed(port: int, count: int, message: bytes, seconds: float, *, is_bare: bool) -> float:
    """Return bytes per second."""
    clients = await connect(port, count, lambda: Client(is_bare=is_bare))
    for client in clients:
        client.play(message)
    await asyncio.sleep(0.3)
    started, before = time.perf_counter(), sum(client.received for client in clients)
    await asyncio.sleep(seconds)
    rate = (sum(client.received for client in clients) - before) / (time.perf_counter() - started)
    await disconnect(clients)
    return rate


def start_gate(stack: ExitStack, directory: Path, provider: str, echo: int, **settings: object) -> tuple[int, int]:
    """Return (pid, port)."""
    port = free_port()
    route = {"from": f"tcp+https://{AUTHORITY}", "to": f"tcp://127.0.0.1:{echo}", "allow_public_unauthenticated_access": True}
    made = {
        **gate_settings(directory, port, provider, "http://127.0.0.1:9"),
        "policy": [route],
        "data_dir": str(directory / f"data-{port}"),
        **settings,
    }
    file = directory / f"{port}.yaml"
    file.write_text(yaml.safe_dump(made))
    return run_gate(stack, file, port, stdout=subprocess.DEVNULL).pid, port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    allow_many_files()
    rates: dict[tuple[str, bool], list[float]] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        echo, bare = free_port(), free_port()
        start(stack, "-m", "bench.tcp_tunnels", "echo", str(echo), core=1)
        wait_for(echo)
        provider = start_provider(stack)
        pid, port = start_gate(stack, directory, provider, echo)
        files = certificate_files(directory, HOST)
        pair = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key), "insecure_server": False}
        tls_pid, tls_port = start_gate(stack, directory, provider, echo, **pair)
        start(stack, "-m", "bench.support.bare_tunnel", "tunnel", str(bare), str(echo), core=0)
        wait_for(bare)
        pin(1)
        print(f"{f'memory of {arguments.idle} idle tunnels':34} {'KiB each':>8}   goal below {GOAL_KIB}")
        print(f"{'gate':34} {asyncio.run(idle_memory(pid, port, arguments.idle, tunnel)):8.1f}")
        print(f"{'gate, TLS':34} {asyncio.run(idle_memory(tls_pid, tls_port, arguments.idle, tunnel, files.client_context())):8.1f}")
        for _ in range(arguments.runs):
            for title, count, message in (("64 bytes", 32, SMALL), ("256 KiB", 8, LARGE)):
                for is_bare, target_port in ((True, bare), (False, port)):
                    rate = asyncio.run(echoed(target_port, count, message, arguments.seconds, is_bare=is_bare))
                    rates.setdefault((title, is_bare), []).append(rate)
    report(rates)


def report(rates: dict[tuple[str, bool], list[float]]) -> None:
    medians = {key: statistics.median(found) for key, found in rates.items()}
    print(f"\n{'echoed, median':34} {'bare':>12} {'gate':>12} {'ratio':>7}   goal {GOAL_RATIO} or more")
    for title, unit, size in (("64 bytes", "messages/s", 64), ("256 KiB", "MiB/s", 1 << 20)):
        bare, gate = medians[title, True] / size, medians[title, False] / size
        print(f"{f'{title}, {unit}':34} {bare:12,.0f} {gate:12,.0f} {gate / bare:7.2f}")


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1:2] == ["echo"]:
        asyncio.run(serve(int(sys.argv[2])))
    else:
        main()
