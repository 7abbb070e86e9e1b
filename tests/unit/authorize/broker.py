"""A broker whose replica follows it, as in the running product, for tests that need records."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from databroker.records import (
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    SESSION,
    USER,
    DirectoryGroup,
    DirectoryUser,
    Record,
    SessionRecord,
    UserRecord,
)
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from foundation.tasks import spawn
from tests.support.options import MINIMAL

ISSUER = MINIMAL["idp_provider_url"]


class BreakableBroker(MemoryStore):
    """`is_down` makes each call fail; `reads` counts those that came through; while `holds_back` is set, answers wait for it."""

    is_down = False
    reads = 0
    holds_back: asyncio.Event | None = None

    async def get(self, type: str, id: str) -> Record | None:
        if self.is_down:
            raise BrokerError("the data broker is down")
        self.reads += 1
        record = await super().get(type, id)
        if self.holds_back is not None:
            await self.holds_back.wait()
        return record

    async def sign_in(
        self, session_id: str = "s1", user_id: str = "oidc/1", *, claims: Mapping[str, Any] | None = None, **user: Any
    ) -> None:
        provider, _, subject = user_id.partition("/")
        issuer = user.pop("issuer", ISSUER)
        session = SessionRecord(session_id, user_id, subject, provider, 1000.0, 2000.0, claims or {}, issuer=issuer)
        await self.put(SESSION, session_id, session.to_data())
        await self.put(USER, user_id, UserRecord(user_id, **{"email": "ann@corp.com", "name": "Ann", "issuer": issuer, **user}).to_data())

    async def join(self, user_id: str, *group_ids: str) -> None:
        await self.put(DIRECTORY_USER, user_id, DirectoryUser(user_id, group_ids=group_ids).to_data())

    async def add_group(self, id: str, name: str = "", email: str = "") -> None:
        await self.put(DIRECTORY_GROUP, id, DirectoryGroup(id, name, email).to_data())


@asynccontextmanager
async def followed_broker() -> AsyncIterator[tuple[BreakableBroker, Replica]]:
    broker = BreakableBroker()
    replica = Replica(broker, clock=lambda: 1500.0)
    following = spawn(replica.run(), name="replica of a test")
    try:
        await settled()
        yield broker, replica
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def settled() -> None:
    """Long enough for each change that was made to reach the replica: it is a few turns of the loop away."""
    for _ in range(20):
        await asyncio.sleep(0)
