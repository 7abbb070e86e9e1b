"""What listens behind a route for TCP: hands each accepted connection to the test, or echoes until its client has said everything."""

import contextlib
import queue
import socket
import threading
from typing import Self

WAIT = 15.0  # seconds; only a failing test waits that long


class TcpUpstream:
    """`accepted()` is the next connection; with `is_echo` each is served instead, and `greeting` is said first."""

    def __init__(self, *, is_echo: bool = False, greeting: bytes = b""):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"tcp://127.0.0.1:{self.port}"
        self.count = 0
        self._is_echo, self._greeting = is_echo, greeting
        self._connections: queue.Queue[socket.socket] = queue.Queue()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def accepted(self) -> socket.socket:
        return self._connections.get(timeout=WAIT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.count += 1
            connection.settimeout(WAIT)
            connection.sendall(self._greeting)
            self._open.append(connection)
            if self._is_echo:
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()
            else:
                self._connections.put(connection)


def _echo(connection: socket.socket) -> None:
    with contextlib.suppress(OSError), connection:
        connection.settimeout(None)
        while data := connection.recv(65536):
            connection.sendall(data)
