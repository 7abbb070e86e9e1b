"""HTTP exchange over a connection of ours: a CONNECT that may become a tunnel, or a request that ends the connection."""

import asyncio
import contextlib
import http.client
import io
import ssl
from dataclasses import dataclass

from foundation.values import Url
from gateproject.tunnel.connection import TlsConnection, TunnelFailed, connect

ANSWER_SECONDS = 30.0  # gate itself tries three upstreams for ten seconds each
_MOST = 256 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class TunnelResponse:
    status: int
    body: str
    rest: bytes = b""  # what came behind a 200 to CONNECT


class _ResponseReader(asyncio.Protocol):
    """Gathers what comes, until there is enough of it, or no more."""

    def __init__(self, *, is_connect: bool):
        self._is_connect = is_connect
        self.received = bytearray()
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) > _MOST or (self._is_connect and self.is_open):
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


async def ask(
    url: Url, context: ssl.SSLContext, method: str, target: str, host: str, token: str = ""
) -> tuple[TunnelResponse, TlsConnection]:
    """Response and connection, which is a tunnel after a 200 to CONNECT, over otherwise.  Raises TunnelFailed."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept: text/plain"]
    lines += [f"Authorization: Gate {token}"] if token else []
    lines += [] if method == "CONNECT" else ["Connection: close"]
    reader = _ResponseReader(is_connect=method == "CONNECT")
    connection = await connect(url, context, reader)
    try:
        connection.write("\r\n".join([*lines, "", ""]).encode("ascii"))
        async with asyncio.timeout(ANSWER_SECONDS):
            await reader.finished
        return _answer(bytes(reader.received), method), connection
    except TimeoutError:
        connection.abort()
        raise TunnelFailed(f"{url.host_port} did not respond within {ANSWER_SECONDS:.0f} s") from None
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
        raise TunnelFailed("the response is not HTTP. Check that this is the address of gate") from None
    return TunnelResponse(response.status, body.decode("utf-8", "replace"))


class _Bytes:
    def __init__(self, received: bytes):
        self._received = received

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._received)
