"""Persistence of the decision log.  The writer's thread inserts and prunes rows, never a request."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import Error, connection, transaction
from django.db.models import Max

from authorize.decision_log.decision_log import DecisionLogEntry, DecisionLogSettings, QueuedEntry
from authorize.decision_log.decision_snapshot import MAX_PATH_LENGTH, snapshot_identity, snapshot_request
from authorize.models import LoggedDecision
from authorize.policy import decision_text
from authorize.policy.compiled_route import route_name
from databroker.projection.rows import sanitize_text
from foundation.errors import BrokerError

# A long transaction would block sign-ins and the admin (docs/decisions/stores.md).
PRUNE_BATCH_SIZE = 500
MAX_TRACE_STEPS = 100
MAX_EXPECTED_LENGTH = 300

Row = dict[str, Any]


def write_entries(entries: Sequence[QueuedEntry]) -> None:
    """Write all in one short transaction; BrokerError where the database can't.  Leaves no connection open behind it."""
    rows = [build_row(*entry) for entry in entries]
    try:
        with transaction.atomic():
            _insert(rows)
            _prune(entries[-1][1], rows[-1]["decided_at"])
    except Error as error:
        raise BrokerError(str(error)) from error
    finally:
        connection.close()


def _insert(rows: Sequence[Row]) -> None:
    """Insert rows with plain SQL, because `bulk_create` uses five times the processor time."""
    fields = [LoggedDecision._meta.get_field(name) for name in rows[0]]
    table, *columns = (connection.ops.quote_name(name) for name in (LoggedDecision._meta.db_table, *(field.column for field in fields)))
    placeholders = ", ".join(["%s"] * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})"  # noqa: S608 - names of the model
    decided_at = LoggedDecision._meta.get_field("decided_at")
    values = [tuple({**row, "decided_at": decided_at.get_db_prep_save(row["decided_at"], connection)}.values()) for row in rows]
    with connection.cursor() as cursor:
        cursor.executemany(statement, values)


def _prune(settings: DecisionLogSettings, now: datetime) -> None:
    """Delete old rows by primary key and index, so that the cost does not depend on their number."""
    newest = LoggedDecision.objects.aggregate(newest=Max("pk"))["newest"] or 0
    too_old = LoggedDecision.objects.filter(decided_at__lt=now - timedelta(seconds=settings.age)).order_by("decided_at")
    too_many = LoggedDecision.objects.filter(pk__lte=newest - settings.size).order_by("pk")
    for rows in (too_many, too_old):
        LoggedDecision.objects.filter(pk__in=list(rows.values_list("pk", flat=True)[:PRUNE_BATCH_SIZE])).delete()


def build_row(entry: DecisionLogEntry, settings: DecisionLogSettings) -> Row:
    """Return the columns of LoggedDecision."""
    decision, identity, request = entry.decision, entry.identity, entry.request
    route = decision.compiled_route.route if decision and decision.compiled_route else None
    reason = decision_text.decisive_reason(decision) if decision else entry.error
    row: Row = {
        "request_id": entry.request_id,
        "decided_at": datetime.fromtimestamp(entry.decided_at, UTC),
        "user_id": identity.user_id[:320] if identity else "",
        "display_name": identity.display_name[:255] if identity else "",
        "method": request.method[:32],
        "url": f"{request.host_port}{request.path[:MAX_PATH_LENGTH]}",
        "client_address": entry.client_address[:64],
        "client_id": identity.client_id[:512] if identity else "",
        "mcp_method": request.mcp.method[:128] if request.mcp else "",
        "mcp_name": request.mcp.name[:255] if request.mcp else "",
        "route_id": route.id if route else "",
        "route_name": route_name(route)[:255] if route else "",
        "outcome": decision.outcome.value if decision else entry.failure,
        "reason": "; ".join(filter(None, (reason, entry.token_error)))[:255],
        "shadow_outcome": entry.shadow_outcome.outcome if entry.shadow_outcome and entry.shadow_differs else "",
        "duration_seconds": entry.duration_seconds,
        "data_version": entry.sources.version if entry.sources else None,
        "configuration": settings.configuration,
        "snapshot": json.dumps(_build_snapshot(entry, settings)),
    }
    # An unusual name must not prevent the batch from being written.
    return {name: sanitize_text(value) if isinstance(value, str) else value for name, value in row.items()}


def _build_snapshot(entry: DecisionLogEntry, settings: DecisionLogSettings) -> dict[str, Any]:
    decision, shadow_outcome = entry.decision, entry.shadow_outcome
    snapshot: dict[str, Any] = {"request": snapshot_request(entry.request, settings.looked)}
    if entry.identity is not None:
        snapshot["identity"] = snapshot_identity(entry.identity, settings.looked)
        snapshot["modified_at"] = entry.sources.modified_at if entry.sources else {}
    if decision is not None:
        snapshot |= {
            "rules": _truncate_rows(decision_text.trace_rows_with_decisive(decision)),
            "message": decision_text.user_message(decision),
            "remedies": [_truncate(way) for way in decision_text.remedies(decision)[-MAX_TRACE_STEPS:]],
        }
    if entry.token_error:
        snapshot["token_error"] = entry.token_error
    if shadow_outcome is not None:
        name = route_name(shadow_outcome.compiled_route.route) if shadow_outcome.compiled_route else ""
        snapshot["shadow_outcome"] = {"outcome": shadow_outcome.outcome, "reason": shadow_outcome.reason, "route": name}
    return snapshot


def _truncate_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last rows, which decide, with long values truncated."""
    last_rows = rows if len(rows) <= MAX_TRACE_STEPS else rows[-MAX_TRACE_STEPS:]
    return [{name: _truncate(value) for name, value in row.items()} for row in last_rows]


def _truncate(value: Any) -> Any:
    return f"{value[:MAX_EXPECTED_LENGTH]}…" if isinstance(value, str) and len(value) > MAX_EXPECTED_LENGTH else value
