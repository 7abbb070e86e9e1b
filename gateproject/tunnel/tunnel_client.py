"""Tunnel client: forwards local connections, each through a separate tunnel, with one sign-in for all."""

import asyncio
import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from foundation.tasks import spawn
from foundation.values import Url
from gateproject.tunnel.tls_connection import TlsConnection, TunnelError, send_request
from gateproject.tunnel.token_file import TokenFile
from proxy.forwarding.tunnel import CONNECTING, ByteTunnel

SignIn = Callable[[], Awaitable[str]]


class SignInRequired(TunnelError):
    """gate requires a session: there was none, or it has ended."""


@dataclass
class TunnelClient:
    """Client of one destination, host:port as in the route. `sign_in` returns a token from the user; None disables sign-in."""

    destination: str
    url: Url
    context: ssl.SSLContext
    tokens: TokenFile
    sign_in: SignIn | None
    report: Callable[[str], None]
    token: str = ""
    _signing_in: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def open(self) -> tuple[TlsConnection, bytes]:
        """Return the tunnel, and the data already received. Raise TunnelError."""
        used = self.token or self.tokens.read()
        try:
            return await self._connect(used)
        except SignInRequired:
            if (sign_in := self.sign_in) is None:
                raise
        return await self._connect(await self._reauthenticate(used, sign_in))

    async def _connect(self, token: str) -> tuple[TlsConnection, bytes]:
        answer, connection = await send_request(self.url, self.context, "CONNECT", self.destination, self.destination, token)
        if answer.status == 200:
            return connection, answer.rest
        kind = SignInRequired if answer.status == 401 else TunnelError
        raise kind(f"refused: {' '.join(answer.body.split()) or answer.status}")

    async def _reauthenticate(self, refused: str, sign_in: SignIn) -> str:
        """Return the token of a new sign-in, or of one that another connection has started."""
        async with self._signing_in:
            if (token := self.tokens.read()) and token != refused:
                return token
            self.tokens.forget(refused)
            token = await sign_in()
            self.tokens.write(token)
            return token

    async def relay(self, tunnel: ByteTunnel) -> None:
        """Relay a local connection (`tunnel.client`) until both directions have ended. Raise TunnelError."""
        try:
            connection, ahead = await self.open()
        except BaseException:
            tunnel.client.connection.abort()
            raise
        tunnel.upstream.connection, connection.protocol = connection, tunnel.upstream
        try:
            tunnel.start(b"", ahead, None)
            tunnel.client.resume(CONNECTING)
            await tunnel.closed
        finally:
            tunnel.stop()

    def accept(self) -> asyncio.Protocol:
        """Return the protocol of one connection, for a local listener."""
        tunnel = ByteTunnel(half_closes=True)
        spawn(self._relay_accepted(tunnel), name="tunnel")
        return tunnel.client

    async def _relay_accepted(self, tunnel: ByteTunnel) -> None:
        await asyncio.sleep(0)  # asyncio calls connection_made first
        try:
            await self.relay(tunnel)
        except TunnelError as error:
            self.report(str(error))

    async def relay_standard_streams(self) -> None:
        """Relay standard input and output, for a program that starts this command as its connection."""
        tunnel_end, program_end = socket.socketpair()
        tunnel = ByteTunnel(half_closes=True)
        threading.Thread(target=_copy, args=(lambda: os.read(0, 65536), program_end.sendall, program_end), daemon=True).start()
        done = threading.Thread(target=_copy, args=(lambda: program_end.recv(65536), _write_all, None), daemon=True)
        done.start()
        await asyncio.get_running_loop().connect_accepted_socket(lambda: tunnel.client, tunnel_end)
        await self.relay(tunnel)
        await asyncio.to_thread(done.join, 5)


def _copy(read: Callable[[], bytes], write: Callable[[bytes], Any], finished: socket.socket | None) -> None:
    try:
        while data := read():
            write(data)
        if finished is not None:
            finished.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]
