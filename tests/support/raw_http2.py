"""HTTP/2 client that sends exactly the given pseudo-headers and headers, one request at a time."""

import socket
import ssl
import time
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived

from tests.support.raw_http import WAIT, Broken, RawResponse


class RawHttp2Client:
    """Client of one connection. `ask()` raises Broken if the server resets the stream; `trailers` are those of the last response."""

    def __init__(self, port: int, tls: ssl.SSLContext, server_name: str):
        tls.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port), WAIT)
        self._socket = tls.wrap_socket(plain, server_hostname=server_name)
        if self._socket.selected_alpn_protocol() != "h2":
            raise Broken(b"no HTTP/2 here")
        self.trailers: dict[str, str] = {}
        config = H2Configuration(header_encoding="latin-1", validate_outbound_headers=False, normalize_outbound_headers=False)
        self._h2 = H2Connection(config)
        self._h2.initiate_connection()
        self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def request(
        self,
        method: str,
        target: str,
        authority: str,
        *headers: tuple[str, str],
        body: bytes | None = None,
        trailers: tuple[tuple[str, str], ...] = (),
    ) -> RawResponse:
        """Send a request; the parts after the head are sent later, in separate frames."""
        stream = self._h2.get_next_available_stream_id()
        where = [] if method == "CONNECT" else [(":scheme", "https"), (":path", target)]  # RFC 9113 8.5
        pseudo = [(":method", method), *where, (":authority", authority)]
        self._h2.send_headers(stream, [*pseudo, *headers], end_stream=body is None and not trailers)
        self._flush()
        if body is not None or trailers:
            time.sleep(0.2)
        if body is not None:
            self._h2.send_data(stream, body, end_stream=not trailers)
        if trailers:
            self._h2.send_headers(stream, list(trailers), end_stream=True)
        self._flush()
        status, received, body, self.trailers = 0, [], b"", {}
        while True:
            data = self._socket.recv(65536)
            if not data:
                raise Broken(body)
            for event in self._h2.receive_data(data):
                match event:
                    case ResponseReceived(headers=given) if event.stream_id == stream:
                        received = [(str(name), str(value)) for name, value in given or ()]
                        status = int(dict(received)[":status"])
                    case DataReceived() if event.stream_id == stream:
                        body += event.data or b""
                        self._h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                    case TrailersReceived(headers=given) if event.stream_id == stream:
                        self.trailers = {str(name): str(value) for name, value in given or ()}
                    case StreamEnded() if event.stream_id == stream:
                        self._flush()
                        return RawResponse(status, [pair for pair in received if not pair[0].startswith(":")], body)
                    case StreamReset() if event.stream_id == stream:
                        raise Broken(body)
                    case ConnectionTerminated():
                        raise Broken(body)
            self._flush()

    def _flush(self) -> None:
        if data := self._h2.data_to_send():
            self._socket.sendall(data)
