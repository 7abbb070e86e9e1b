"""TLS connection to gate with half-close, which asyncio's TLS (3.11) lacks, and one HTTP exchange over it."""

import asyncio
import contextlib
import http.client
import io
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foundation.errors import GateError
from foundation.values import Url, is_loopback

CONNECT_SECONDS = 15.0
_MAX_READ_BYTES = 64 * 1024  # bytes


class TunnelError(GateError):
    """Error with a message for the user of the command."""


class TlsConnection(asyncio.Protocol):
    """Transport and protocol in one: passes received data to `protocol`, and sends what it writes (RFC 8446 6.1)."""

    def __init__(self, context: ssl.SSLContext, server_name: str, protocol: asyncio.Protocol):
        self.protocol = protocol
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self._has_input_ended = False
        self._transport: Any = None

    # Called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._handshake()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self.opened.done():
            self._handshake()
        if self.is_open:
            self._read()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionResetError("the connection was closed"))
        self.protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()

    # Called by its owner.

    def write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._tls.write(data)
            self._flush()

    def write_eof(self) -> None:
        """Send close_notify. All received data has been read by now, so OpenSSL does not wait for more."""
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError:
            self._transport.abort()
        else:
            self._flush()
            self._transport.close()

    @property
    def is_open(self) -> bool:
        """Whether the handshake is complete."""
        return self.opened.done() and not self.opened.cancelled() and self.opened.exception() is None

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def close(self) -> None:
        if not self._transport.is_closing():
            self.write_eof()
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def get_extra_info(self, name: str) -> Any:
        return self._transport.get_extra_info(name)

    def _handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self.opened.set_exception(error)
        else:
            self.opened.set_result(None)
        self._flush()

    def _read(self) -> None:
        while not self._has_input_ended:
            try:
                data = self._tls.read(_MAX_READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:  # both directions are closed
                data = b""
            except ssl.SSLError:
                self._transport.abort()
                return
            if data:
                self.protocol.data_received(data)
            else:
                self._has_input_ended = True
                if not self.protocol.eof_received():
                    self.close()
        self._flush()

    def _flush(self) -> None:
        if data := self._outgoing.read():
            self._transport.write(data)


async def connect(url: Url, context: ssl.SSLContext, protocol: asyncio.Protocol) -> TlsConnection:
    """Connect to gate. Names below `localhost` resolve to this machine (RFC 6761). Raise TunnelError."""
    host = url.host.strip("[]")
    dialled = "127.0.0.1" if is_loopback(host) and host.endswith("localhost") else host
    connection = TlsConnection(context, host, protocol)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().create_connection(lambda: connection, dialled, url.port or 443)
            await connection.opened
    except ssl.SSLCertVerificationError as error:
        raise TunnelError(f"{url.host_port}: certificate not trusted: {error.verify_message.rstrip('.')}. Set its CA with --ca") from None
    except ssl.SSLError as error:
        raise TunnelError(f"TLS handshake with {url.host_port} failed: {error.reason}") from None
    except TimeoutError:
        raise TunnelError(f"{url.host_port} did not respond within {CONNECT_SECONDS:.0f} s") from None
    except OSError as error:
        raise TunnelError(f"{url.host_port} can't be reached: {error.strerror or error}") from None
    finally:
        if not connection.is_open:
            connection.abort()
    return connection


ANSWER_SECONDS = 30.0  # gate tries three upstreams for ten seconds each
_MAX_RESPONSE_BYTES = 256 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class TunnelResponse:
    status: int
    body: str
    rest: bytes = b""  # data after a 200 to CONNECT


class _ResponseReader(asyncio.Protocol):
    """Buffer that collects received data until there is enough, or the end."""

    def __init__(self, *, is_connect: bool):
        self._is_connect = is_connect
        self.received = bytearray()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) > _MAX_RESPONSE_BYTES or (self._is_connect and self.is_open):
            self._finish()

    @property
    def is_open(self) -> bool:
        return self.received.startswith(b"HTTP/1.1 200 ") and b"\r\n\r\n" in self.received

    def eof_received(self) -> bool:
        self._finish()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)


async def send_request(
    url: Url, context: ssl.SSLContext, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
) -> tuple[TunnelResponse, TlsConnection]:
    """Return the response, and the connection: a tunnel after a 200 to CONNECT, else closed. Raise TunnelError."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    lines += [f"Content-Length: {len(body)}"] if body else []
    lines += [] if method == "CONNECT" else ["Connection: close"]
    reader = _ResponseReader(is_connect=method == "CONNECT")
    connection = await connect(url, context, reader)
    try:
        connection.write("\r\n".join([*lines, "", ""]).encode("ascii") + body)
        async with asyncio.timeout(ANSWER_SECONDS):
            await reader.finished
        return _answer(bytes(reader.received), method), connection
    except TimeoutError:
        connection.abort()
        raise TunnelError(f"{url.host_port} did not respond within {ANSWER_SECONDS:.0f} s") from None
    except BaseException:
        connection.abort()
        raise


def _answer(received: bytes, method: str) -> TunnelResponse:
    response = http.client.HTTPResponse(_Bytes(received), method=method)  # type: ignore[arg-type]
    try:
        response.begin()
        if method == "CONNECT" and response.status == 200:
            return TunnelResponse(200, "", received.partition(b"\r\n\r\n")[2])
        body = b""
        with contextlib.suppress(http.client.IncompleteRead):
            body = response.read()
    except (http.client.HTTPException, ValueError, OSError):
        raise TunnelError("the response is not HTTP. Check that this is the address of gate") from None
    return TunnelResponse(response.status, body.decode("utf-8", "replace"))


class _Bytes:
    def __init__(self, received: bytes):
        self._received = received

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
