"""Stream tracking: the context manager of a forwarded request, which opens its stream and records how it ends."""

import time
from dataclasses import replace
from types import TracebackType

from config.settings.oauth_settings import COMMAND_LINE_ID
from foundation.errors import AccessRevoked, FileDescriptorsExhausted, UpstreamError, UpstreamTimeout
from proxy.forwarding.forward_result import ForwardResult, TerminationReason
from proxy.planes.open_streams import OpenStreams, Stream
from proxy.upstreams.cluster import ClusterSelection
from proxy.upstreams.route_statistics import RouteStatistics
from proxy.verdict import RequestDecision


class StreamTracking:
    """Context manager that opens the Stream of a forwarded request.

    It is a class, because a generator's context costs five times as much per request.
    """

    __slots__ = ("_decision", "_selection", "_started_at", "_statistics", "_stream", "_streams")

    def __init__(
        self, streams: OpenStreams, decision: RequestDecision, selection: ClusterSelection | None, statistics: RouteStatistics | None
    ):
        self._streams, self._decision, self._selection, self._statistics = streams, decision, selection, statistics

    def __enter__(self) -> Stream:
        self._started_at = time.perf_counter()
        stream = self._stream = open_stream(self._streams, self._decision)
        if self._selection is not None:
            self._selection.start()
        if self._statistics is not None:
            self._statistics.start()
        return stream

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        stream, status = self._stream, None
        if isinstance(error, UpstreamError):
            status = error.status
            if isinstance(error, UpstreamTimeout):
                stream.termination = TerminationReason.TIMEOUT
            if not isinstance(error, FileDescriptorsExhausted):  # because that is gate's error, not the upstream's
                stream.status = status
        elif isinstance(error, AccessRevoked):
            stream.termination = TerminationReason.ACCESS_ENDED
        if (statistics := self._statistics) is not None:
            seconds = time.perf_counter() - self._started_at if stream.duration_seconds is None else stream.duration_seconds
            statistics.finish(status or stream.status, seconds)
            if stream.termination is not TerminationReason.COMPLETE:
                record_termination(statistics, stream.termination)
        self._streams.close(stream)
        if self._selection is not None:
            self._selection.finish(stream.status)


def open_stream(streams: OpenStreams, decision: RequestDecision) -> Stream:
    """Open the stream of a forwarded request.  The caller must close it with `streams.close`."""
    identity, route = decision.authorization.identity, decision.authorization.decision.compiled_route
    if identity is not None and identity.client_id == COMMAND_LINE_ID:
        # A tunnel continues with its session, whose access tokens live for an hour.
        decision.incoming.request = replace(decision.incoming.request, stream_session_id=identity.session_id)
    # Because no record is deleted when a token expires, only the clock can end its stream.
    is_token = identity is not None and identity.has_oauth_token
    expires_by_time = is_token or (route is not None and route.is_time_dependent)
    return streams.open(
        decision.incoming,
        decision.session_id,
        decision.access_change_count,
        expires_by_time=expires_by_time,
        needs_provider=is_token,
        expires_at=decision.authorization.valid_until,
    )


def record_termination(statistics: RouteStatistics, termination: TerminationReason) -> None:
    """Count a request that did not complete, by its termination reason."""
    if termination is TerminationReason.UPSTREAM_RESET:
        statistics.received_resets += 1
    elif termination in (TerminationReason.TIMEOUT, TerminationReason.IDLE_TIMEOUT):
        statistics.timeouts += 1
    elif termination is not TerminationReason.COMPLETE:
        statistics.sent_resets += 1


def record_tunnel_bytes(statistics: RouteStatistics, result: ForwardResult) -> None:
    """Add the bytes of a tunnel; do nothing for a result without them."""
    if result.downstream_bytes_received is not None:
        statistics.upstream_bytes_sent += result.downstream_bytes_received
        statistics.upstream_bytes_received += result.downstream_bytes_sent
