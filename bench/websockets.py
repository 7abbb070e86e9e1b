"""Cost of websockets through gate: memory of idle ones, and echoed messages per second relative to a bare tunnel.

`python -m bench.websockets`: 1,000 idle, with and without TLS; then 32 with ping-pong of 64 bytes, five runs each, in turns; medians.
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

from bench.support.harness import HOST, child, free_port, gate_settings, pin, run_gate, signed_in_cookie, start_provider, wait_for
from bench.support.idle_clients import IdleClient, allow_many_files, connect, disconnect, idle_memory
from tests.support.certs import certificate_files

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
PING = b"\x82\xc0\0\0\0\0" + b"x" * 64  # binary, 64 bytes, masked with zeroes
GOAL_KIB, GOAL_RATIO = 48, 0.6


class Client(IdleClient):
    """Client of one websocket; with `play` it responds to each echo with the next message."""

    def __init__(self, cookie: str):
        super().__init__()
        self.echoes, self.is_playing = 0, False
        self._request = (
            f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {cookie}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
        ).encode()

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            self.opened.set_result(data.startswith(b"HTTP/1.1 101 "))
            return
        self.echoes += 1
        if self.is_playing:
            self.transport.write(PING)


async def echo_rate(port: int, cookie: str, count: int, seconds: float) -> float:
    clients = await connect(port, count, lambda: Client(cookie))
    for client in clients:
        client.is_playing = True
        client.transport.write(PING)
    await asyncio.sleep(0.3)
    started, before = time.perf_counter(), sum(client.echoes for client in clients)
    await asyncio.sleep(seconds)
    rate = (sum(client.echoes for client in clients) - before) / (time.perf_counter() - started)
    await disconnect(clients)
    return rate


def start(stack: ExitStack, *command: str, core: int) -> subprocess.Popen[str]:
    return stack.enter_context(child([sys.executable, *command], core=core, stdout=subprocess.DEVNULL))


def start_gate(stack: ExitStack, directory: Path, upstream: str, provider: str, **settings: object) -> tuple[subprocess.Popen[str], int]:
    port = free_port()
    made = {**gate_settings(directory, port, provider, upstream), **settings}
    made["policy"][0]["allow_websockets"] = True
    file = directory / f"{port}.yaml"
    file.write_text(yaml.safe_dump(made))
    return run_gate(stack, file, port, stdout=subprocess.DEVNULL), port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    arguments = parser.parse_args()
    allow_many_files()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        echo = free_port()
        start(stack, "-m", "bench.support.bare_tunnel", "echo", str(echo), core=1)
        wait_for(echo)
        provider = start_provider(stack)
        plain, plain_port = start_gate(stack, directory, f"http://127.0.0.1:{echo}", provider)
        cookie = signed_in_cookie(plain_port)
        secrets = {key: value for key, value in yaml.safe_load((directory / f"{plain_port}.yaml").read_text()).items() if "secret" in key}
        files = certificate_files(directory, HOST)
        pair = {"certificate_file": str(files.certificate), "certificate_key_file": str(files.key), "insecure_server": False}
        # One data directory and equal secrets do not share sessions, so with TLS the route is public.
        encrypted, encrypted_port = start_gate(
            stack, directory, f"http://127.0.0.1:{echo}", provider, **secrets, **pair, **open_policy(echo)
        )
        bare = free_port()
        start(stack, "-m", "bench.support.bare_tunnel", "tunnel", str(bare), str(echo), core=0)
        wait_for(bare)
        pin(1)
        print(f"{f'memory of {arguments.idle} idle websockets':34} {'KiB each':>8}   goal below {GOAL_KIB}")
        print(f"{'gate':34} {asyncio.run(idle_memory(plain.pid, plain_port, arguments.idle, lambda: Client(cookie))):8.1f}")
        tls = files.client_context()
        print(f"{'gate, TLS':34} {asyncio.run(idle_memory(encrypted.pid, encrypted_port, arguments.idle, lambda: Client(''), tls)):8.1f}")
        rates: dict[str, list[float]] = {"bare tunnel": [], "gate": []}
        for _ in range(arguments.runs):
            for name, port in (("bare tunnel", bare), ("gate", plain_port)):
                rates[name].append(asyncio.run(echo_rate(port, cookie, 32, arguments.seconds)))
    report(rates)


def open_policy(echo: int) -> dict[str, object]:
    return {"policy": [{"from": f"https://{HOST}", "to": f"http://127.0.0.1:{echo}", "allow_public_unauthenticated_access": True}]}


def report(rates: dict[str, list[float]]) -> None:
    base = statistics.median(rates["bare tunnel"])
    print(f"{'echoed messages/s, 32 at 64 bytes':34} {'median':>8} {'ratio':>6}   goal {GOAL_RATIO}; runs")
    for name, each in rates.items():
        median = statistics.median(each)
        print(f"{name:34} {median:8.0f} {median / base:6.2f}   {' '.join(f'{rate:.0f}' for rate in each)}")


if __name__ == "__main__":
    main()
