"""What happens to a record that can't be read?  It is as good as absent; one line says so, and it is counted."""

import structlog

from foundation.telemetry.metrics import unreadable_records

log = structlog.get_logger(__name__)


def unreadable(type: str, id: str, reason: str) -> None:
    unreadable_records.labels(type).inc()
    log.error("a stored record can't be read and is left out", type=type, id=id, reason=reason)
