"""Raw WebSocket: frames, handshakes, and an application behind gate with valid and invalid behaviour."""

import base64
import hashlib
import socket
import socketserver
import ssl
import threading
from dataclasses import dataclass
from typing import Self

from tests.support.raw_http import Broken, RawClient, RawResponse

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # the example of RFC 6455 1.3
MASK = b"\x11\x22\x33\x44"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


@dataclass(frozen=True)
class Frame:
    opcode: int
    payload: bytes
    is_final: bool = True
    is_masked: bool = False
    rsv: int = 0

    def to_bytes(self) -> bytes:
        size = len(self.payload)
        mask_bit = 0x80 if self.is_masked else 0
        if size < 126:
            length = bytes((mask_bit | size,))
        elif size < 2**16:
            length = bytes((mask_bit | 126,)) + size.to_bytes(2, "big")
        else:
            length = bytes((mask_bit | 127,)) + size.to_bytes(8, "big")
        body = MASK + _masked(self.payload, MASK) if self.is_masked else self.payload
        return bytes(((0x80 if self.is_final else 0) | self.rsv | self.opcode,)) + length + body

    @property
    def close_code(self) -> int:
        return int.from_bytes(self.payload[:2], "big")


def read_frame(exactly) -> Frame:
    """Read one frame; `exactly(size)` returns this many bytes."""
    first, second = exactly(2)
    size = second & 0x7F
    if size > 125:
        size = int.from_bytes(exactly(2 if size == 126 else 8), "big")
    mask = exactly(4) if second & 0x80 else b""
    payload = exactly(size)
    return Frame(first & 0x0F, _masked(payload, mask) if mask else payload, bool(first & 0x80), bool(mask), first & 0x70)


def frames_in(data: bytes) -> list[Frame]:
    found, at = [], 0

    def exactly(size: int) -> bytes:
        nonlocal at
        at += size
        return data[at - size : at]

    while at < len(data):
        found.append(read_frame(exactly))
    return found


def from_client(opcode: int, payload: bytes = b"", **more) -> bytes:
    return Frame(opcode, payload, is_masked=True, **more).to_bytes()


def from_server(opcode: int, payload: bytes = b"", **more) -> bytes:
    return Frame(opcode, payload, **more).to_bytes()


def accept_for(key: bytes) -> bytes:
    return base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())


def handshake(host: str, path: str = "/", *lines: str, leave_out: str = "", **changed: str) -> bytes:
    """Return a handshake; `changed` replaces a header (`sec_websocket_version="8"`), `leave_out` is one that is omitted."""
    headers = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": KEY.decode()}
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    headers.pop(leave_out, None)
    sent = [f"GET {path} HTTP/1.1", f"Host: {host}", *(f"{name}: {value}" for name, value in headers.items()), *lines]
    return "\r\n".join([*sent, "", ""]).encode("latin-1")


class RawWebSocket(RawClient):
    """Client that sends exactly the given bytes."""

    def open(self, host: str, path: str = "/", *lines: str, ahead: bytes = b"", **changed: str) -> RawResponse:
        """Return the response to the handshake; `ahead` is sent in the same segment."""
        self.send(handshake(host, path, *lines, **changed) + ahead)
        return self.one_response()

    def frame(self) -> Frame:
        return read_frame(self.exactly)

    def send_frame(self, opcode: int, payload: bytes = b"", **more) -> None:
        self.send(from_client(opcode, payload, **more))


class _Conversation(RawClient):
    def __init__(self, connection: socket.socket):
        self.socket = connection
        connection.settimeout(10)
        self._buffer = b""


class SocketUpstream:
    """An application behind gate with a thread per connection. The path of the handshake selects its behaviour.

    `heads` are the received request heads, `heard` are the bytes after each. `/hold` only reads.
    """

    def __init__(self) -> None:
        upstream = self
        self.heads: list[bytes] = []
        self.received: list[bytes] = []
        self.sent = 0

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                upstream._converse(_Conversation(self.request))

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_: object) -> None:
                pass  # gate has disconnected

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def forget(self) -> None:
        self.heads.clear()
        self.received.clear()
        self.sent = 0

    def frames(self) -> list[Frame]:
        """Return the frames that the last connection received."""
        return frames_in(self.received[-1]) if self.received else []

    def _converse(self, client: _Conversation) -> None:
        head = client._until(b"\r\n\r\n")
        self.heads.append(head)
        number = len(self.heads) - 1
        self.received.append(b"")
        path = head.split(b" ")[1].decode()
        key = next((line.split(b": ")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key")), b"")
        client.send(self._answer(path, accept_for(key)))
        getattr(self, f"_{path.strip('/').partition('?')[0].replace('-', '_')}", self._hold)(client, number)

    def _answer(self, path: str, accept: bytes) -> bytes:
        switching = b"HTTP/1.1 101 Switching Protocols\r\n"
        upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
        valid = switching + upgrade + b"Sec-WebSocket-Accept: " + accept + b"\r\n"
        answers = {
            "/wrong-accept": switching + upgrade + b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n",
            "/no-accept": switching + upgrade + b"\r\n",
            "/no-upgrade": switching + b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n",
            "/other-protocol": switching + b"Upgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n",
            "/unasked-subprotocol": valid + b"Sec-WebSocket-Protocol: admin\r\n\r\n",
            "/unasked-extension": valid + b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
            "/ok-with-upgrade": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + upgrade + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\nno",
            "/not-here": b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 7\r\n\r\nnowhere",
            "/silent": b"",
            "/cookie": valid + b"Set-Cookie: _gate=forged\r\nSet-Cookie: own=1\r\nContent-Length: 5\r\nX-Own: yes\r\n\r\n",
            "/speaks-first": valid + b"\r\n" + from_server(TEXT, b"first"),
        }
        return answers.get(path.partition("?")[0], valid + b"\r\n")

    def _hold(self, client: _Conversation, number: int) -> None:
        """Read until gate disconnects, without responding to a Close."""
        while data := client.socket.recv(65536):
            self.received[number] += data

    def _polite(self, client: _Conversation, number: int) -> None:
        """Echo, and respond to a Close with the same."""
        while (frame := read_frame(client.exactly)).opcode != CLOSE:
            client.send(from_server(frame.opcode, frame.payload, is_final=frame.is_final))
        client.send(from_server(CLOSE, frame.payload))

    def _flood(self, client: _Conversation, number: int) -> None:
        """Send until gate accepts no more."""
        while True:
            client.send(from_server(BINARY, b"x" * 65526))
            self.sent += 65536

    def _masked(self, client: _Conversation, number: int) -> None:
        client.send(from_client(TEXT, b"servers do not mask"))
        self._hold(client, number)

    def _huge(self, client: _Conversation, number: int) -> None:
        client.send(bytes((0x82, 127)) + (2**30).to_bytes(8, "big") + b"x" * 1000)
        self._hold(client, number)

    def _unfinished(self, client: _Conversation, number: int) -> None:
        """Start a frame of 100 bytes, and finish it when data arrives."""
        client.send(bytes((0x82, 100)) + b"a" * 40)
        self.received[number] += client.socket.recv(65536)
        client.send(b"b" * 60 + from_server(TEXT, b"after the end"))
        self._hold(client, number)

    def _breaks_off(self, client: _Conversation, number: int) -> None:
        client.send(from_server(TEXT, b"last words"))

    def _sleeps(self, client: _Conversation, number: int) -> None:
        """Read nothing until the end of the test."""
        threading.Event().wait(8)


def ended(client: RawClient) -> bool:
    """Return whether the connection ends without another byte."""
    try:
        return client.rest() == b""
    except (Broken, ssl.SSLError):
        return True


def _masked(payload: bytes, mask: bytes) -> bytes:
    repeated = mask * (len(payload) // 4 + 1)
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated[: len(payload)], "big")).to_bytes(len(payload), "big")
