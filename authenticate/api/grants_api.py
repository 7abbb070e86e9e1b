"""API of temporary access: who has it, and its end before its time."""

from collections.abc import AsyncIterator

from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import not_found
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from databroker.grants.grant_records import TemporaryAccess, TemporaryAccessRecord
from databroker.grants.grant_store import TemporaryAccesses

LIST = "grants"
ID = r"[A-Za-z0-9_-]{1,64}"

Held = tuple[TemporaryAccessRecord, TemporaryAccess]


class GrantQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")


class GrantResource(ResponseModel):
    """Access of a person to one route, which ends by itself."""

    id: str
    user_id: str
    person: str
    route: str
    since: Timestamp
    until: Timestamp
    by: str
    why: str
    is_expired: bool = Field(description="Whether it expired: the list has such grants for a day.")


class GrantList(ResponseModel):
    items: list[GrantResource]
    next: str | None


@operation("GET", "grants", "grants:read", "Temporary access grants", query=GrantQuery)
async def list_grants(call: ApiCall) -> GrantList:
    query: GrantQuery = call.query
    after = decode_cursor(LIST, query.cursor, 2)
    found: list[Held] = []
    for expired in (False, True):
        async for held in _held(call, expired=expired):
            place = held[0].user_id, held[1].id
            if (after is None or place > after) and query.user_id in (None, held[0].user_id):
                found.append(held)
    page = sorted(found, key=lambda held: (held[0].user_id, held[1].id))[: query.limit]
    more = len(found) > len(page)
    return GrantList(
        items=[_shown(call, held) for held in page], next=encode_cursor(LIST, page[-1][0].user_id, page[-1][1].id) if more else None
    )


@operation("DELETE", "grants/{id}", "grants:revoke", "Revoke a temporary access grant", id_pattern=ID, problems=(404, 409))
async def revoke_grant(call: ApiCall) -> None:
    async for held, access in _held(call):
        if access.id == call.id:
            return await call.context.desk.revoke_as_administrator(call.principal.id, held.user_id, access.id, call.audit)
    raise not_found("grant")


def _held(call: ApiCall, *, expired: bool = False) -> AsyncIterator[Held]:
    return TemporaryAccesses(call.context.broker, call.context.clock).list(expired=expired)


def _shown(call: ApiCall, each: Held) -> GrantResource:
    held, access = each
    return GrantResource(
        id=access.id,
        user_id=held.user_id,
        person=held.person,
        route=access.route_name or access.route,
        since=to_rfc3339(access.since),
        until=to_rfc3339(access.until),
        by=access.by,
        why=access.why,
        is_expired=access.is_expired(call.context.clock()),
    )
