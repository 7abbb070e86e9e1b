"""Own sessions of a person, in words: where they are signed in, since when, and who acts by it."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import structlog
from asgiref.sync import sync_to_async
from django.db import Error

from authenticate.portal.programmatic_clients import list_clients
from authenticate.portal.user_agent import describe_user_agent
from authenticate.session.session_service import Sessions
from databroker.broker_client import BrokerClient
from databroker.projection.rows import LastSeen, last_seen_at
from databroker.records import ProgramRecord, SessionRecord

log = structlog.get_logger(__name__)

MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class UserSession:
    """Session as its person is told of it.  `last_seen_at` is None where nothing is known of it."""

    id: str
    browser: str
    address: str
    started_at: float
    expires_at: float
    last_seen_at: LastSeen | None
    is_current: bool
    clients: tuple[ProgramRecord, ...]


async def list_user_sessions(sessions: Sessions, broker: BrokerClient, this: SessionRecord, now: float) -> list[UserSession]:
    """Live sessions of the person of `this`, which comes first, then the newest.  BrokerError."""
    found = (await other_sessions(sessions, this, now))[: MAX_SHOWN - 1]
    seen = await _last_seen([each.id for each in found])
    programs = await asyncio.gather(*(list_clients(broker, each.id) for each in (this, *found)))
    return [
        UserSession(
            id=each.id,
            browser=describe_user_agent(each.user_agent),
            address=each.client_address,
            started_at=each.issued,
            expires_at=each.expires,
            last_seen_at=seen.get(each.id),
            is_current=each is this,
            clients=tuple(let_in),
        )
        for each, let_in in zip((this, *found), programs, strict=True)
    ]


async def other_sessions(sessions: Sessions, this: SessionRecord, now: float) -> list[SessionRecord]:
    """Live sessions of the same person in other browsers, the newest first: what this one grew out of is this browser's."""
    found = [each for each in await sessions.of_person(this, now) if each.id != this.id]
    ages = {each.id: (each.issued, each.id) for each in found}
    # Sessions of two tabs name each other: the newer stands for both.
    of_others = {id for each in found for id in each.superseded_ids if id in ages and ages[id] < ages[each.id]}
    return sorted((each for each in found if each.id not in {*this.superseded_ids, *of_others}), key=lambda each: -each.issued)


async def _last_seen(ids: Iterable[str]) -> dict[str, LastSeen]:
    """Nothing where the database is away: the list is of use without."""
    try:
        return await sync_to_async(last_seen_at)(list(ids))
    except Error as error:
        log.warning("loading session activity failed", reason=str(error).partition("\n")[0])
        return {}
