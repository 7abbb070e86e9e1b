"""An upstream that keeps each request as it came, byte for byte with its body and trailers, by the value of `X-Case`; it answers 200."""

import re
import socketserver
import threading
from typing import Any, Self

from tests.support.children import free_port

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked\r\n", re.IGNORECASE)
_CASE = re.compile(rb"\r\nx-case: *([^\r\n]*)\r\n", re.IGNORECASE)


class Recorder:
    def __init__(self) -> None:
        self.requests: dict[str, bytes] = {}
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while request := self._request():
                    case = _CASE.search(request)
                    outer.requests[case[1].decode() if case else ""] = request
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

            def _request(self) -> bytes:
                head = self._lines()
                if length := _LENGTH.search(head):
                    return head + self.rfile.read(int(length[1]))
                return head + self._chunks() if _CHUNKED.search(head) else head

            def _lines(self) -> bytes:
                """To an empty line, or the end."""
                found = b""
                while line := self.rfile.readline():
                    found += line
                    if line == b"\r\n":
                        break
                return found

            def _chunks(self) -> bytes:
                """With their frames, and the trailers behind the last."""
                found = b""
                while line := self.rfile.readline():
                    found += line
                    if not (size := int(line.partition(b";")[0], 16)):
                        return found + self._lines()
                    found += self.rfile.read(size + 2)
                return found

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads, allow_reuse_address, request_queue_size = True, True, 128

            def handle_error(self, *_: Any) -> None:
                """Connections that end in the middle are none."""

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
