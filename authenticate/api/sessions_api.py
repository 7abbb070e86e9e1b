"""API of sessions: list them, read one, and end one or all of a user."""

from typing import Literal

from asgiref.sync import sync_to_async
from django.db.models import Q
from django.utils import timezone
from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import not_found
from authenticate.api.api_types import PageQuery, PlainText, RequestModel, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from config.options import Options
from databroker.admin import row_search
from databroker.agent_records import SessionClient, SessionKind
from databroker.audit_log import AuditAction, name_in_claims
from databroker.end_sessions import end_sessions, end_sessions_for_user, live_linked_session_ids
from databroker.models import Session, User
from databroker.records import SESSION, Record

LIST_NAME = "sessions"
ID = r"[A-Za-z0-9_-]{1,128}"


class SessionQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")
    kind: Literal["browser", "agent"] | None = Field(None, description="Only of browsers, or of OAuth clients.")
    client_id: PlainText | None = Field(None, description="Only of this OAuth client.")
    resource: PlainText | None = Field(None, description="Only for this MCP server: its URI.")
    q: PlainText | None = Field(
        None, description="Words of a user, route, OAuth client or MCP server, the start of an address, or a complete id; all must match."
    )


class EndSessionsRequest(RequestModel):
    user_id: PlainText = Field(description="User: `provider/subject`.")


class SessionResource(ResponseModel):
    """A signed-in browser, or an OAuth client that acts for a user.  `last_seen_at` is updated with a delay of some seconds.

    `client_id`, `resource` and `scopes` are those of an OAuth client.
    """

    id: str
    user_id: str
    kind: Literal["browser", "agent"]
    client_id: str
    resource: str
    scopes: list[str]
    started_at: Timestamp
    expires_at: Timestamp
    client_address: str
    user_agent: str
    last_seen_at: Timestamp
    last_host: str


class SessionList(ResponseModel):
    items: list[SessionResource]
    next: str | None


class EndSessionsResult(ResponseModel):
    ended: int


@operation("GET", "sessions", "sessions:read", "Sessions, by id", query=SessionQuery)
async def list_sessions(call: ApiCall) -> SessionList:
    query: SessionQuery = call.query
    after = decode_cursor(LIST_NAME, query.cursor)
    rows = await sync_to_async(_page)(query, after)
    more = len(rows) > query.limit
    items = [_from_row(row) for row in rows[: query.limit]]
    return SessionList(items=items, next=encode_cursor(LIST_NAME, items[-1].id) if more else None)


def _page(query: SessionQuery, after: tuple[str, ...] | None) -> list[Session]:
    rows = Session.objects.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    exact = {name: value for name in ("user_id", "kind", "client_id", "resource") if (value := getattr(query, name)) is not None}
    rows = rows.filter(**exact)
    if after is not None:
        rows = rows.filter(pk__gt=after[0])
    matches = row_search.sessions(rows, query.q) if query.q is not None else rows
    return list(matches.order_by("pk")[: query.limit + 1])


def _from_row(row: Session) -> SessionResource:
    return SessionResource(
        id=row.pk,
        user_id=row.user_id or "",
        kind=SessionKind(row.kind).value,
        client_id=row.client_id,
        resource=row.resource,
        scopes=row.scopes.split(),
        started_at=to_rfc3339(row.started_at),
        expires_at=to_rfc3339(row.expires_at),
        client_address=row.client_address,
        user_agent=row.user_agent,
        last_seen_at=to_rfc3339(row.last_seen_at),
        last_host=row.last_host,
    )


@operation("GET", "sessions/{id}", "sessions:read", "One session", id_pattern=ID, problems=(404,))
async def get_session(call: ApiCall) -> SessionResource:
    # The broker has a session's end immediately; the table follows it.
    record = await call.context.broker.get(SESSION, call.id)
    if record is None:
        raise not_found("session")
    row = await Session.objects.filter(pk=call.id).afirst()
    data, client = record.data, SessionClient.from_data(record.data)
    return SessionResource(
        id=record.id,
        user_id=str(data.get("user_id") or ""),
        kind=client.kind.value,
        client_id=client.client_id,
        resource=client.resource,
        scopes=list(client.scopes),
        started_at=to_rfc3339(data.get("issued_at")),
        expires_at=to_rfc3339(data.get("expires_at")),
        client_address=str(data.get("client_address") or ""),
        user_agent=str(data.get("user_agent") or ""),
        last_seen_at=to_rfc3339(row.last_seen_at if row else None),
        last_host=row.last_host if row else "",
    )


@operation("DELETE", "sessions/{id}", "sessions:end", "End a session immediately", id_pattern=ID, problems=(404,))
async def end_session(call: ApiCall) -> None:
    record = await call.context.broker.get(SESSION, call.id)
    if record is None:
        raise not_found("session")
    # Linked sessions end with it, so they are in the audit log too.
    targets = {id: id for id in await live_linked_session_ids(call.context.broker, [record.id])} | {
        record.id: _describe(record, call.context.options)
    }
    ended: list[str] = []
    async with call.audit.step(AuditAction.END_SESSION, Session, targets.items()):
        try:
            await end_sessions(call.context.broker, [record.id], ended)
        finally:
            for id in ended:
                del targets[id]


@operation("POST", "end_sessions", "sessions:end", "End all sessions of a user immediately", body=EndSessionsRequest)
async def end_user_sessions(call: ApiCall) -> EndSessionsResult:
    user_id = call.body.user_id
    target = [(user_id, str(await User.objects.filter(pk=user_id).afirst() or user_id))]
    async with call.audit.step(AuditAction.END_ALL_SESSIONS, User, target):
        return EndSessionsResult(ended=len(await end_sessions_for_user(call.context.broker, user_id)))


def _describe(record: Record, options: Options) -> str:
    """Return the session's text in the audit log: its user and address."""
    claims, user_id = record.data.get("claims"), str(record.data.get("user_id") or "")
    name = name_in_claims(user_id, claims if isinstance(claims, dict) else {}, options.providers)
    return f"{name}, from {record.data.get('client_address') or 'an unknown address'}"
