"""API of the decision log, newest first."""

from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Q
from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import invalid_input
from authenticate.api.api_types import DateTimeParam, PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from authorize.models import LoggedDecision
from databroker.admin.row_search import MAX_TERMS

LIST_NAME = "decisions"
# Query parameter -> column.
EXACT_FILTERS = {
    "user": "display_name",
    "user_id": "user_id",
    "route": "route_name",
    "route_id": "route_id",
    "outcome": "outcome",
    "shadow_outcome": "shadow_outcome",
    "client_address": "client_address",
    "request_id": "request_id",
    "client_id": "client_id",
    "mcp_method": "mcp_method",
    "mcp_name": "mcp_name",
}


class DecisionQuery(PageQuery):
    user: PlainText | None = Field(None, description="User as in the decision log: the e-mail address if there is one.")
    user_id: PlainText | None = Field(None, description="User: `provider/subject`.")
    route: PlainText | None = Field(None, description="Name of the route.")
    route_id: PlainText | None = Field(None, description="Id of the route.")
    outcome: PlainText | None = Field(None, description="Outcome, such as `allowed` or `forbidden`.")
    shadow_outcome: PlainText | None = Field(None, description="Outcome with the rules in `mode: shadow`.")
    client_address: PlainText | None = None
    request_id: PlainText | None = None
    client_id: PlainText | None = Field(None, description="OAuth client that acted for the user.")
    mcp_method: PlainText | None = Field(None, description="Method of the MCP message.")
    mcp_name: PlainText | None = Field(None, description="Tool, prompt or resource of the MCP message.")
    after: DateTimeParam | None = Field(None, description="Not before this time.")
    before: DateTimeParam | None = Field(None, description="Before this time.")
    q: PlainText | None = Field(None, description="Words of a user, route or URL; all must match.")


class DecisionResource(ResponseModel):
    """A recorded decision.  `url` has no query."""

    id: int
    request_id: str
    decided_at: Timestamp
    user_id: str
    user: str
    method: str
    url: str
    client_address: str
    route_id: str
    route: str
    outcome: str
    reason: str
    shadow_outcome: str
    client_id: str
    mcp_method: str
    mcp_name: str


class DecisionList(ResponseModel):
    items: list[DecisionResource]
    next: str | None


@operation("GET", "decisions", "decisions:read", "Decisions, newest first", query=DecisionQuery)
async def list_decisions(call: ApiCall) -> DecisionList:
    query: DecisionQuery = call.query
    keys = decode_cursor(LIST_NAME, query.cursor)
    if keys is not None and not (keys[0].isascii() and keys[0].isdecimal() and len(keys[0]) <= 18):
        raise invalid_input("query", [("cursor", "is not valid for this list")])
    rows = await sync_to_async(_page)(query, None if keys is None else int(keys[0]))
    items = [_from_row(row) for row in rows[: query.limit]]
    return DecisionList(items=items, next=encode_cursor(LIST_NAME, str(items[-1].id)) if len(rows) > query.limit else None)


def _page(query: DecisionQuery, before: int | None) -> list[LoggedDecision]:
    exact: dict[str, Any] = {column: value for name, column in EXACT_FILTERS.items() if (value := getattr(query, name)) is not None}
    rows = LoggedDecision.objects.filter(**exact)
    if before is not None:
        rows = rows.filter(pk__lt=before)
    if query.after is not None:
        rows = rows.filter(decided_at__gte=query.after)
    if query.before is not None:
        rows = rows.filter(decided_at__lt=query.before)
    for word in (query.q or "").split()[:MAX_TERMS]:
        matches = Q(display_name__holds=word) | Q(user_id__holds=word) | Q(route_name__holds=word) | Q(url__icontains=word)
        rows = rows.filter(matches)
    return list(rows.defer("snapshot").order_by("-pk")[: query.limit + 1])


def _from_row(row: LoggedDecision) -> DecisionResource:
    texts = {name: getattr(row, column) for name, column in EXACT_FILTERS.items()}
    return DecisionResource(id=row.pk, decided_at=to_rfc3339(row.decided_at), method=row.method, url=row.url, reason=row.reason, **texts)
