"""Result of forwarding, and the handle that revokes it. They import no client, so that `gate tunnel` starts fast."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class TerminationReason(StrEnum):
    COMPLETE = "complete"
    CLIENT_DISCONNECTED = "client_disconnected"
    TIMEOUT = "timeout"
    IDLE_TIMEOUT = "idle_timeout"
    UPSTREAM_RESET = "upstream_reset"
    ACCESS_ENDED = "access_ended"
    SHUTDOWN = "shutdown"
    PROTOCOL_ERROR = "websocket_protocol_error"


@dataclass(slots=True, eq=False)  # not frozen, because it is created for each request
class StreamHandle:
    """Handle to revoke a stream. The forwarding code sets `revoke`, which may be called once, at any time."""

    revoke: Callable[[], None] = lambda: None


@dataclass(slots=True)
class ForwardResult:
    """Result of forwarding a request.

    `status` is None if the client disconnected before the upstream responded. `downstream_bytes_sent` counts the
    response body. `downstream_bytes_received` is None unless the request became a tunnel.
    """

    status: int | None = None
    downstream_bytes_sent: int = 0
    termination: TerminationReason = TerminationReason.COMPLETE
    downstream_bytes_received: int | None = None
