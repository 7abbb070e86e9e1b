"""The data plane over real services and a raw upstream, driven by ASGI messages."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from authorize.decision_log.decision_log import DecisionLog, DecisionLogEntry
from authorize.service import AuthorizeService
from config.options import Options
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from proxy.planes.embedded import EmbeddedDataPlane
from proxy.planes.open_streams import OpenStreams
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from tests.support.asgi import Answer, chunked_receive, incoming_from
from tests.support.options import make_options
from tests.support.upstream import RawUpstream


@dataclass
class Proxied:
    """Data plane under test: `ask` sends one request; `canary.requests` contains those that reached the upstream."""

    canary: RawUpstream
    broker: MemoryStore
    options: Options
    plane: EmbeddedDataPlane
    streams: OpenStreams
    seen: list[tuple[str, float, str]]
    decisions: DecisionLog
    entries: list[DecisionLogEntry]

    async def send(self, url: str, *body: bytes, **scope: Any) -> Answer:
        answer = Answer()
        await self.plane(incoming_from(url, **scope), chunked_receive(*body), answer.send)
        return answer


@asynccontextmanager
async def proxied(directory: Path, *routes: dict[str, Any], canary: RawUpstream | None = None, **settings: Any) -> AsyncIterator[Proxied]:
    """Build a data plane for these routes. `to` defaults to the raw upstream, `from` to https://app.example.com."""
    async with canary or RawUpstream() as upstream:
        policy = [{"from": "https://app.example.com", **({} if "redirect" in route else {"to": upstream.url}), **route} for route in routes]
        options = make_options(directory, insecure_server=True, policy=policy, **settings)
        broker = MemoryStore()
        authorize = AuthorizeService(options, Replica(broker), SigningKey.from_options(options))
        seen: list[tuple[str, float, str]] = []
        recorded: list[DecisionLogEntry] = []
        decisions = DecisionLog(lambda entries: recorded.extend(entry for entry, _ in entries), chance=lambda: 1.0)
        decisions.configure(options, "c0ffee")
        resources = SharedResources(on_session_activity=lambda *activity: seen.append(activity), decision_log=decisions, broker=broker)
        try:
            plane = EmbeddedDataPlane(options, AuthorizationPipeline(options, authorize, resources), resources)
            yield Proxied(upstream, broker, options, plane, resources.streams, seen, decisions, recorded)
        finally:
            await resources.upstream_client.close()
