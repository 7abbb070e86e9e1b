"""Refresh worker: one elected process refreshes sessions, a bounded number at a time, each when the schedule says so."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

import structlog

from authenticate.provider.provider_errors import AccessRefused
from authenticate.session.refresh_requests import WantedRefreshes
from authenticate.session.refresh_schedule import NEVER, RefreshDue, RefreshSchedule
from authenticate.session.session_refresh import RefreshStep, RefreshUnderWay, SessionEnded, SessionRefresh
from databroker.broker_client import BrokerClient, every
from databroker.records import MALFORMED, SESSION, TOKEN_REFRESH_REQUEST, Record, SessionRecord, report_malformed
from databroker.store.base import ANEW, StartOver
from foundation.backoff import backoff_delay, backoff_delays
from foundation.errors import BrokerError, ProviderError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

AT_ONCE = 16
TICK = 1.0  # the longest sleep, so that a clock that was set is noticed
DRAIN = 5.0  # seconds for renewals under way at the end: an answer that nobody writes down is a lost refresh token
UNDER_WAY_PAUSE = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
GRACE = 60.0  # seconds: nobody is signed out before the provider was tried for as long, also after a pause of ours


@dataclass(frozen=True, slots=True)
class RefreshFailures:
    """Failures of one session's refresh in a row: when the first was, when the access token of then expires, and how many.

    Attempts that fail at userinfo may have renewed the tokens: the expiry of later tokens vouches for nobody.
    """

    since: float
    token_expires: float
    failures: int = 0

    def ends(self, error: Exception) -> float:
        """Time when the session ends if no attempt succeeds; a provider that refuses the user's token is not in trouble."""
        earliest = self.since + GRACE
        return earliest if isinstance(error, AccessRefused) else max(self.token_expires, earliest)


class RefreshWorker:
    """The elected work `run`; everything that it knows is read anew each time."""

    def __init__(
        self,
        refresh: SessionRefresh,
        broker: BrokerClient,
        *,
        interval: float,
        clock: Callable[[], float],
        tick: float = TICK,
        at_once: int = AT_ONCE,
    ):
        self._at_once = at_once
        self._refresh = refresh
        self._broker = broker
        self._clock = clock
        self._tick = tick
        self._interval = interval
        self._schedule = RefreshSchedule(interval, clock)
        self._failures: dict[str, RefreshFailures] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wanted = WantedRefreshes(refresh, broker)
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<RefreshWorker {len(self._schedule)} scheduled, {len(self._running)} under way, {len(self._failures)} failing>"

    async def run(self) -> None:
        follower = spawn(self._follow(), name="sessions to refresh")
        try:
            while True:
                self._begin_what_is_due()
                await self._sleep()
        finally:
            follower.cancel()
            await self._drain()
            self._schedule.clear()
            self._failures.clear()

    def _begin_what_is_due(self) -> None:
        while len(self._running) < self._at_once and (popped := self._schedule.pop(self._clock())) is not None:
            session_id, due = popped
            if session_id not in self._running:
                self._running[session_id] = spawn(self._renew(session_id, due), name="session refresh")

    async def _sleep(self) -> None:
        wait = self._tick if len(self._running) >= self._at_once else min(max(self._schedule.next() - self._clock(), 0.0), self._tick)
        try:
            async with asyncio.timeout(wait):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _drain(self) -> None:
        if running := {*self._running.values(), *self._wanted.running.values()}:
            _, late = await asyncio.wait(running, timeout=DRAIN)
            for task in late:
                task.cancel()

    async def _renew(self, session_id: str, due: RefreshDue) -> None:
        try:
            step = RefreshStep.TOKENS if due.tokens <= self._clock() else RefreshStep.CLAIMS
            self._done(await self._refresh.renew(session_id, step))
        except SessionEnded:
            self._failures.pop(session_id, None)
        except RefreshUnderWay:
            await self._again(session_id, self._clock() + UNDER_WAY_PAUSE)
        except (ProviderError, BrokerError) as error:
            await self._failed(session_id, error)
        except MALFORMED as error:
            report_malformed(SESSION, session_id, error)
        finally:
            self._running.pop(session_id, None)
            self._news.set()

    def _done(self, session: SessionRecord) -> None:
        self._failures.pop(session.id, None)
        self._schedule.read(session)

    async def _failed(self, session_id: str, error: Exception) -> None:
        now = self._clock()
        session = await self._session(session_id)
        if session is None:
            self._failures.pop(session_id, None)
            return
        before = self._failures.get(session_id) or RefreshFailures(now, session.access_token_expires_at or NEVER)
        failure = self._failures[session_id] = replace(before, failures=before.failures + 1)
        log.warning("session refresh failed", session_id=session_id, failures=failure.failures, reason=str(error))
        ends = failure.ends(error) if session.refresh_token else NEVER
        if now >= ends and isinstance(error, ProviderError):
            await self._give_up(session, error)
            return
        at = min(now + backoff_delay(before.failures, FIRST_PAUSE, LONGEST_PAUSE), max(ends, now + self._tick))
        self._schedule.set(session, RefreshDue(at if session.refresh_token else NEVER, at))

    async def _give_up(self, session: SessionRecord, error: ProviderError) -> None:
        try:
            await self._refresh.give_up(session.id, session.tokens_received_at, error)
        except (RefreshUnderWay, BrokerError):
            await self._again(session.id, self._clock() + UNDER_WAY_PAUSE)
            return
        self._failures.pop(session.id, None)

    async def _again(self, session_id: str, at: float) -> None:
        if (session := await self._session(session_id)) is not None:
            self._schedule.set(session, RefreshDue(at if session.refresh_token else NEVER, at))

    async def _session(self, session_id: str) -> SessionRecord | None:
        """The session, None where it has ended; waits while the broker is away, else the session would be forgotten."""
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
        position = ANEW
        while True:
            try:
                async with aclosing(self._broker.changes(position)) as changes:
                    async for change in changes:
                        position = change.version
                        if change.type == SESSION:
                            self._saw(change.id, change.record)
                        elif change.type == TOKEN_REFRESH_REQUEST and change.record is not None:
                            self._wanted.want(change.record)
            except StartOver as start_over:
                try:
                    await self._read_all()
                    position, waits = start_over.version, backoff_delays(0.1)
                except BrokerError as error:
                    log.warning("loading sessions to refresh failed", reason=str(error))
                    await asyncio.sleep(next(waits))
            except BrokerError as error:
                log.warning("refresh worker lost change stream", reason=str(error))
                position = ANEW
                await asyncio.sleep(next(waits))

    async def _read_all(self) -> None:
        self._schedule.clear()
        async for record in every(self._broker, SESSION):
            self._saw(record.id, record)
        async for record in every(self._broker, TOKEN_REFRESH_REQUEST):
            self._wanted.want(record)

    def _saw(self, session_id: str, record: Record | None) -> None:
        if record is None:
            self._schedule.forget(session_id)
            self._failures.pop(session_id, None)
        elif session_id not in self._running:  # the renewal itself says when the next is due
            if (session := SessionRecord.parse(record)) is None:
                return
            self._schedule.saw(session, record.modified)
        self._news.set()
