"""Refresh worker: one elected process refreshes due sessions, a bounded number concurrently."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from authenticate.provider.provider_errors import InvalidAccessToken
from authenticate.session.refresh_requests import RefreshRequests
from authenticate.session.refresh_schedule import NEVER, RefreshDue, RefreshSchedule
from authenticate.session.session_refresh import RefreshInProgress, RefreshStep, SessionEnded, SessionRefresh
from authenticate.upstream_oauth.connection_refresh import ConnectionRefresh
from databroker.broker_client import BrokerClient, iter_records
from databroker.records import (
    MALFORMED,
    SESSION,
    TOKEN_REFRESH_REQUEST,
    UPSTREAM_REFRESH_REQUEST,
    Record,
    SessionRecord,
    report_malformed,
)
from databroker.store.base import NO_POSITION, ResyncRequired
from foundation.backoff import backoff_delay, backoff_delays
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

CONCURRENCY = 16
MAX_SLEEP = 1.0  # seconds, so that a changed system clock is noticed
DRAIN_TIMEOUT = 5.0  # seconds for refreshes in progress at the end: a response that is not saved is a lost refresh token
IN_PROGRESS_DELAY = 5.0
INITIAL_BACKOFF, MAX_BACKOFF = 5.0, 300.0
FAILURE_GRACE = 60.0  # seconds: no session ends before the provider was retried for this long, also after gate was stopped


@dataclass(frozen=True, slots=True)
class RefreshFailures:
    """Consecutive failures of one session's refresh: time of the first, expiry of the access token at that time, and count.

    The expiry of later tokens is not used: an attempt may refresh the tokens and still fail at userinfo, which confirms no user.
    """

    started_at: float
    token_expires_at: float
    count: int = 0

    def ends_at(self, error: Exception) -> float:
        """Return when the session ends if no attempt succeeds. The grace is short if the provider is available and rejects the token."""
        earliest = self.started_at + FAILURE_GRACE
        return earliest if isinstance(error, InvalidAccessToken) else max(self.token_expires_at, earliest)


class RefreshWorker:
    """The elected task `run`. It loads its state from the data broker each time it starts."""

    def __init__(
        self,
        refresh: SessionRefresh,
        broker: BrokerClient,
        *,
        interval: float,
        clock: Callable[[], float],
        tick: float = MAX_SLEEP,
        concurrency: int = CONCURRENCY,
        connection_refresh: ConnectionRefresh | None = None,
    ):
        self._concurrency = concurrency
        self._refresh = refresh
        self._broker = broker
        self._clock = clock
        self._tick = tick
        self._interval = interval
        self._schedule = RefreshSchedule(interval, clock)
        self._failures: dict[str, RefreshFailures] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._refresh_requests = RefreshRequests(refresh, broker)
        self._connection_refresh = connection_refresh
        self._wakeup = asyncio.Event()

    def __repr__(self) -> str:
        return f"<RefreshWorker {len(self._schedule)} scheduled, {len(self._running)} under way, {len(self._failures)} failing>"

    async def run(self) -> None:
        follower = spawn(self._follow(), name="sessions to refresh")
        try:
            while True:
                self._start_due()
                await self._sleep()
        finally:
            follower.cancel()
            await self._drain()
            self._schedule.clear()
            self._failures.clear()

    def _start_due(self) -> None:
        while len(self._running) < self._concurrency and (popped := self._schedule.pop(self._clock())) is not None:
            session_id, due = popped
            if session_id not in self._running:
                self._running[session_id] = spawn(self._renew(session_id, due), name="session refresh")

    async def _sleep(self) -> None:
        wait = self._tick if len(self._running) >= self._concurrency else min(max(self._schedule.next() - self._clock(), 0.0), self._tick)
        try:
            async with asyncio.timeout(wait):
                await self._wakeup.wait()
        except TimeoutError:
            pass
        self._wakeup.clear()

    async def _drain(self) -> None:
        if running := {*self._running.values(), *self._refresh_requests.running.values(), *self._running_connection_refreshes()}:
            _, late = await asyncio.wait(running, timeout=DRAIN_TIMEOUT)
            for task in late:
                task.cancel()

    def _running_connection_refreshes(self) -> Iterable[asyncio.Task[None]]:
        return self._connection_refresh.running.values() if self._connection_refresh is not None else ()

    async def _renew(self, session_id: str, due: RefreshDue) -> None:
        try:
            step = RefreshStep.TOKENS if due.tokens <= self._clock() else RefreshStep.CLAIMS
            self._on_success(await self._refresh.renew(session_id, step))
        except SessionEnded:
            self._failures.pop(session_id, None)
        except RefreshInProgress:
            await self._reschedule(session_id, self._clock() + IN_PROGRESS_DELAY)
        except (ProviderError, BrokerError) as error:
            await self._on_failure(session_id, error)
        except MALFORMED as error:
            report_malformed(SESSION, session_id, error)
        finally:
            self._running.pop(session_id, None)
            self._wakeup.set()

    def _on_success(self, session: SessionRecord) -> None:
        self._failures.pop(session.id, None)
        self._schedule.on_claims_read(session)

    async def _on_failure(self, session_id: str, error: Exception) -> None:
        now = self._clock()
        session = await self._get_session(session_id)
        if session is None:
            self._failures.pop(session_id, None)
            return
        before = self._failures.get(session_id) or RefreshFailures(now, session.access_token_expires_at or NEVER)
        failure = self._failures[session_id] = replace(before, count=before.count + 1)
        log.warning("session refresh failed", session_id=session_id, failures=failure.count, reason=str(error))
        ends_at = failure.ends_at(error) if session.refresh_token else NEVER
        if now >= ends_at and isinstance(error, ProviderError):
            await self._end_if_expired(session, error)
            return
        due_at = min(now + backoff_delay(before.count, INITIAL_BACKOFF, MAX_BACKOFF), max(ends_at, now + self._tick))
        self._schedule.set(session, RefreshDue(due_at if session.refresh_token else NEVER, due_at))

    async def _end_if_expired(self, session: SessionRecord, error: ProviderError) -> None:
        try:
            await self._refresh.end_if_expired(session.id, session.tokens_received_at, error)
        except (RefreshInProgress, BrokerError):
            await self._reschedule(session.id, self._clock() + IN_PROGRESS_DELAY)
            return
        self._failures.pop(session.id, None)

    async def _reschedule(self, session_id: str, due_at: float) -> None:
        if (session := await self._get_session(session_id)) is not None:
            self._schedule.set(session, RefreshDue(due_at if session.refresh_token else NEVER, due_at))

    async def _get_session(self, session_id: str) -> SessionRecord | None:
        """Return the session, None if it has ended. Wait while the data broker is unavailable, so that no session is dropped."""
        waits = backoff_delays(0.1)
        while True:
            try:
                record = await self._broker.get(SESSION, session_id)
            except BrokerError:
                await asyncio.sleep(next(waits))
                continue
            return SessionRecord.from_record(record) if record is not None else None

    async def _follow(self) -> None:
        waits = backoff_delays(0.1)
        position = NO_POSITION
        while True:
            try:
                async with aclosing(self._broker.changes(position)) as changes:
                    async for change in changes:
                        position = change.version
                        if change.type == SESSION:
                            self._on_session(change.id, change.record)
                        elif change.type == TOKEN_REFRESH_REQUEST and change.record is not None:
                            self._refresh_requests.handle(change.record)
                        elif change.type == UPSTREAM_REFRESH_REQUEST and change.record is not None:
                            self._on_connection_request(change.record)
            except ResyncRequired as start_over:
                try:
                    await self._load_all()
                    position, waits = start_over.version, backoff_delays(0.1)
                except BrokerError as error:
                    log.warning("loading sessions to refresh failed", reason=str(error))
                    await asyncio.sleep(next(waits))
            except BrokerError as error:
                log.warning("refresh worker lost change stream", reason=str(error))
                position = NO_POSITION
                await asyncio.sleep(next(waits))

    async def _load_all(self) -> None:
        self._schedule.clear()
        async for record in iter_records(self._broker, SESSION):
            self._on_session(record.id, record)
        async for record in iter_records(self._broker, TOKEN_REFRESH_REQUEST):
            self._refresh_requests.handle(record)
        async for record in iter_records(self._broker, UPSTREAM_REFRESH_REQUEST):
            self._on_connection_request(record)

    def _on_connection_request(self, record: Record) -> None:
        if self._connection_refresh is not None:
            self._connection_refresh.handle(record)

    def _on_session(self, session_id: str, record: Record | None) -> None:
        if record is None:
            self._schedule.forget(session_id)
            self._failures.pop(session_id, None)
        elif session_id not in self._running:  # because a running refresh schedules the next one itself
            if (session := SessionRecord.parse(record)) is None:
                return
            self._schedule.on_session(session, record.modified)
        self._wakeup.set()
