"""Open streams: what is being carried right now, for whom; ends it when the session ends or the policy no longer allows it."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import structlog

from databroker.records import SESSION
from databroker.replica import EVERYTHING
from databroker.store.base import RecordChange
from foundation.client_network import client_network
from foundation.errors import BrokerError
from proxy.forwarding.http_forwarding import StreamHandle, TerminationReason
from proxy.incoming_request import IncomingRequest

log = structlog.get_logger(__name__)

# An ended session ends its streams at once; any other change of records or policy is looked at this often, in seconds.
RECHECK_INTERVAL = 0.25
# What only time changes (a closing hour, the age of a session, the end of a certificate, of temporary access) is looked at this often, in
# seconds; with the pause between two looks that is below two.
TIMED_RECHECK_INTERVAL = 1.5
# So many are judged at a time, then requests are answered: to judge 5,000 in one go held all of them up for 150 ms.
RECHECK_BATCH = 50
# Only the provider knows whether a bearer's token still counts; others, whose access has ended, don't wait for what it says, in seconds.
PROVIDER_TIMEOUT = 0.5


@dataclass(slots=True, eq=False)
class Stream(StreamHandle):
    """Stream under way, one request; `session_id` is empty where nobody is signed in, `is_timed` where time alone may end its access,
    `asks_provider` where it must perhaps be asked about it."""

    incoming: IncomingRequest = field(kw_only=True)
    session_id: str = ""
    expires_by_time: bool = False
    needs_provider: bool = False
    expires_at: float = math.inf  # Unix seconds of the end of its access, as far as it was known when it was last judged
    status: int | None = None  # that its upstream answered, once that is known
    termination: TerminationReason = TerminationReason.COMPLETE
    duration_seconds: float | None = None  # that it lasted, where somebody else has measured them


class OpenStreams:
    """Open streams; they outlive the reload of a configuration."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._by_session: dict[str, set[Stream]] = {}
        self._timed: set[Stream] = set()
        self._recheck = asyncio.Event()
        self.change_count = 0  # of records and policy so far

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
        """Open a stream.  `decided_at_change` is the `change_count` before its decision: a later change may have ended its access."""
        if decided_at_change != self.change_count:
            self._recheck.set()
        stream = Stream(
            incoming=incoming, session_id=session_id, expires_by_time=expires_by_time, needs_provider=needs_provider, expires_at=expires_at
        )
        if expires_by_time:
            self._timed.add(stream)
        self._by_session.setdefault(session_id, set()).add(stream)
        return stream

    def count_tunnels(self, session_id: str, peer: str) -> int:
        """Number of tunnels of this session; for nobody's, from this address or its network."""
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
        """Note a change; the replica calls it for each change of a record."""
        self.change_count += 1
        if change is not EVERYTHING and change.type == SESSION and change.record is None:
            self._end(self._by_session.get(change.id, ()), "the session has ended")
        else:
            self._recheck.set()

    def on_policy_change(self) -> None:
        self.change_count += 1
        self._recheck.set()

    async def run(self, reauthorize: Callable[[IncomingRequest], Awaitable[float]]) -> None:
        """Authorize open streams again after each change, and periodically those that time alone may end.  Runs until cancelled.

        `reauthorize` returns until when a stream may continue, as far as that is known, or 0 if it must end.
        """
        deferred: set[Stream] = set()
        while True:
            # Those that couldn't be judged come last: one whose provider is away must not keep the others from being judged.
            streams = sorted(await self._streams_to_recheck(), key=lambda stream: (stream.needs_provider, stream in deferred))
            deferred.intersection_update(streams)
            for number, stream in enumerate(streams, 1):
                if number % RECHECK_BATCH == 0:
                    await asyncio.sleep(0)
                if stream not in self._by_session.get(stream.session_id, ()):
                    continue
                try:
                    # What is asked of the provider goes on being asked: the answer is there in one of the next rounds.
                    async with asyncio.timeout(PROVIDER_TIMEOUT if stream.needs_provider else None):
                        expires_at = await reauthorize(stream.incoming)
                    if expires_at:
                        stream.expires_at = expires_at
                    else:
                        self._end((stream,), "access revoked")
                    deferred.discard(stream)
                except (BrokerError, TimeoutError):
                    deferred.add(stream)
                    # Nothing new is known: new requests are refused meanwhile, and the next change is looked at again.
                    self._end_expired()
                    self._recheck.set()
                    break
                except Exception:  # of one: no stream outlives its access because another could not be judged
                    log.exception("stream re-authorization failed", request_id=stream.incoming.request_id)
                    self._end((stream,), "re-authorization failed")
            await asyncio.sleep(RECHECK_INTERVAL)

    async def _streams_to_recheck(self) -> list[Stream]:
        """All streams after a change; after a while without one, those that time may end."""
        try:
            async with asyncio.timeout(TIMED_RECHECK_INTERVAL):
                await self._recheck.wait()
        except TimeoutError:
            return list(self._timed)
        self._recheck.clear()
        return [stream for streams in self._by_session.values() for stream in streams]

    def _end_expired(self) -> None:
        """End streams whose end was known: that somebody has put it off can be learned from nobody at this moment."""
        now = self._clock()
        expired = [stream for streams in self._by_session.values() for stream in streams if stream.expires_at <= now]
        self._end(expired, "access expired; store unavailable")

    def _end(self, streams: Iterable[Stream], reason: str) -> None:
        for stream in list(streams):
            log.info("stream terminated", reason=reason, session_id=stream.session_id, request_id=stream.incoming.request_id)
            # Each by itself: trouble with one must keep no other from ending, nor the replica, which calls us, from hearing of more.
            asyncio.get_running_loop().call_soon(self._terminate, stream)

    def _terminate(self, stream: Stream) -> None:
        if stream in self._by_session.get(stream.session_id, ()):
            stream.cancel()
