"""Sign-in with the user's browser, as in RFC 8252 for native applications: the token is sent to a loopback address."""

import asyncio
import contextlib
import hmac
import os
import secrets
import socket
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from foundation.values import Url
from gateproject.tunnel.tls_connection import TunnelError, send_request
from gateproject.tunnel.token_file import is_token

SIGN_IN_SECONDS = 600.0
_REQUEST_SECONDS = 10.0
_MAX_HEAD_BYTES = 32 * 1024  # bytes
_DONE = b"You are signed in. This page can be closed.\n"
_NOTHING = b"There is nothing here.\n"
_ANOTHER_USER = b"This sign-in comes from another user of this machine than the one who waits for it.\n"


async def sign_in(
    host: str, tunnel_port: int, url: Url, context: ssl.SSLContext, show: Callable[[str], None], uid: int | None = None
) -> str:
    """Return a token for tunnels of `host`; `show` opens a URL in the user's browser. Raise TunnelError.

    The sign-in satisfies the requirements of the route at `tunnel_port`. `uid` is the user whose browser is accepted, by default the
    current one. For root any user is accepted, because browsers do not run as root.
    """
    waiting = _LoopbackReceiver(os.getuid() if uid is None else uid)
    server = await asyncio.start_server(waiting.answer, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES)
    async with server:
        port = server.sockets[0].getsockname()[1]
        back = f"http://127.0.0.1:{port}/?state={waiting.state}"
        authority = host if url.port is None else f"{host}:{url.port}"
        query = f"gate_redirect_uri={quote(back, safe='')}&gate_tunnel_port={tunnel_port}"
        answer, _ = await send_request(url, context, "GET", f"/.gate/api/v1/login?{query}", authority)
        if answer.status != 200:
            raise TunnelError(f"gate at {url.host_port} offers no sign-in for {authority}: {_reason(answer.body) or answer.status}")
        show(_checked(answer.body.strip()))
        try:
            async with asyncio.timeout(SIGN_IN_SECONDS):
                return await waiting.token
        except TimeoutError:
            raise TunnelError(f"no sign-in within {SIGN_IN_SECONDS / 60:.0f} minutes") from None


def _checked(address: str) -> str:
    """Return the URL if it is a web address, because it becomes an argument of the browser's command line."""
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http") or not parts.hostname or not is_token(address):
        raise TunnelError("the response has no sign-in URL. Check that this is the address of gate")
    return address


def _reason(body: str) -> str:
    return " ".join(body.split())[:300]


class _LoopbackReceiver:
    """Receiver of the token; `state` distinguishes the expected request from those of other pages.

    Other users of this machine can see the browser's arguments, including `state`, and could sign in at that address as themselves. Then
    the user would continue with another account (login CSRF).
    """

    def __init__(self, uid: int) -> None:
        self._uid = uid
        self.state = secrets.token_urlsafe(24)
        self.token: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            token = self._parse_token(head.split(b"\r\n", 1)[0])
            status, body = (b"200 OK", _DONE) if token else (b"404 Not Found", _NOTHING)
            if token and self._uid != ROOT and owned_by_other_user(writer.get_extra_info("socket"), self._uid):
                token, status, body = "", b"403 Forbidden", _ANOTHER_USER
            headers = b"Content-Type: text/plain\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n"
            writer.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body))
            await writer.drain()
            if token and not self.token.done():
                self.token.set_result(token)
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # another client, or the browser has disconnected
        finally:
            writer.close()

    def _parse_token(self, line: bytes) -> str:
        """Return the token of the expected request, empty for any other."""
        method, _, rest = line.decode("latin-1").partition(" ")
        # Not urlsplit, which raises for malformed targets.
        query = parse_qs(rest.partition(" ")[0].partition("?")[2])
        states, tokens = query.get("state", []), query.get("gate_jwt", [])
        if method != "GET" or len(states) != 1 or len(tokens) != 1 or not hmac.compare_digest(states[0].encode(), self.state.encode()):
            return ""
        return tokens[0] if is_token(tokens[0]) else ""


_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = "01"
ROOT = 0


def owned_by_other_user(connection: Any, uid: int) -> bool:
    """Return whether the peer of `connection`, accepted over IPv4, belongs to another user; False if that is unknown.

    Root is accepted, because it may forward the browser's connection and needs no such attack.
    """
    owners = _owners(connection.getpeername(), connection.getsockname())
    return owners is not None and not owners & {ROOT, uid}


def _owners(here: tuple[str, int], there: tuple[str, int]) -> set[int] | None:
    """Yield the owners of the socket from `here` to `there` in all tables; a closed socket has no owner."""
    endpoints = {(_proc_address(*here, is_mapped), _proc_address(*there, is_mapped)) for is_mapped in (False, True)}
    owners, is_known = set(), False
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for row in table.read_text("ascii").splitlines()[1:]:
                is_known, columns = True, row.split()
                if (columns[1], columns[2]) in endpoints and columns[3] == _ESTABLISHED:
                    owners.add(int(columns[7]))
    return owners if is_known else None


def _proc_address(address: str, port: int, is_mapped: bool) -> str:
    """Format an address as in /proc: 32-bit words in host byte order; IPv6 sockets have mapped IPv4 addresses (RFC 4291 2.5.5.2)."""
    packed = (bytes(10) + b"\xff\xff" if is_mapped else b"") + socket.inet_aton(address)
    numbers = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return f"{''.join(f'{word:08X}' for word in numbers)}:{port:04X}"
