"""Ended upgrades and answers: connections that Envoy (1.40) would keep for two seconds more, until their clients have closed them.

It does so after every answer that came before the end of its request, so that a client that still sends gets the answer; an upgraded
connection has no end of its request, and whoever is there waits for it (RFC 6455 7.1.1: the server closes first).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from foundation.tasks import spawn
from proxy.envoy.resources.bootstrap import Json, file_log
from proxy.envoy.resources.internal_headers import JUDGED, Address, address_of

OF_UPGRADES = "upgraded "
# As long Envoy keeps a connection: `delayed_close_timeout`.
KEPT_SECONDS = 2.0
# By then Envoy has written what came last; a look costs Envoy some microseconds for each connection that it has.
_EVERY = 0.05  # seconds
_PART_OF_TIME = 0.05


class EndedUpgrades:
    """Upgrades that gate has ended.  `finish` ends connections, and returns those whose clients have not received everything yet."""

    def __init__(self, finish: Callable[[Iterable[Address]], Awaitable[set[Address]]]):
        self._finish_connections = finish
        self._ended: dict[Address, float] = {}  # and until when Envoy keeps it

    def __repr__(self) -> str:
        return f"<EndedUpgrades {len(self._ended)}>"

    def tell(self, line: str) -> None:
        """Tell of one, by a line of Envoy's access log.  A connection of HTTP/2 has other requests."""
        client, _, protocol = line.partition(" ")
        if protocol == "HTTP/1.1" and (peer := address_of(client)) is not None:
            if not self._ended:
                spawn(self._finish(), name="ends of upgrades")
            self._ended[peer] = asyncio.get_running_loop().time() + KEPT_SECONDS

    async def _finish(self) -> None:
        loop, took = asyncio.get_running_loop(), 0.0
        try:
            while self._ended:
                await asyncio.sleep(max(_EVERY, took / _PART_OF_TIME))
                asked, began = dict(self._ended), loop.time()
                left = await self._finish_connections(asked)
                took = loop.time() - began
                for peer, kept in asked.items():
                    if self._ended.get(peer) == kept and (peer not in left or kept < loop.time()):
                        del self._ended[peer]
        finally:
            self._ended.clear()


def access_log(path: str) -> Json:
    """Log of upgrades, tunnels and answers of gate's internal listener that gate has ended."""
    switched: Json = {"status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 101, "runtime_key": "gate.switched"}}}}
    connected: Json = {"header_filter": {"header": {"name": ":method", "string_match": {"exact": "CONNECT"}}}}
    answered: Json = {"header_filter": {"header": {"name": JUDGED, "present_match": True}}}
    by_gate: Json = {"response_flag_filter": {"flags": ["UC"]}}
    ended = {"and_filter": {"filters": [by_gate, {"or_filter": {"filters": [switched, connected, answered]}}]}}
    return file_log(path, f"{OF_UPGRADES}%DOWNSTREAM_DIRECT_REMOTE_ADDRESS% %PROTOCOL%\n", ended)
