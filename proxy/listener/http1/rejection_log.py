"""Log of requests that the listener rejects before the application sees them; each has a request id. The rate is bounded."""

import secrets

from foundation.telemetry.logs import BoundedLog
from proxy.listener.http1.request_head import RequestRejected

_LOG = BoundedLog("request rejected by listener", level="info")


def log_listener_rejection(rejection: RequestRejected, client: object) -> None:
    """Give the rejection a request id and log it. `client` is the peer's [host, port], or None.

    Nothing of the request itself is logged, because it could not be parsed.
    """
    rejection.request_id = secrets.token_hex(16)
    address = client[0] if isinstance(client, list | tuple) and client else ""
    log_rejection(address, rejection.status, str(rejection), rejection.request_id)


def log_rejection(client: str, status: int, reason: str, request_id: str) -> None:
    _LOG.emit(client_address=client, status=status, reason=reason, request_id=request_id)
