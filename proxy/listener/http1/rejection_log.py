"""Refusals before the application: each has a request id and a line in the log, so many a second."""

import secrets

from foundation.telemetry.logs import BoundedLog
from proxy.listener.http1.request_head import RequestRejected

_LOG = BoundedLog("request rejected by listener", level="info")


def record_rejection(refused: RequestRejected, client: object) -> None:
    """Give the refusal a request id and log it.  `client` is the peer's [host, port], or None.

    Nothing of the request itself is logged: it could not be read.
    """
    refused.request_id = secrets.token_hex(16)
    address = client[0] if isinstance(client, list | tuple) and client else ""
    log_rejection(address, refused.status, str(refused), refused.request_id)


def log_rejection(client: str, status: int, reason: str, request_id: str) -> None:
    _LOG.emit(client=client, status=status, reason=reason, request_id=request_id)
