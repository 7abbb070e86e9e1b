"""An application behind gate that keeps every byte it was sent, and answers each kind of request in its own way."""

import socketserver
import threading
from typing import Self

from tests.support.websockets import accept_for

_PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
_EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ok\n\n"
_SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %b\r\n%b\r\n"


class RecordingUpstream:
    """`received` has all that came on each connection so far; one request a connection.

    A handshake is accepted, whatever asks for `text/event-stream` gets one event, a body is read to its end.
    """

    def __init__(self) -> None:
        upstream = self
        self.received: list[bytes] = []

        class Connection(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = self.rfile.readline()
                    if not line:
                        return
                    head += line
                named = {name.lower(): value for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])}
                upstream.received.append(head + self.rfile.read(int(named.get(b"content-length", 0))))
                if b"sec-websocket-key" in named:
                    accept = b"Sec-WebSocket-Accept: %b\r\n" % accept_for(named[b"sec-websocket-key"])
                    self.wfile.write(_SWITCHED % (b"websocket", accept))
                elif b"upgrade" in named:
                    self.wfile.write(_SWITCHED % (named[b"upgrade"], b""))
                else:
                    self.wfile.write(_EVENTS if b"event-stream" in named.get(b"accept", b"") else _PLAIN)

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
