"""Requests that Envoy currently forwards, by stream id; resets the connections of those whose access has ended."""

import asyncio
from collections.abc import Callable

import structlog

from foundation.tasks import spawn
from proxy.envoy.downstream_connections import DownstreamConnections
from proxy.envoy.proxied.proxied_request import ProxiedRequest, RequestSummary
from proxy.envoy.proxied.response_details import invalid_status
from proxy.envoy.resources.internal_headers import Address
from proxy.responses.renderer import CapturedResponse

log = structlog.get_logger(__name__)

_FIELDS = 8
_ABSENT = "-"
# A check may still be in progress this long after Envoy has logged its request; longer than Envoy's timeout.
_LATE_CHECK_SECONDS = 30.0  # seconds
# Time to read the access log lines of an Envoy that has exited.
LOG_DRAIN_SECONDS = 0.1  # seconds
_SWITCHING_PROTOCOLS = 101
# Time to send the response before an unusable connection is reset.
_RESET_DELAY_SECONDS = 1.0  # seconds


class ActiveRequests:
    """Registry of the requests that Envoy forwards."""

    def __init__(self, connections: DownstreamConnections, clock: Callable[[], float]):
        self._connections = connections
        self._clock = clock
        self._completed_early: dict[str, float] = {}  # completed before gate had responded to the check, and when
        self._requests: dict[str, ProxiedRequest] = {}
        self._failover_requests: dict[bytes, ProxiedRequest] = {}  # requests that can fail over, by request id
        self._peers: set[Address] = set()
        self.is_idle = asyncio.Event()  # set while Envoy forwards no requests
        self.is_idle.set()

    def __repr__(self) -> str:
        return f"<ActiveRequests {len(self._requests)}>"

    @property
    def can_reset(self) -> bool:
        """Whether connections can be reset. If not, Envoy must not forward requests."""
        return self._connections.can_reset

    def start(self, request: ProxiedRequest) -> None:
        """Register a request, before Envoy receives the response to its check."""
        request.start(self._reset)
        self._requests[request.stream_id] = request
        if request.can_fail_over:
            self._failover_requests[request.id] = request
        self.is_idle.clear()
        if self._completed_early.pop(request.stream_id, None) is not None:
            self.complete(request.stream_id, RequestSummary(0, 0.0, 0, 0, "DC", _ABSENT))

    def complete(self, stream_id: str, summary: RequestSummary | None) -> None:
        if (request := self._requests.pop(stream_id, None)) is not None:
            self._failover_requests.pop(request.id, None)
            request.complete(summary)
            if not self._requests:
                self.is_idle.set()

    def on_access_log_line(self, line: str) -> None:
        """Handle the access log line of a completed request (ext_authz_filter.py)."""
        parts = line.split(" ", _FIELDS - 1)
        if len(parts) != _FIELDS or not all(part.isdecimal() for part in parts[2:6]):
            log.warning("unparsable envoy access log line", line=line[:200])
            return
        authorized_id, request_header_id, status, milliseconds, sent, received, flags, details = parts
        stream_id = request_header_id if authorized_id == _ABSENT else authorized_id
        if authorized_id == _ABSENT and stream_id not in self._requests:
            self._record_early_completion(stream_id)
        self.complete(stream_id, RequestSummary(int(status), int(milliseconds) / 1000, int(sent), int(received), flags, details))

    def on_upload_log_line(self, line: str) -> None:
        """Handle the access log line that reports the progress of a request body (ext_authz_filter.py)."""
        stream_id, received, completion = line.split(" ")
        if (request := self._requests.get(stream_id)) is not None:
            request.on_body_progress(int(received), is_all=completion != _ABSENT)

    def _record_early_completion(self, stream_id: str) -> None:
        """Record a request that completed before its check, because its client disconnected or the check timed out."""
        now = self._clock()
        for other, completed_at in list(self._completed_early.items()):
            if now - completed_at < _LATE_CHECK_SECONDS:
                break
            del self._completed_early[other]
        self._completed_early[stream_id] = now

    async def error_page(self, stream_id: str, details: str) -> CapturedResponse | None:
        """Return the error page for a missing response, or None for an unknown request."""
        if (request := self._requests.get(stream_id)) is None:
            return None
        if invalid_status(details) == _SWITCHING_PROTOCOLS:  # the upstream's stream never ends
            asyncio.get_running_loop().call_later(_RESET_DELAY_SECONDS, request.reset_client)
        return await request.error_page(details)

    def clusters(self) -> set[str]:
        """Return the names of the clusters in use. A request with a body may reach its cluster long after the check."""
        return {request.cluster for request in self._requests.values()}

    def take_for_failover(self, id: bytes) -> ProxiedRequest | None:
        """Remove and return the request that Envoy could not connect to its upstream; None if unknown or already taken."""
        return self._failover_requests.pop(id, None)

    def on_not_streaming(self, stream_id: str) -> None:
        if (request := self._requests.get(stream_id)) is not None:
            request.on_not_streaming()

    def on_envoy_exit(self) -> None:
        """Complete the requests of an Envoy that has exited, after its last log lines were read."""
        asyncio.get_running_loop().call_later(LOG_DRAIN_SECONDS, self.complete_all, list(self._requests))

    def complete_all(self, numbers: list[str] | None = None) -> None:
        for stream_id in list(self._requests) if numbers is None else numbers:
            self.complete(stream_id, None)

    def _reset(self, peer: Address) -> None:
        if not self._peers:
            spawn(self._reset_pending(), name="reset of ended access")
        self._peers.add(peer)

    async def _reset_pending(self) -> None:
        """Reset connections in one batch per loop turn."""
        await asyncio.sleep(0)
        peers, self._peers = self._peers, set()
        log.info("connections reset after access ended", connections=await self._connections.reset(peers))
