"""API of temporary access: who has it, and its end before its time."""

from collections.abc import AsyncIterator

from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import no_such
from authenticate.api.api_types import ApiAnswer, PageQuery, PlainText, Told, told
from authenticate.api.cursors import cursor_at, keys_in
from databroker.grants.grant_records import TemporaryAccess, TemporaryAccessRecord
from databroker.grants.grant_store import TemporaryAccesses

LIST = "grants"
ID = r"[A-Za-z0-9_-]{1,64}"

Held = tuple[TemporaryAccessRecord, TemporaryAccess]


class GrantQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")


class GivenAccess(ApiAnswer):
    """Access of a person to one route, which ends by itself."""

    id: str
    user_id: str
    person: str
    route: str
    since: Told
    until: Told
    by: str
    why: str
    is_expired: bool = Field(description="Whether it expired: the list has such grants for a day.")


class GrantList(ApiAnswer):
    items: list[GivenAccess]
    next: str | None


@operation("GET", "grants", "grants:read", "Temporary access grants", query=GrantQuery)
async def list_grants(call: ApiCall) -> GrantList:
    query: GrantQuery = call.query
    after = keys_in(LIST, query.cursor, 2)
    found: list[Held] = []
    for expired in (False, True):
        async for held in _held(call, expired=expired):
            place = held[0].user_id, held[1].id
            if (after is None or place > after) and query.user_id in (None, held[0].user_id):
                found.append(held)
    page = sorted(found, key=lambda held: (held[0].user_id, held[1].id))[: query.limit]
    more = len(found) > len(page)
    return GrantList(
        items=[_shown(call, held) for held in page], next=cursor_at(LIST, page[-1][0].user_id, page[-1][1].id) if more else None
    )


@operation("DELETE", "grants/{id}", "grants:revoke", "Revoke a temporary access grant", id_pattern=ID, problems=(404, 409))
async def revoke_grant(call: ApiCall) -> None:
    async for held, access in _held(call):
        if access.id == call.id:
            return await call.gate.desk.revoke_as_administrator(call.program.id, held.user_id, access.id, call.audit)
    raise no_such("grant")


def _held(call: ApiCall, *, expired: bool = False) -> AsyncIterator[Held]:
    return TemporaryAccesses(call.gate.broker, call.gate.clock).list(expired=expired)


def _shown(call: ApiCall, each: Held) -> GivenAccess:
    held, access = each
    return GivenAccess(
        id=access.id,
        user_id=held.user_id,
        person=held.person,
        route=access.route_name or access.route,
        since=told(access.since),
        until=told(access.until),
        by=access.by,
        why=access.why,
        is_expired=access.is_expired(call.gate.clock()),
    )
