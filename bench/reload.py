"""Does a reload under load lose or mix anything?

    python -m bench.reload

100 reloads (SIGHUP, each to another configuration) while 16 connections ask without a pause.  Goals: no failed request, and no answer that
was made of two configurations.
"""

import argparse
import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from bench.rig import child, free_port, gate_settings, wait_for

HOST = "reload.localhost"
CONNECTIONS = 16
RELOADED = '"configuration reloaded"'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reloads", type=int, default=100)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, port = free_port(), free_port()
        config = directory / "config.yaml"
        settings = {**gate_settings(directory, port, "http://127.0.0.1:9", ""), "log_level": "info", "proxy_log_level": "error"}
        write(config, settings, upstream, 0)
        command = [sys.executable, "manage.py", "rungate", "-config", str(config)]
        process = stack.enter_context(child(command, core=0, stdout=subprocess.PIPE))
        wait_for(port)
        count = asyncio.run(Run(process, config, settings, upstream, port).measure(arguments.reloads))
    report(arguments.reloads, count)


def report(reloads: int, count: dict[str, Any]) -> None:
    print(f"{reloads} reloads in {count['seconds']:.1f} s, {count['asked']} requests meanwhile, worlds seen: {count['worlds']}")
    print(f"failed requests: {count['failed']}    mixed answers: {count['mixed']}")
    sys.exit(bool(count["failed"] or count["mixed"]))


def write(config: Path, settings: dict[str, object], upstream: int, world: int) -> None:
    """Each world rewrites the path and sets a header in its own way: an answer made of two worlds shows it."""
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
        async with await asyncio.start_server(answer, "127.0.0.1", self._upstream):
            askers = [asyncio.ensure_future(self._ask()) for _ in range(CONNECTIONS)]
            started = time.monotonic()
            for world in range(1, reloads + 1):
                await asyncio.to_thread(self._reload, world)
            seconds = time.monotonic() - started
            self._is_over = True
            await asyncio.gather(*askers)
        return {**self._count, "seconds": seconds, "worlds": len(self._worlds)}

    def _reload(self, world: int) -> None:
        """Waits until the log says so; gate may have noticed the file by itself before the signal came."""
        write(self._config, self._settings, self._upstream, world)
        self._process.send_signal(signal.SIGHUP)
        for line in self._process.stdout or ():
            if RELOADED in line:
                return
            if '"error"' in line:
                sys.exit(line)

    async def _ask(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while not self._is_over:
            writer.write(b"GET /x HTTP/1.1\r\nHost: %b\r\n\r\n" % HOST.encode())
            self._count["asked"] += 1
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                heard = json.loads(await reader.readexactly(length))
            except (asyncio.IncompleteReadError, ConnectionError, IndexError, ValueError):
                self._count["failed"] += 1
                return
            self._worlds.add(heard["world"])
            self._count["failed"] += not head.startswith(b"HTTP/1.1 200")
            self._count["mixed"] += heard["target"] != f"/{heard['world']}/x"
        writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            world = head.lower().split("x-world: ")[1].split("\r\n")[0]
            body = json.dumps({"target": head.split(" ")[1], "world": world}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    except (asyncio.IncompleteReadError, asyncio.CancelledError):
        writer.close()  # the run is over


if __name__ == "__main__":
    main()
