"""Sessions of a user for display: browser, address, times, and authorized client applications."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import structlog
from asgiref.sync import sync_to_async
from django.db import Error

from authenticate.portal.programmatic_clients import list_clients
from authenticate.portal.user_agent import describe_user_agent
from authenticate.session.session_service import SessionService
from databroker.agent_records import AgentAuthorization
from databroker.broker_client import BrokerClient
from databroker.projection.rows import LastSeen, load_last_seen
from databroker.records import ProgrammaticClient, SessionRecord

log = structlog.get_logger(__name__)

MAX_LISTED = 100


@dataclass(frozen=True, slots=True)
class UserSession:
    """Session for display.  `last_seen_at` is None if there was no activity yet or the database is unavailable."""

    id: str
    browser: str
    address: str
    started_at: float
    expires_at: float
    last_seen_at: LastSeen | None
    is_current: bool
    clients: tuple[ProgrammaticClient, ...]
    agent: AgentAuthorization | None = None


async def list_user_sessions(sessions: SessionService, broker: BrokerClient, this: SessionRecord, now: float) -> list[UserSession]:
    """Return the live sessions of this user: `this` first, then the newest.  Raises BrokerError."""
    found = (await other_sessions(sessions, this, now))[: MAX_LISTED - 1]
    seen = await _last_seen([each.id for each in found])
    clients = await asyncio.gather(*(list_clients(broker, each.id) for each in (this, *found)))
    return [
        UserSession(
            id=each.id,
            browser=describe_user_agent(each.user_agent),
            address=each.client_address,
            started_at=each.issued_at,
            expires_at=each.expires_at,
            last_seen_at=seen.get(each.id),
            is_current=each is this,
            clients=tuple(clients_of_session),
            agent=each.agent,
        )
        for each, clients_of_session in zip((this, *found), clients, strict=True)
    ]


async def other_sessions(sessions: SessionService, this: SessionRecord, now: float) -> list[SessionRecord]:
    """Return live sessions of the same user in other browsers, newest first.  Of linked sessions, only the newest is included."""
    found = [each for each in await sessions.list_for_same_user(this, now) if each.id != this.id]
    ages = {each.id: (each.issued_at, each.id) for each in found}
    # Sessions of two tabs are linked in both directions; the newer represents both.
    of_others = {id for each in found for id in each.linked_session_ids if id in ages and ages[id] < ages[each.id]}
    return sorted((each for each in found if each.id not in {*this.linked_session_ids, *of_others}), key=lambda each: -each.issued_at)


async def _last_seen(ids: Iterable[str]) -> dict[str, LastSeen]:
    """Return last activity by session id, or nothing if the database is unavailable, because the list is useful without."""
    try:
        return await sync_to_async(load_last_seen)(list(ids))
    except Error as error:
        log.warning("loading session activity failed", reason=str(error).partition("\n")[0])
        return {}
