"""Open streams: requests that are being forwarded.  A stream ends with its session, or when the policy no longer allows it."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import structlog

from databroker.records import SESSION
from databroker.replica import CACHE_CLEARED
from databroker.store.base import RecordChange
from foundation.client_network import client_network
from foundation.errors import BrokerError
from proxy.forwarding.forward_result import StreamHandle, TerminationReason
from proxy.incoming_request import IncomingRequest

log = structlog.get_logger(__name__)

# Seconds between rechecks after changes of records or policy.  The end of a session ends its streams at once.
RECHECK_INTERVAL = 0.25
# Seconds between rechecks of streams that time alone may end (business hours, session age, end of a certificate or of temporary access).
# Together with RECHECK_INTERVAL it is below two.
TIMED_RECHECK_INTERVAL = 1.5
# Number of checks before yielding to the event loop: 5,000 in one go blocked it for 150 ms.
RECHECK_BATCH = 50
# Seconds to wait for a provider's introspection of a bearer token, so that a slow provider does not delay other checks.
PROVIDER_TIMEOUT = 0.5


@dataclass(slots=True, eq=False)
class Stream(StreamHandle):
    """Request that is being forwarded.  `session_id` is empty without a session.

    `expires_by_time`: time alone may end its access.  `needs_provider`: a recheck may query the provider.
    """

    incoming: IncomingRequest = field(kw_only=True)
    session_id: str = ""
    expires_by_time: bool = False
    needs_provider: bool = False
    expires_at: float = math.inf  # Unix seconds, as of the last authorization
    status: int | None = None  # of the upstream's response, once known
    termination: TerminationReason = TerminationReason.COMPLETE
    duration_seconds: float | None = None  # set if Envoy measured it


class OpenStreams:
    """Streams of this process, which outlive configuration reloads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._by_session: dict[str, set[Stream]] = {}
        self._timed: set[Stream] = set()
        self._recheck = asyncio.Event()
        self.access_change_count = 0  # of records and policy so far

    def __repr__(self) -> str:
        return f"<OpenStreams {sum(map(len, self._by_session.values()))} of {len(self._by_session)} sessions>"

    def open(
        self,
        incoming: IncomingRequest,
        session_id: str,
        decided_at_change: int,
        *,
        expires_by_time: bool = False,
        needs_provider: bool = False,
        expires_at: float = math.inf,
    ) -> Stream:
        """Open a stream.

        `decided_at_change` is the `access_change_count` before its decision, because a later change may have ended its access.
        """
        if decided_at_change != self.access_change_count:
            self._recheck.set()
        stream = Stream(
            incoming=incoming, session_id=session_id, expires_by_time=expires_by_time, needs_provider=needs_provider, expires_at=expires_at
        )
        if expires_by_time:
            self._timed.add(stream)
        self._by_session.setdefault(session_id, set()).add(stream)
        return stream

    def count_tunnels(self, session_id: str, peer: str) -> int:
        """Return the number of tunnels of a session; without a session, of tunnels from the peer's network."""
        streams, network = self._by_session.get(session_id, ()), client_network(peer)
        return sum(
            stream.incoming.is_connect and (bool(session_id) or client_network(stream.incoming.peer) == network) for stream in streams
        )

    def close(self, stream: Stream) -> None:
        streams = self._by_session[stream.session_id]
        streams.discard(stream)
        self._timed.discard(stream)
        if not streams:
            del self._by_session[stream.session_id]

    def on_change(self, change: RecordChange) -> None:
        """Handle a change of a record; the replica calls it for each."""
        self.access_change_count += 1
        if change is not CACHE_CLEARED and change.type == SESSION and change.record is None:
            self._schedule_revocation(self._by_session.get(change.id, ()), "the session has ended")
        else:
            self._recheck.set()

    def on_policy_change(self) -> None:
        self.access_change_count += 1
        self._recheck.set()

    async def run(self, reauthorize: Callable[[IncomingRequest], Awaitable[float]]) -> None:
        """Authorize open streams again after each change, and periodically those that time alone may end.  Runs until cancelled.

        `reauthorize` returns until when a stream may continue, as far as that is known, or 0 if it must end.
        """
        deferred: set[Stream] = set()
        while True:
            # Streams whose check failed come last, so that an unavailable provider does not block the others.
            streams = sorted(await self._streams_to_recheck(), key=lambda stream: (stream.needs_provider, stream in deferred))
            deferred.intersection_update(streams)
            for number, stream in enumerate(streams, 1):
                if number % RECHECK_BATCH == 0:
                    await asyncio.sleep(0)
                if stream not in self._by_session.get(stream.session_id, ()):
                    continue
                try:
                    # The introspection continues after this timeout, and a later round uses its result.
                    async with asyncio.timeout(PROVIDER_TIMEOUT if stream.needs_provider else None):
                        expires_at = await reauthorize(stream.incoming)
                    if expires_at:
                        stream.expires_at = expires_at
                    else:
                        self._schedule_revocation((stream,), "access revoked")
                    deferred.discard(stream)
                except (BrokerError, TimeoutError):
                    deferred.add(stream)
                    # gate denies new requests in this state.  The next round checks all streams again.
                    self._revoke_expired()
                    self._recheck.set()
                    break
                except Exception:  # because an error in one stream must not keep the others open
                    log.exception("stream re-authorization failed", request_id=stream.incoming.request_id)
                    self._schedule_revocation((stream,), "re-authorization failed")
            await asyncio.sleep(RECHECK_INTERVAL)

    async def _streams_to_recheck(self) -> list[Stream]:
        """Wait for a change and return all streams.  Without a change, return those that time may end."""
        try:
            async with asyncio.timeout(TIMED_RECHECK_INTERVAL):
                await self._recheck.wait()
        except TimeoutError:
            return list(self._timed)
        self._recheck.clear()
        return [stream for streams in self._by_session.values() for stream in streams]

    def _revoke_expired(self) -> None:
        """Revoke streams whose last known expiry has passed, because an extension can't be read now."""
        now = self._clock()
        expired = [stream for streams in self._by_session.values() for stream in streams if stream.expires_at <= now]
        self._schedule_revocation(expired, "access expired; store unavailable")

    def _schedule_revocation(self, streams: Iterable[Stream], reason: str) -> None:
        for stream in list(streams):
            log.info("stream terminated", reason=reason, session_id=stream.session_id, request_id=stream.incoming.request_id)
            # In separate callbacks, because an error in one must not keep others open, nor stop the replica, which calls this.
            asyncio.get_running_loop().call_soon(self._revoke, stream)

    def _revoke(self, stream: Stream) -> None:
        if stream in self._by_session.get(stream.session_id, ()):
            stream.revoke()
