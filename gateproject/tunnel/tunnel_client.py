"""Tunnel client: forwards local connections, each through a separate tunnel, with one sign-in for all."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foundation.single_flight import SingleFlight
from foundation.tasks import spawn
from gateproject.tunnel.access_tokens import AccessTokens
from gateproject.tunnel.oauth_client import GateAddress, printable
from gateproject.tunnel.tls_connection import TlsConnection, TunnelError, send_request
from proxy.forwarding.tunnel import CONNECTING, ByteTunnel


class SignInRequired(TunnelError):
    """gate requires a session: there was none, or it has ended."""


@dataclass
class TunnelClient:
    """Client of one destination, host:port as in the route. `tokens` is the source of its tokens, or one token that is not replaced."""

    destination: str
    gate: GateAddress
    tokens: AccessTokens | str
    report: Callable[[str], None]
    _sign_ins: SingleFlight[str, str] = field(default_factory=lambda: SingleFlight("sign-in"))

    async def open(self) -> tuple[TlsConnection, bytes]:
        """Return the tunnel, and the data already received. Raise TunnelError."""
        if isinstance(tokens := self.tokens, str):
            return await self._connect(f"Gate {tokens}")
        used = await tokens.find()
        try:
            return await self._connect(f"Bearer {used}" if used else "")
        except SignInRequired:
            # Connections at the same time share a sign-in, and its error.
            token = await self._sign_ins.run(used, lambda: tokens.replace(used))
        return await self._connect(f"Bearer {token}")

    async def _connect(self, authorization: str) -> tuple[TlsConnection, bytes]:
        headers = {"Host": self.destination, "Accept": "text/plain", **({"Authorization": authorization} if authorization else {})}
        answer, connection = await send_request(self.gate.url, self.gate.context, "CONNECT", self.destination, headers)
        if answer.status == 200:
            return connection, answer.rest
        kind = SignInRequired if answer.status == 401 else TunnelError
        raise kind(f"refused: {printable(answer.body) or answer.status}")

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
