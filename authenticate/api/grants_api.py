"""API of temporary access: list grants and revoke them."""

from collections.abc import AsyncIterator

from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import not_found
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.grants.grant_store import GrantStore

LIST_NAME = "grants"
ID = r"[A-Za-z0-9_-]{1,64}"

StoredGrant = tuple[UserGrants, AccessGrant]


class GrantQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")


class GrantResource(ResponseModel):
    """Temporary access of a user to one route, or to one tool of it."""

    id: str
    user_id: str
    user: str
    route: str
    tool: str = Field(description="Tool of an MCP server to which the access is limited. Empty for the complete route.")
    started_at: Timestamp
    expires_at: Timestamp
    granted_by: str
    reason: str
    is_expired: bool = Field(description="Whether it expired: the list has such grants for a day.")


class GrantList(ResponseModel):
    items: list[GrantResource]
    next: str | None


@operation("GET", "grants", "grants:read", "Temporary access grants", query=GrantQuery)
async def list_grants(call: ApiCall) -> GrantList:
    query: GrantQuery = call.query
    after = decode_cursor(LIST_NAME, query.cursor, 2)
    found: list[StoredGrant] = []
    for expired in (False, True):
        async for user, grant in _iter_grants(call, expired=expired):
            if (after is None or (user.user_id, grant.id) > after) and query.user_id in (None, user.user_id):
                found.append((user, grant))
    page = sorted(found, key=lambda each: (each[0].user_id, each[1].id))[: query.limit]
    more = len(found) > len(page)
    return GrantList(
        items=[_to_response(call, each) for each in page],
        next=encode_cursor(LIST_NAME, page[-1][0].user_id, page[-1][1].id) if more else None,
    )


@operation("DELETE", "grants/{id}", "grants:revoke", "Revoke a temporary access grant", id_pattern=ID, problems=(404, 409))
async def revoke_grant(call: ApiCall) -> None:
    async for user, grant in _iter_grants(call):
        if grant.id == call.id:
            return await call.context.access_requests.revoke_as_administrator(call.principal.id, user.user_id, grant.id, call.audit)
    raise not_found("grant")


def _iter_grants(call: ApiCall, *, expired: bool = False) -> AsyncIterator[StoredGrant]:
    return GrantStore(call.context.broker, call.context.clock).iter_grants(expired=expired)


def _to_response(call: ApiCall, each: StoredGrant) -> GrantResource:
    user, grant = each
    return GrantResource(
        id=grant.id,
        user_id=user.user_id,
        user=user.display_name,
        route=grant.route_name or grant.route,
        tool=grant.tool,
        started_at=to_rfc3339(grant.started_at),
        expires_at=to_rfc3339(grant.expires_at),
        granted_by=grant.granted_by,
        reason=grant.reason,
        is_expired=grant.is_expired(call.context.clock()),
    )
