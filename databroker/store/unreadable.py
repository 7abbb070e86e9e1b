"""Unreadable records: as good as absent; one line says so, and they are counted."""

import structlog

from foundation.telemetry.metrics import unreadable_records

log = structlog.get_logger(__name__)


def unreadable(type: str, id: str, reason: str) -> None:
    unreadable_records.labels(type).inc()
    log.error("unreadable record skipped", type=type, id=id, reason=reason)
