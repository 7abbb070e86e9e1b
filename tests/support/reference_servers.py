"""Real servers behind gate, each of which reports how it interpreted the same request.

`Readers` starts them (`.ci/test-tools` builds them). `FanOut` is the upstream in front of them: it sends each request to all of
them unchanged, and records their reports by the request's `X-Case`.
"""

import socket
import socketserver
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from tests.support.children import Child, clean_environment, free_port, wait_until

READERS = Path(__file__).parent / "readers"
WAIT = 10.0  # seconds; only a failing test waits that long


@dataclass(frozen=True, slots=True)
class Served:
    """How one application handled a request: its handler, method and path; empty if no handler ran."""

    handler: str = ""
    method: str = ""
    path: str = ""


class ReferenceServers:
    """The servers, with `ports` by name: Tomcat, Django under two servers, Express, Go's ServeMux, nginx.

    Their application is at each of `mounts`.
    """

    def __init__(self, directory: Path, mounts: Sequence[str]):
        self._directory, self._mounts = directory, mounts
        self._stack = ExitStack()
        self.ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        starters = {
            "Tomcat": self._tomcat,
            "Django under daphne": partial(self._django, "daphne", "-b", "127.0.0.1", "-p"),
            "Django under uvicorn": partial(self._django, "uvicorn", "--no-access-log", "--host", "127.0.0.1", "--port"),
            "Express": self._express,
            "Go": self._go,
            "nginx": self._nginx,
        }
        with ExitStack() as stack:
            for name, start in starters.items():
                self.ports[name] = free_port()
                stack.enter_context(start(self.ports[name]))
            for name, port in self.ports.items():
                wait_until(partial(is_there, port), f"{name} answers")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _tomcat(self, port: int) -> Child:
        built = READERS / "tomcat" / "built"
        flags = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.util.logging.config.file=")
        return Child("java", *flags, "-cp", f"{built}:{built}/lib/*", "Reader", str(port), self._directory, *self._mounts)

    def _django(self, server: str, *arguments: str) -> Child:
        *options, port = arguments
        environment = clean_environment(MOUNTS=" ".join(self._mounts))
        module = "tests.support.readers.django_application:application"
        return Child(sys.executable, "-m", server, *options, str(port), module, environment=environment)

    def _express(self, port: int) -> Child:
        return Child("node", READERS / "express" / "server.mjs", str(port), *self._mounts)

    def _go(self, port: int) -> Child:
        return Child(READERS / "go" / "built" / "reader", str(port), *self._mounts)

    def _nginx(self, port: int) -> Child:
        def served(handler: str) -> str:
            directives = 'add_header X-Method "$request_method" always; add_header X-Path "$uri" always;'
            return f'{{ add_header X-Served "{handler}" always; {directives} return 204; }}'

        locations = [
            f"location {matched}{'' if mount == '/' else mount}{path} {served(handler)}"
            for mount in self._mounts
            for matched, path, handler in (("= ", "/users", "users"), ("= ", "/admin/users", "admin"), ("^~ ", "/static/", "static"))
        ]
        temp_paths = " ".join(
            f"{kind}_temp_path {self._directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = (
            f"pid {self._directory}/reader.pid; error_log stderr; events {{}} http {{ access_log off; {temp_paths}"
            f" server {{ listen 127.0.0.1:{port}; {' '.join(locations)} location / {served('other')} }} }}"
        )
        file = self._directory / "reader.conf"
        file.write_text(text)
        return Child("nginx", "-e", "stderr", "-p", self._directory, "-c", file, "-g", "daemon off;")


def is_there(port: int) -> bool:
    try:
        return bool(send(port, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").handler)
    except OSError:
        return False


def send(port: int, head: bytes) -> Served:
    """Send these bytes to the application at this port on a new connection, and return its report."""
    with socket.create_connection(("127.0.0.1", port), WAIT) as connection:
        connection.sendall(head)
        answer = b""
        while b"\r\n\r\n" not in answer and (data := connection.recv(65536)):
            answer += data
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Served(
        headers.get("x-served", ""),
        headers.get("x-method", ""),
        unquote(headers.get("x-path", "").encode("latin-1").decode("utf-8", "replace")),
    )


@dataclass
class Arrived:
    """One request as forwarded by gate, and how each server handled it."""

    head: bytes
    served: dict[str, Served] = field(default_factory=dict)

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    @property
    def values(self) -> list[str]:
        return [value for _, value in self.headers]

    def header(self, name: str) -> str:
        return next((value for found, value in self.headers if found.lower() == name), "")


class FanOut:
    """The upstream at `url`; `arrived` by the value of `X-Case`. Its requests have no body."""

    def __init__(self, readers: dict[str, int]):
        self._readers = readers
        self.arrived: dict[str, Arrived] = {}
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = b""
                while line := self.rfile.readline():
                    head += line
                    if line == b"\r\n":
                        outer.take(head)
                        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                        head = b""

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

            def handle_error(self, *_: Any) -> None:
                """Ignore connections that end early."""

        self._server = Server(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, head: bytes) -> None:
        arrived = self.read(head)
        self.arrived[arrived.header("x-case")] = arrived

    def read(self, head: bytes) -> Arrived:
        arrived = Arrived(head)
        for name, port in self._readers.items():
            try:
                arrived.served[name] = send(port, head)
            except OSError:
                arrived.served[name] = Served()
        return arrived
