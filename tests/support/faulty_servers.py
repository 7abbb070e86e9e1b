"""Faulty servers on loopback, one for each kind of connection failure: `with server(plain_http) as port`."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from tests.support.certs import CertificateFiles

Talk = Callable[[socket.socket], None]


@contextmanager
def server(talk: Talk) -> Iterator[int]:
    """Run `talk` in a thread per connection, and yield the port."""
    listening = socket.create_server(("127.0.0.1", 0))
    open_ones: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            open_ones.append(connection)
            threading.Thread(target=_quietly, args=(talk, connection), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(10)
        for connection in open_ones:
            connection.close()


def _quietly(talk: Talk, connection: socket.socket) -> None:
    with suppress(OSError):
        talk(connection)


def tls(files: CertificateFiles, *, wants_certificate: bool = False) -> Talk:
    context = files.server_context()
    if wants_certificate:
        context.load_verify_locations(files.authority)
        context.verify_mode = ssl.CERT_REQUIRED

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as wrapped:
            wrapped.recv(1)

    return talk


def plain_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    connection.close()


def silent(connection: socket.socket) -> None:
    connection.recv(4096)
    threading.Event().wait(30)
