"""Connections of clients to Envoy: gate asks which are open, has those reset whose access has ended, and ends those that wait (cut.lua)."""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import httpx
import structlog

from foundation.backoff import pauses
from foundation.values import ip_of
from proxy.envoy.resources.bootstrap import TYPE, Json
from proxy.envoy.resources.scripts import LUA, quoted_bytes, script

log = structlog.get_logger(__name__)

Peer = tuple[str, int]  # address and port

_PATIENCE = 5.0  # seconds for one answer
FIRST_WAIT, LONGEST_WAIT = 0.02, 0.5  # seconds before it is asked again
_RECORD = 18  # bytes
_SCRIPT = Path(__file__).with_name("cut.lua")
_NOTHING: Json = {"match": {"prefix": "/"}, "direct_response": {"status": 404}}


class Connections:
    """Connections of our Envoy, by its socket for that."""

    def __init__(self, path: Path):
        self._path = path

    async def cut(self, peers: Iterable[Peer]) -> int:
        """Reset the connections of these that are open, and return how many; tries until Envoy has answered, or is gone."""
        return len(await self._asked("cut", peers))

    async def live(self, peers: Iterable[Peer]) -> set[Peer]:
        """Those of these that are open."""
        return await self._asked("live", peers)

    async def finish(self, peers: Iterable[Peer]) -> set[Peer]:
        """End the connections of these that Envoy only keeps until their clients have closed them; those whose clients have not taken
        everything yet, of which none may be lost."""
        return await self._asked("finish", peers)

    async def _asked(self, what: str, peers: Iterable[Peer]) -> set[Peer]:
        by_record = {record_of(peer): peer for peer in peers}
        body = b"".join(by_record)
        for pause in pauses(FIRST_WAIT, LONGEST_WAIT):
            try:
                async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(self._path)), timeout=_PATIENCE) as client:
                    answer = await client.post(f"http://envoy/{what}", content=body)
                if answer.status_code == 200:
                    found = answer.content
                    return {by_record[found[at : at + _RECORD]] for at in range(0, len(found), _RECORD)}
                log.error("envoy does not cut connections", status=answer.status_code)
            except httpx.ConnectError:
                return set()  # who is gone carries nothing
            except httpx.TransportError as error:
                log.warning("envoy is asked again to cut connections", reason=type(error).__name__)
            await asyncio.sleep(pause)
        raise RuntimeError("pauses end")


def record_of(peer: Peer) -> bytes:
    """An address as IPv6 and a port, in the order of the network."""
    address, port = peer
    found = ip_of(address.strip("[]"))
    if found is None:
        raise ValueError(f"{address} is no address")
    packed = found.packed if found.version == 6 else b"\0" * 10 + b"\xff\xff" + found.packed
    return packed + port.to_bytes(2, "big")


def cut_listener(path: Path, port: int) -> Json:
    """Listener by which gate has connections cut: a socket that only this user reaches.  `port` is that which clients reach."""
    source = script(_SCRIPT, {"PORT": quoted_bytes(port.to_bytes(2, "big"))})
    manager: Json = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "cuts",
        "http_filters": [
            {"name": "cuts", "typed_config": {"@type": LUA, "default_source_code": {"inline_string": source}}},
            {"name": "envoy.filters.http.router", "typed_config": {"@type": f"{TYPE}extensions.filters.http.router.v3.Router"}},
        ],
        "route_config": {"virtual_hosts": [{"name": "cuts", "domains": ["*"], "routes": [_NOTHING]}]},
    }
    return {
        "name": "cuts",
        "address": {"pipe": {"path": str(path), "mode": 0o600}},
        "ignore_global_conn_limit": True,
        "bypass_overload_manager": True,
        "per_connection_buffer_limit_bytes": 4 * 1024 * 1024,
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }
