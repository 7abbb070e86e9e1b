"""CONNECT by raw bytes over TLS with half-closed connections, and programmatic login without a browser."""

import re
import socket
from html import unescape
from typing import Self
from urllib.parse import parse_qs, quote, urljoin, urlsplit

import httpx
from OpenSSL import SSL

from tests.support.development_provider import pick_user
from tests.support.gate import follow
from tests.support.raw_http import WAIT, Broken, RawClient

NOWHERE = "http://localhost:9/back?state=mine"


class TunnelClient(RawClient):
    """Tunnel client on OpenSSL: `finish` closes only the sending direction, as Go's CloseWrite does. The server is not verified."""

    def __init__(self, port: int, server_name: str):
        super().__init__(port)
        self._tls = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), self.socket)
        self._tls.set_tlsext_host_name(server_name.encode())
        self._tls.set_connect_state()
        self.socket.settimeout(None)  # OpenSSL blocks; socket timeouts bound it
        seconds = int(WAIT).to_bytes(8, "little") + bytes(8)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, seconds)
        self._tls.do_handshake()

    def send(self, data: bytes) -> Self:
        self._tls.sendall(data)
        return self

    def open(self, authority: str, *lines: str, ahead: bytes = b"", host: str | None = None) -> int:
        """Send CONNECT and return the status; data after a 200 belongs to the tunnel."""
        head = "\r\n".join([f"CONNECT {authority} HTTP/1.1", f"Host: {host or authority}", *lines, "", ""])
        self.send(head.encode() + ahead)
        status = int(self._until(b"\r\n").split(b" ")[1])
        self.answer = self._until(b"\r\n\r\n") if status == 200 else b""
        return status

    def finish(self) -> None:
        """Send close_notify, which ends the sending direction."""
        self._tls.shutdown()

    def ends(self) -> bytes:
        """Return everything until the server closes its direction or resets."""
        return self.rest()

    def breaks_off(self) -> bool:
        """Return whether the server ends with a reset, or without close_notify (RFC 8446 6.1)."""
        try:
            while self._tls.recv(65536):
                pass
        except SSL.ZeroReturnError:
            return False
        except SSL.Error:
            return True
        return False

    def _receive(self) -> None:
        try:
            data = self._tls.recv(65536)
        except SSL.Error:  # its close_notify as well
            data = b""
        if not data:
            raise Broken(self._buffer)
        self._buffer += data


async def obtain_token(client: httpx.AsyncClient, pages: str, sub: str) -> str:
    """Return a token by programmatic login. `pages` is the browser origin of the host; `client` has the user's cookies."""
    answer = await client.get(f"{pages}/.gate/api/v1/login?gate_redirect_uri={quote(NOWHERE, safe='')}")
    assert answer.status_code == 200, answer.text
    page = await follow(client, await client.get(answer.text))
    if "/.gate/program" not in str(page.url):
        page = await follow(client, await pick_user(client, page, sub))
    agreed = await agree(client, page)
    while not (location := urljoin(str(agreed.url), agreed.headers["location"])).startswith(NOWHERE):
        agreed = await client.get(location)
    return parse_qs(urlsplit(location).query)["gate_jwt"][0]


async def agree(client: httpx.AsyncClient, page: httpx.Response) -> httpx.Response:
    """Give consent on the consent `page`."""
    fields = {name: unescape(value) for name, value in re.findall(r'<input[^>]*name="([^"]+)"[^>]*value="([^"]*)"', page.text)}
    return await client.post(str(page.url), data=fields, headers={"Origin": f"https://{urlsplit(str(page.url)).netloc}"})
