"""Client's end of a tunnel behind Envoy: what is broken off must not look as if all had been said.

Envoy (1.40) ends a tunnel properly, TLS included, however its connection to gate ends.  So where gate would reset the client's connection,
it has Envoy's reset first, and ends its own after that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from foundation.tasks import spawn
from proxy.envoy.resources.internal_headers import Address
from proxy.forwarding.tunnel import TunnelConnection

# Resets the connections of clients, and returns how many there were.
Cut = Callable[[list[Address]], Awaitable[int]]


class EnvoyTunnelEnd:
    """Connection of a tunnel, whose `client` is connected to Envoy."""

    def __init__(self, end: TunnelConnection, client: Address, cut: Cut):
        self._end, self._client, self._cut = end, client, cut
        self._reset: asyncio.Task[None] | None = None

    def write(self, data: bytes) -> None:
        self._end.write(data)

    def pause_reading(self) -> None:
        self._end.pause_reading()

    def resume_reading(self) -> None:
        self._end.resume_reading()

    def write_eof(self) -> None:
        self._end.write_eof()

    def get_extra_info(self, name: str) -> Any:
        return self._end.get_extra_info(name)

    def close(self) -> None:
        if self._reset is None:
            self._end.close()

    def abort(self) -> None:
        if self._reset is None:
            self._reset = spawn(self._break_off(), name="reset of a tunnel")

    async def settled(self) -> None:
        """Wait for a reset that is under way."""
        if self._reset is not None:
            await asyncio.wait([self._reset])

    async def _break_off(self) -> None:
        try:
            await self._cut([self._client])
        finally:
            self._end.abort()
