"""Transport of a tunnel behind Envoy that passes on resets.

Envoy (1.40) closes the client's connection cleanly, TLS included, even if its connection to gate is reset. A client could not detect
truncated data, so gate resets the client's connection to Envoy first, and then aborts its own.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from foundation.tasks import spawn
from proxy.envoy.resources.internal_headers import Address
from proxy.forwarding.tunnel import TunnelConnection

# Resets the connections of these clients; returns how many were open.
ResetConnections = Callable[[list[Address]], Awaitable[int]]


class EnvoyTunnelTransport:
    """Transport of a tunnel; `client` is the address of the client's connection to Envoy."""

    def __init__(self, transport: TunnelConnection, client: Address, reset_connections: ResetConnections):
        self._transport, self._client, self._reset_connections = transport, client, reset_connections
        self._reset_task: asyncio.Task[None] | None = None

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def write_eof(self) -> None:
        self._transport.write_eof()

    def get_extra_info(self, name: str) -> Any:
        return self._transport.get_extra_info(name)

    def close(self) -> None:
        if self._reset_task is None:
            self._transport.close()

    def abort(self) -> None:
        if self._reset_task is None:
            self._reset_task = spawn(self._reset_and_abort(), name="reset of a tunnel")

    async def wait_reset(self) -> None:
        """Wait for a reset in progress."""
        if self._reset_task is not None:
            await asyncio.wait([self._reset_task])

    async def _reset_and_abort(self) -> None:
        try:
            await self._reset_connections([self._client])
        finally:
            self._transport.abort()
