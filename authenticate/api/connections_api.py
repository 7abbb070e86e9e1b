"""API of users' accounts at third-party MCP servers: list and disconnect them.  No response has a token."""

from typing import Literal, TypeAlias, cast

from asgiref.sync import sync_to_async
from pydantic import Field

from authenticate.api.api_call import ApiCall
from authenticate.api.api_operation import operation
from authenticate.api.api_problems import not_found
from authenticate.api.api_types import PageQuery, PlainText, ResponseModel, Timestamp, to_rfc3339
from authenticate.api.cursors import decode_cursor, encode_cursor
from authenticate.upstream_oauth.connection_service import UpstreamConnections
from authorize.upstream.account_connections import ConnectionState, UpstreamServers, connection_state
from databroker.admin import row_search
from databroker.audit_log import AuditAction, AuditLog
from databroker.broker_client import BrokerClient
from databroker.models import ConnectedAccount
from databroker.records import UPSTREAM_CONNECTION

LIST_NAME = "connections"
ID = r"[0-9a-f]{64}-[0-9a-f]{64}"
# A record's id has a slash, which would end the segment of a path.
_STORED, _PUBLIC = "/", "-"


State: TypeAlias = Literal["connected", "expired", "settings_changed", "server_removed"]


class ConnectionQuery(PageQuery):
    user_id: PlainText | None = Field(None, description="Only of this user: `provider/subject`.")
    resource: PlainText | None = Field(None, description="Only at this MCP server: its URI.")
    q: PlainText | None = Field(None, description="Words of a user or an MCP server; all must match.")


class ConnectionResource(ResponseModel):
    """Account of a user at a third-party MCP server.

    `state`: only a `connected` one is used. `expired`: the server no longer accepts or renews its tokens. `settings_changed`: since the
    user connected. `server_removed`: the server is not in the configuration.
    """

    id: str
    user_id: str
    resource: str
    connected_at: Timestamp
    last_refreshed_at: Timestamp
    state: State


class ConnectionList(ResponseModel):
    items: list[ConnectionResource]
    next: str | None


@operation("GET", "connections", "connections:read", "Accounts at third-party MCP servers, by id", query=ConnectionQuery)
async def list_connections(call: ApiCall) -> ConnectionList:
    query: ConnectionQuery = call.query
    rows = await sync_to_async(_page)(query, decode_cursor(LIST_NAME, query.cursor))
    items = [_from_row(call, row) for row in rows[: query.limit]]
    return ConnectionList(items=items, next=encode_cursor(LIST_NAME, rows[query.limit - 1].pk) if len(rows) > query.limit else None)


def _page(query: ConnectionQuery, after: tuple[str, ...] | None) -> list[ConnectedAccount]:
    exact = {name: value for name in ("user_id", "resource") if (value := getattr(query, name)) is not None}
    rows = ConnectedAccount.objects.filter(**exact, **({"pk__gt": after[0]} if after is not None else {}))
    matches = row_search.connected_accounts(rows, query.q) if query.q is not None else rows
    return list(matches.order_by("pk")[: query.limit + 1])


def _from_row(call: ApiCall, row: ConnectedAccount) -> ConnectionResource:
    return ConnectionResource(
        id=row.pk.replace(_STORED, _PUBLIC),
        user_id=row.user_id or "",
        resource=row.resource,
        connected_at=to_rfc3339(row.connected_at),
        last_refreshed_at=to_rfc3339(row.refreshed_at),
        state=cast(State, row_state(row, call.context.connections.servers, call.context.clock()).value),
    )


@operation("DELETE", "connections/{id}", "connections:end", "Disconnect an account immediately", id_pattern=ID, problems=(404,))
async def end_connection(call: ApiCall) -> None:
    if not await disconnect_account(call.context.broker, call.context.connections, call.id.replace(_PUBLIC, _STORED), call.audit):
        raise not_found("connection")


async def disconnect_account(broker: BrokerClient, connections: UpstreamConnections, id: str, audit: AuditLog) -> bool:
    """Disconnect any user's account, after the audit log has it.  Return whether there was one.

    Raises BrokerError and AuditLogUnavailable.
    """
    record = await broker.get(UPSTREAM_CONNECTION, id)
    if record is None:
        return False
    label = f"{record.data.get('user_id')} at {record.data.get('resource')}"
    async with audit.step(AuditAction.DISCONNECT_SERVER, ConnectedAccount, [(id, label)]):
        await connections.delete(record)
    return True


def row_state(row: ConnectedAccount, servers: UpstreamServers, now: float) -> ConnectionState:
    usable_until = row.usable_until.timestamp() if row.usable_until is not None else None
    return connection_state(row.server_fingerprint, usable_until, servers.find(row.resource), now)
