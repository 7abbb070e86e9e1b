"""Which files of gate does one allowed GET enter, in which order, and which does it enter twice?

    python -m bench.path_of_a_request [--calls]

One GET with a session's cookie, of a small answer, by a route of a whole host, on a connection that has carried others: each call of a
function of the product, as the interpreter tells a profiler.  `--calls` prints them all.

A file is *entered* where a function of another file calls one of its functions.  It is entered *twice* where that happens again after
another file was entered, although nothing of it is under way: what it had to do was done, and then there was more.  No second entry is

- what is under way being called back, or going on after it has waited; what the event loop calls;
- a value being made, or saying one of its properties;
- a call to what stands for the request, or for a connection, from its beginning to its end (`LASTING`): to close it is no other matter.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from bench.support.call_tracer import ROOT
from bench.support.rig import (
    BODY,
    HOST,
    STARTED_WITHIN,
    child,
    free_port,
    gate_settings,
    signed_in_cookie,
    start_nginx,
    start_provider,
    wait_for,
)

MOST_FILES = 43
WARM_UP, TRACES = 30, 5
QUIET = 0.1  # seconds before and after the request, for what is under way besides

# What each of these files holds lasts as long as the request, or longer.
LASTING = {
    "gateproject/asgi.py": "the edge: a request is told apart there, and counted there when it has ended",
    "proxy/listener/http1/channel.py": "the client's connection: it is read, and written to",
    "proxy/listener/http1/request.py": "the exchange on it",
    "proxy/listener/client_transport.py": "the client's connection, as bytes",
    "proxy/listener/deadline.py": "the connection's clock: it stands still during the exchange",
    "proxy/listener/fair_selector.py": "the event loop's own",
    "proxy/observe/access_log.py": "the request's log: begun, told whom it passed, ended",
    "proxy/planes/open_streams.py": "what is being carried: opened and closed",
    "proxy/upstreams/client.py": "the exchange with the upstream: asked, heard, given back",
    "proxy/upstreams/connection.py": "the upstream's connection, which the event loop calls, too",
}


@dataclass(frozen=True, slots=True)
class Call:
    """Call of a function of `file` by one of `caller` ("": the event loop).  `is_under_way`: another function of the file waits for it."""

    file: str
    function: str
    caller: str
    is_under_way: bool
    is_new: bool  # not a coroutine that goes on
    is_of_value: bool

    @property
    def is_entry(self) -> bool:
        return self.is_new and not self.is_under_way and not self.is_of_value and self.caller not in ("", self.file)


def files_of(calls: list[Call]) -> list[str]:
    return list(dict.fromkeys(call.file for call in calls))


def entered_twice(calls: list[Call]) -> list[Call]:
    """The second entries, of which there should be none."""
    entries = [call for call in calls if call.is_entry]
    visits = [call for position, call in enumerate(entries) if position == 0 or entries[position - 1].file != call.file]
    first: set[str] = set()
    second = []
    for call in visits:
        if call.file in first and call.file not in LASTING:
            second.append(call)
        first.add(call.file)
    return second


def traced_request() -> list[Call]:
    """Calls of one request to a gate that is warm, from its first byte to what follows its last; of several the shortest path.

    (A few decisions are kept by chance, and a machine that stands still makes things late that a request meets otherwise before or after.)
    """
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, provider, port = start_nginx(stack, directory), start_provider(stack), free_port()
        config, written = directory / "gate.yaml", directory / "calls"
        config.write_text(yaml.safe_dump({**gate_settings(directory, port, provider, upstream), "proxy_log_level": "info"}))
        (directory / "sitecustomize.py").write_text(f"import sys\nsys.path.insert(0, {ROOT!r})\nimport bench.support.call_tracer\n")
        environment = {"PYTHONPATH": os.pathsep.join((str(directory), *sys.path)), "GATE_CALLS": str(written)}
        command = [sys.executable, "manage.py", "rungate", "-config", str(config)]
        gate = stack.enter_context(child(command, core=0, environment=environment, stdout=subprocess.DEVNULL))
        wait_for(port)
        request = f"GET / HTTP/1.1\r\nHost: {HOST}\r\nCookie: {signed_in_cookie(port)}\r\n\r\n".encode()
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port), STARTED_WITHIN))
        for _ in range(WARM_UP):
            answer(client, request)
        traces = [traced(gate, written, partial(answer, client, request)) for _ in range(TRACES)]
    return min(traces, key=lambda calls: (len(entered_twice(calls)), len(files_of(calls)), len(calls)))


def traced(gate: subprocess.Popen[str], written: Path, ask: Callable[[], None]) -> list[Call]:
    """Calls of what `ask` asks."""
    written.unlink(missing_ok=True)
    time.sleep(QUIET)
    gate.send_signal(signal.SIGUSR1)
    time.sleep(QUIET)
    ask()
    time.sleep(QUIET)
    gate.send_signal(signal.SIGUSR2)
    deadline = time.monotonic() + STARTED_WITHIN
    while not written.exists() and time.monotonic() < deadline:
        time.sleep(QUIET)
    return without_others([Call(*json.loads(line)) for line in written.read_text().splitlines()])


def answer(client: socket.socket, request: bytes) -> None:
    client.sendall(request)
    received = b""
    while BODY.encode() not in received:
        data = client.recv(65536)
        if not data:
            sys.exit(f"gate answered something else: {received.decode('latin-1')}")
        received += data


def without_others(calls: list[Call]) -> list[Call]:
    """Without what goes on beside the request: the event loop calls its connections, and lets its own task go on, but no other."""
    kept, is_others = [], False
    for call in calls:
        if call.caller == "":
            is_others = call.file not in LASTING or not (call.is_new or call.function == REQUEST)
        if not is_others:
            kept.append(call)
    return kept


REQUEST = "Exchange._run"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", action="store_true", help="print every call")
    arguments = parser.parse_args()
    calls = traced_request()
    if arguments.calls:
        for call in calls:
            print(f"{call.file:44} {call.function}{'' if call.is_new else ' goes on'}")
    files, second = files_of(calls), entered_twice(calls)
    for number, file in enumerate(files, 1):
        print(f"{number:3} {file:44} {sum(call.file == file and call.is_new for call in calls):3} calls   {LASTING.get(file, '')}")
    for call in second:
        print(f"entered twice: {call.file}, {call.function} by {call.caller}")
    print(f"{len(files)} files (goal: at most {MOST_FILES}), {sum(call.is_new for call in calls)} calls")
    return int(bool(second) or len(files) > MOST_FILES)


if __name__ == "__main__":
    sys.exit(main())
