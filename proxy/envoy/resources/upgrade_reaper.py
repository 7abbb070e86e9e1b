"""Closes connections after upgrades and early responses, which Envoy (1.40) would keep open for two more seconds.

Envoy delays the close after each response that precedes the end of its request, so that a client that is still sending receives it.
The request of an upgraded connection never ends, and its client waits for the server to close first (RFC 6455 7.1.1).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from foundation.tasks import spawn
from proxy.envoy.resources.bootstrap import Json, file_log
from proxy.envoy.resources.internal_headers import AUTHORIZED, Address, parse_address

LOG_UPGRADE = "upgraded "
# Envoy's `delayed_close_timeout`.
DELAYED_CLOSE_SECONDS = 2.0
# By then Envoy has sent the last bytes. A check costs Envoy some microseconds per open connection.
_EVERY = 0.05  # seconds
_MAX_CPU_SHARE = 0.05


class UpgradeReaper:
    """Connections to close. `shut_down` closes connections, and returns those whose clients have not received all data yet."""

    def __init__(self, shut_down: Callable[[Iterable[Address]], Awaitable[set[Address]]]):
        self._shut_down_connections = shut_down
        self._closing: dict[Address, float] = {}  # with the time until which Envoy keeps it

    def __repr__(self) -> str:
        return f"<UpgradeReaper {len(self._closing)}>"

    def handle_line(self, line: str) -> None:
        """Handle an access log line. HTTP/2 connections are ignored, because they have other requests."""
        client, _, protocol = line.partition(" ")
        if protocol == "HTTP/1.1" and (peer := parse_address(client)) is not None:
            if not self._closing:
                spawn(self._run(), name="upgrade reaper")
            self._closing[peer] = asyncio.get_running_loop().time() + DELAYED_CLOSE_SECONDS

    async def _run(self) -> None:
        loop, elapsed = asyncio.get_running_loop(), 0.0
        try:
            while self._closing:
                await asyncio.sleep(max(_EVERY, elapsed / _MAX_CPU_SHARE))
                closing, started_at = dict(self._closing), loop.time()
                undelivered = await self._shut_down_connections(closing)
                elapsed = loop.time() - started_at
                for peer, expires_at in closing.items():
                    if self._closing.get(peer) == expires_at and (peer not in undelivered or expires_at < loop.time()):
                        del self._closing[peer]
        finally:
            self._closing.clear()


def access_log(path: str) -> Json:
    """Return the access log of upgrades, tunnels and responses that gate's internal listener has ended."""
    switched: Json = {"status_code_filter": {"comparison": {"op": "EQ", "value": {"default_value": 101, "runtime_key": "gate.switched"}}}}
    connected: Json = {"header_filter": {"header": {"name": ":method", "string_match": {"exact": "CONNECT"}}}}
    authorized: Json = {"header_filter": {"header": {"name": AUTHORIZED, "present_match": True}}}
    closed_by_gate: Json = {"response_flag_filter": {"flags": ["UC"]}}
    condition = {"and_filter": {"filters": [closed_by_gate, {"or_filter": {"filters": [switched, connected, authorized]}}]}}
    return file_log(path, f"{LOG_UPGRADE}%DOWNSTREAM_DIRECT_REMOTE_ADDRESS% %PROTOCOL%\n", condition)
