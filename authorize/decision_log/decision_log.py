"""Decision log: select decisions for administrators, and queue them for one writer."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog
from asgiref.sync import sync_to_async

from authorize.authorizer import AuthorizationResult, Authorizer, ShadowOutcome
from authorize.decision_log.decision_snapshot import PolicyInputs, bounded, referenced_inputs
from authorize.decision_log.shadow_policy import log_shadow_outcome
from authorize.policy.criterion import EvaluationContext
from authorize.policy.decision import Decision, Outcome
from authorize.policy.identity import Identity, IdentitySources
from authorize.policy.policy_request import PolicyRequest
from config.options import Options
from foundation.errors import BrokerError, GateError
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

# Writing uses the processor that requests need.  The writer pauses thirty times as long as it wrote, and writes at most 200 decisions per
# second.
BATCH_SIZE = 100
PAUSE_SECONDS = 0.5  # seconds
IDLE_RATIO = 30.0
MAX_PAUSE_SECONDS = 10.0  # upper limit, because a slow database uses no processor
MAX_QUEUED = 10_000
# The first decision of each user on each route in this period is always logged.
FIRST_SEEN_WINDOW_SECONDS = 3600.0
MAX_FIRST_SEEN = 50_000

_SAMPLED = frozenset({Outcome.ALLOWED, Outcome.SIGN_IN, Outcome.STEP_UP})


@dataclass(slots=True)  # not frozen, because one is created per logged decision
class DecisionLogEntry:
    """Entry of the decision log.

    `decision` is None if no decision was made.  Then `failure` is the outcome and `error` the reason.  `token_error` is the reason why a
    token was rejected.
    """

    request_id: str
    request: PolicyRequest
    decision: Decision | None
    identity: Identity | None
    duration_seconds: float
    client_address: str
    decided_at: float = 0.0
    sources: IdentitySources | None = None
    shadow_outcome: ShadowOutcome | None = None
    failure: str = ""
    error: str = ""
    token_error: str = ""

    @property
    def shadow_differs(self) -> bool:
        return self.shadow_outcome is not None and self.decision is not None and self.shadow_outcome.outcome != self.decision.outcome.value


def failure_outcome(status: int | None) -> str:
    """Return the logged outcome of a request without a decision.  `status` is the status of its response."""
    return "unavailable" if status == BrokerError.status else "bad request"


@dataclass(frozen=True, slots=True)
class DecisionLogSettings:
    """Settings of the decision log.  `configuration` is the checksum of the configuration in force."""

    size: int
    age: float  # seconds
    sample_rate: float
    looked: PolicyInputs
    configuration: str

    @classmethod
    def from_options(cls, options: Options, configuration: str) -> "DecisionLogSettings":
        rate, age = float(options.decision_log_sample_rate), options.decision_log_age.total_seconds()
        return cls(options.decision_log_size, age, rate, referenced_inputs(options.policy), configuration)


QueuedEntry = tuple[DecisionLogEntry, DecisionLogSettings]
Write = Callable[[Sequence[QueuedEntry]], None]


class DecisionLog:
    """Queue of decisions.  `write` is called in a thread; BrokerError where it can't write.  Until `configure` nothing is kept."""

    def __init__(
        self,
        write: Write,
        *,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        pause: float = PAUSE_SECONDS,
        max_queued: int = MAX_QUEUED,
    ):
        self._write = write
        self._clock = clock
        self._chance = chance
        self._pause = pause
        self._max_queued = max_queued
        self._settings: DecisionLogSettings | None = None
        self._queue: deque[QueuedEntry] = deque()
        self._first_seen: set[tuple[str, str]] = set()
        self._first_seen_since = 0.0

    def __repr__(self) -> str:
        return f"<DecisionLog {len(self._queue)} waiting>"

    def configure(self, options: Options, configuration: str) -> None:
        self._settings = DecisionLogSettings.from_options(options, configuration) if options.decision_log_size else None

    def should_log(
        self, decision: Decision | None, identity: Identity | None, token_error: str, shadow_outcome: ShadowOutcome | None = None
    ) -> bool:
        """Return whether to log a decision.

        Denials and differing shadow outcomes are logged, and the first decision of each user on a route.  Others are sampled.
        """
        if self._settings is None:
            return False
        if decision is None or token_error or decision.outcome not in _SAMPLED or decision.compiled_route is None:
            return True
        is_first = self._is_first(identity.user_id if identity else "", decision.compiled_route.id)
        differs = shadow_outcome is not None and shadow_outcome.outcome != decision.outcome.value
        return is_first or differs or self._chance() < self._settings.sample_rate

    def _is_first(self, user_id: str, route_id: str) -> bool:
        now = self._clock()
        if now - self._first_seen_since >= FIRST_SEEN_WINDOW_SECONDS or len(self._first_seen) >= MAX_FIRST_SEEN:
            self._first_seen, self._first_seen_since = set(), now
        known = len(self._first_seen)
        self._first_seen.add((user_id, route_id))
        return len(self._first_seen) > known

    def enqueue(self, entry: DecisionLogEntry) -> None:
        """Queue an entry for which `should_log` returned True.

        If the queue is full, the oldest entry is dropped, because administrators ask about the newest.
        """
        if (settings := self._settings) is None:
            return
        # the time that rules compared
        entry.decided_at = (
            entry.decision.context.now if entry.decision is not None and entry.decision.context is not None else self._clock()
        )
        entry.request = bounded(entry.request, settings.looked)
        if entry.decision is not None and entry.decision.context is not None:
            context = entry.decision.context
            entry.decision = replace(entry.decision, context=EvaluationContext(entry.request, context.identity, context.now, context.route))
        if len(self._queue) >= self._max_queued:
            self._queue.popleft()
            metrics.decisions_dropped.inc()
        self._queue.append((entry, settings))

    async def run(self) -> None:
        now, pause = asyncio.get_running_loop().time, self._pause
        while True:
            await asyncio.sleep(pause)
            started = now()
            await self.flush()
            pause = min(max(self._pause, (now() - started) * IDLE_RATIO), MAX_PAUSE_SECONDS)

    async def flush(self) -> None:
        """Write one batch; one that can't be written is lost, and counted, so that nothing piles up behind it."""
        batch = [self._queue.popleft() for _ in range(min(BATCH_SIZE, len(self._queue)))]
        if not batch:
            return
        try:
            await sync_to_async(self._write)(batch)
        except Exception as error:  # any error, because later batches must still be written
            metrics.decisions_dropped.inc(len(batch))
            trace = None if isinstance(error, BrokerError) else error
            log.warning("decision log write failed", count=len(batch), reason=str(error), exc_info=trace)


OnSessionActivity = Callable[[str, float, str], None]


class DecisionRecorder:
    """Recorder of checks.  `on_session_activity` is called for each allowed request of a session with its id, the time and the host."""

    def __init__(self, decisions: DecisionLog, on_session_activity: OnSessionActivity, clock: Callable[[], float] = time.time):
        self._decisions = decisions
        self._on_session_activity = on_session_activity
        self._clock = clock

    async def check(self, authorize: Authorizer, request: PolicyRequest, cookies: Sequence[bytes], request_id: str) -> AuthorizationResult:
        """Check a request and log the decision.

        An empty `request_id` denotes the re-evaluation of an open stream, which is not logged.
        """
        if not request_id:
            return await authorize.check(request, cookies)
        entry, started = DecisionLogEntry(request_id, request, None, None, 0.0, request.source_ip), time.perf_counter()
        try:
            authorization = await authorize.check(request, cookies, request_id)
        except GateError as error:
            entry.failure, entry.error = failure_outcome(error.status), error.operator_message
            entry.duration_seconds = time.perf_counter() - started
            self._log(entry)
            raise
        entry.duration_seconds = time.perf_counter() - started
        entry.decision, entry.identity, entry.token_error = authorization.decision, authorization.identity, authorization.token_error
        if authorize.has_shadow and (shadow_outcome := await authorize.evaluate_shadow(request, authorization, cookies)) is not None:
            entry.shadow_outcome = shadow_outcome
            log_shadow_outcome(request_id, authorization.decision, authorization.identity, shadow_outcome)
        if authorization.identity is not None:
            entry.sources = authorization.identity.sources
            if authorization.decision.is_allowed:
                self._on_session_activity(authorization.identity.session_id, self._clock(), request.host_port)
        self._log(entry)
        return authorization

    def _log(self, entry: DecisionLogEntry) -> None:
        if self._decisions.should_log(entry.decision, entry.identity, entry.token_error, entry.shadow_outcome):
            self._decisions.enqueue(entry)
