"""Server for `manage.py tunnel`, in a thread. It uses OpenSSL directly, so that one direction can close before the other."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from OpenSSL import SSL

from foundation.values import Url
from tests.support.certs import certificate_files

Script = Callable[["ServerConnection"], None]


class ServerConnection:
    """One connection; `head` is the request head."""

    def __init__(self, tls: SSL.Connection):
        self._tls = tls
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            self.head += self._tls.recv(1)

    def send(self, data: bytes) -> None:
        self._tls.sendall(data)

    def receive(self) -> bytes:
        """Receive data; empty after the other side has closed its direction."""
        try:
            return self._tls.recv(65536)
        except SSL.ZeroReturnError:
            return b""

    def finish(self) -> None:
        self._tls.shutdown()


class TunnelServer:
    def __init__(self, directory: Path, script: Script, *names: str):
        files = certificate_files(directory, *(names or ("gate.localhost",)))
        self.authority = files.authority
        self.context = files.client_context()
        self._script = script
        self._server = SSL.Context(SSL.TLS_SERVER_METHOD)
        self._server.use_certificate_chain_file(str(files.certificate))
        self._server.use_privatekey_file(str(files.key))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = Url("https", "gate.localhost", self._listener.getsockname()[1])
        self.heads: list[bytes] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        tls = SSL.Connection(self._server, accepted)
        tls.set_accept_state()
        with contextlib.suppress(SSL.Error, OSError), accepted:
            spoken = ServerConnection(tls)
            self.heads.append(spoken.head)
            self._script(spoken)
            with contextlib.suppress(SSL.Error):
                tls.shutdown()
