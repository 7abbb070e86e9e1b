"""A judge with a keeper of grants, and no Envoy: what it would ask is said by hand, and what it may carry without asking is looked at."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from authorize.service import AuthorizeService
from databroker.client import LocalBroker
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from proxy.envoy.carried.carried_requests import CarriedRequests
from proxy.envoy.grants.access_log import GrantAccessLog
from proxy.envoy.grants.eligibility import key_of
from proxy.envoy.grants.keeper import GrantKeeper
from proxy.envoy.grants.table import HEAD, GrantTable
from proxy.envoy.head import EnvoyRequestHead
from proxy.envoy.judge import Judge
from proxy.planes.forwarding_resources import ForwardingResources
from proxy.service import ProxyService
from tests.support.options import make_options
from tests.support.signed_in import SignedIn, sign_in
from tests.unit.proxy.envoy.conftest import asked
from tests.unit.proxy.envoy.stage import MARK, TOKEN, NoConnections

TO = {"to": "http://127.0.0.1:9"}
ANYBODY = {**TO, "allow_any_authenticated_user": True}
ROUTES: list[dict[str, Any]] = [{"from": "https://app.example.com", **ANYBODY, "pass_identity_headers": True}]
SENT = (("user-agent", "a"),)


class Keeping:
    def __init__(
        self, service: ProxyService, replica: Replica, broker: LocalBroker, ann: SignedIn, resources: ForwardingResources, slots: int
    ):
        self.service, self.replica, self.broker, self.ann = service, replica, broker, ann
        self.table, self.connections, self.saw = GrantTable(slots, 1), NoConnections(), list[str]()
        self._cookies: dict[str, str] = {}
        self.streams = resources.streams
        self.access_log = GrantAccessLog(lambda: self.service, 2 * slots)

        def saw(session_id: str, now: float, host: str) -> None:
            self.saw.append(session_id)

        self.keeper = GrantKeeper(self.table, self.connections, lambda: self.service, self.streams, replica, saw, self.access_log)
        self.carried = CarriedRequests(self.connections, lambda: 0.0)
        self.judge = Judge(lambda: self.service, self.carried, lambda upstream, route: "upstream-1", TOKEN, MARK, "https", self.keeper)

    def message(
        self, path: str = "/", *headers: tuple[str, str], cookie: str | None = None, host: str = "app.example.com", **how: Any
    ) -> Any:
        own = self._cookies.setdefault(host, self.ann.cookie(host)) if cookie is None else cookie
        return asked(path, *SENT, *headers, *([("cookie", own)] if own else []), host=host, server_name=host, **how)

    async def ask(self, path: str = "/", *headers: tuple[str, str], **how: Any) -> dict[str, str] | None:
        """The headers of the grant that follows; None where none does, or is none any more."""
        head = EnvoyRequestHead.of(self.message(path, *headers, **how))
        await self.judge.judged(self.message(path, *headers, **how))
        self.carried.end_all()
        return self.granted(head)

    def granted(self, head: EnvoyRequestHead) -> dict[str, str] | None:
        key = key_of(self.service, head)
        given = None if key is None else next((each for each in self.keeper._given.values() if self.table.key(each.slot) == key), None)
        if given is None or key is None:
            return None
        start = self.table._at(given.slot.position)
        at = start + HEAD + len(key)
        end = at + struct.unpack_from("=H", self.table._memory, start + 18)[0]
        found = {}
        while at < end:
            name, value = struct.unpack_from("=HH", self.table._memory, at)
            middle, at = at + 4 + name, at + 4 + name + value
            found[self.table._memory[middle - name : middle].decode()] = self.table._memory[middle:at].decode()
        return found


@asynccontextmanager
async def keeping(directory: Path, slots: int = 8, routes: list[dict[str, Any]] = ROUTES, **settings: Any) -> AsyncIterator[Keeping]:
    options = make_options(directory, **{"policy": routes, "data_plane": "envoy", "jwt_claims_headers": ["email"], **settings})
    broker = LocalBroker(MemoryStore())
    replica = Replica(broker, shortest_silence=60.0)  # a machine may stand still for longer than the three seconds of a gate
    authorize = AuthorizeService(options, replica, SigningKey.from_options(options))
    resources = ForwardingResources()
    service = ProxyService(options, authorize, resources, time.time)
    made = Keeping(service, replica, broker, await sign_in(broker, options), resources, slots)
    replica.on_change(resources.streams.on_change)
    following = asyncio.ensure_future(replica.run())
    async with asyncio.timeout(5):
        while not replica.is_following:
            await asyncio.sleep(0.01)
    made.keeper.start()
    try:
        yield made
    finally:
        made.keeper.stop()
        following.cancel()
        await asyncio.sleep(0)
        made.table.close()


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Keeping]:
    async with keeping(tmp_path) as made:
        yield made
