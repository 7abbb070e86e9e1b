"""When is a response complete?  Decided by what gate does for other clients, so that a busy machine changes nothing."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable

BEATS = 3
_ENOUGH = 0.01  # seconds for what has arrived already


class Others:
    """`ask` carries out one request that has nothing to do with the attack, and raises where it fails."""

    def __init__(self, ask: Callable[[], Awaitable[None]]):
        self._ask = ask
        self._running: asyncio.Task[None] | None = None

    async def are_served(self) -> None:
        """Returns once a few of their requests were answered that were begun after this call; many callers share them."""
        for _ in range(BEATS):
            running = self._running
            if running is not None and not running.done():
                await asyncio.wait([running])
            if self._running is running:
                self._running = asyncio.ensure_future(self._ask())
            assert self._running is not None
            await asyncio.shield(self._running)


async def read_all(reader: asyncio.StreamReader, wait: float, quiet: float | None, others: Others) -> tuple[bytes, bool]:
    """Received bytes, and whether the connection ended.  `quiet`: seconds of silence that suffice while other clients are served."""
    loop = asyncio.get_running_loop()
    received, end, were_served = bytearray(), loop.time() + wait, False
    while (left := end - loop.time()) > 0:
        patience = left if quiet is None else min(left, _ENOUGH if were_served else quiet)
        try:
            data = await asyncio.wait_for(reader.read(1 << 20), patience)
        except TimeoutError:
            if quiet is None or were_served:
                break
            await others.are_served()
            were_served = True
            continue
        except (ConnectionError, ssl.SSLError):
            return bytes(received), True
        if not data:
            return bytes(received), True
        received += data
        were_served = False
    return bytes(received), False
