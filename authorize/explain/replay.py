"""Policy replay: re-evaluate logged decisions under another policy, and report changed outcomes.

The admin page replays only the newest decisions, within a time limit, while requests are served.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from authorize.decision_log.decision_snapshot import identity_from_snapshot, missing_inputs, parse_request_snapshot
from authorize.models import LoggedDecision
from authorize.policy import decision_text
from authorize.policy.decision import Outcome, evaluate_route
from authorize.policy.route_table import RouteTable
from foundation.errors import BadRequest, GateError

_PROMPTS = frozenset({Outcome.SIGN_IN.value, Outcome.STEP_UP.value})
NEWLY_DENIED, NEWLY_ALLOWED, NEWLY_PROMPTED = "newly denied", "newly allowed", "newly redirected to sign-in"
TITLES = {NEWLY_DENIED: "Newly denied", NEWLY_ALLOWED: "Newly allowed", NEWLY_PROMPTED: "Newly redirected to sign-in"}
_NO_DECISION = frozenset({"unavailable"})

MAX_DECISIONS = 20_000  # decisions
MAX_DURATION = timedelta(seconds=5)
# Evaluation uses the processor that requests need, so the replay pauses after each batch.
BATCH_SIZE, PAUSE_SECONDS = 50, 0.005
_one_at_a_time = threading.Lock()


@dataclass(slots=True)
class ChangedOutcome:
    """Changed outcome of one user on one route.  `last_request_id` is the newest request, `reason` that of the new outcome."""

    kind: str
    route: str
    user: str
    requests: int = 0
    last_request_id: str = ""
    reason: str = ""


@dataclass(slots=True)
class ReplayReport:
    replayed: int = 0
    changes: dict[tuple[str, str, str], ChangedOutcome] = field(default_factory=dict)
    not_replayed: Counter[str] = field(default_factory=Counter)
    _newest: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def changes_of_kind(self, kind: str) -> list[ChangedOutcome]:
        return sorted((change for change in self.changes.values() if change.kind == kind), key=lambda change: (change.route, change.user))

    def add(self, row: Any, kind: str, reason: str) -> None:
        key = kind, row.route_name or row.url.partition("/")[0], row.display_name or "anonymous"
        change = self.changes.setdefault(key, ChangedOutcome(*key))
        change.requests += 1
        if row.pk >= self._newest.get(key, 0):
            self._newest[key], change.last_request_id, change.reason = row.pk, row.request_id, reason


class ReplayInProgress(GateError):
    """Another replay is running in this process."""

    status = 503


@dataclass(slots=True)
class BoundedReplay:
    """Replay of `looked` decisions, the newest; `stopped` says why there were no more."""

    report: ReplayReport = field(default_factory=ReplayReport)
    examined: int = 0
    stop_reason: str = ""


def replay(rows: Iterable[Any], table: RouteTable) -> ReplayReport:
    """Replay of LoggedDecisions."""
    report = ReplayReport()
    for row in rows:
        replay_one(row, table, report)
    return report


def replay_newest(
    rows: QuerySet[LoggedDecision],
    table: RouteTable,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> BoundedReplay:
    """Replay the newest decisions by the routes of a policy, for at most MAX_DURATION.  Call it in a thread.

    Raises ReplayInProgress if another replay is running.
    """
    if not _one_at_a_time.acquire(blocking=False):
        raise ReplayInProgress("another replay is running. Try again in a moment")
    try:
        return _replayed(rows, table, now, pause)
    finally:
        _one_at_a_time.release()


def _replayed(rows: QuerySet[LoggedDecision], table: RouteTable, now: Callable[[], float], pause: Callable[[float], None]) -> BoundedReplay:
    done, ends = BoundedReplay(), now() + MAX_DURATION.total_seconds()
    for row in rows.order_by("-decided_at", "-id")[: MAX_DECISIONS + 1].iterator(chunk_size=BATCH_SIZE):
        if done.examined == MAX_DECISIONS:
            done.stop_reason = f"Only the newest {MAX_DECISIONS:,} decisions are replayed on this page."
            break
        if done.examined % BATCH_SIZE == 0 and done.examined:
            pause(PAUSE_SECONDS)
            if now() >= ends:
                done.stop_reason = f"Stopped after {MAX_DURATION.seconds} seconds: the rest was not replayed."
                break
        replay_one(row, table, done.report)
        done.examined += 1
    return done


def replay_one(row: Any, table: RouteTable, report: ReplayReport) -> None:
    if problem := _replay(row, table, report):
        report.not_replayed[problem] += 1
    else:
        report.replayed += 1


def _replay(row: Any, table: RouteTable, report: ReplayReport) -> str:
    """Return why the decision could not be replayed, "" if it was."""
    if row.outcome in _NO_DECISION:
        return "the data broker was unavailable at the time"
    try:
        facts = json.loads(row.snapshot)
        request, identity_snapshot = facts["request"], facts.get("identity")
        policy_request, identity = parse_request_snapshot(request), identity_from_snapshot(identity_snapshot)
    except (KeyError, TypeError, ValueError):  # another release may have written a different format
        return "the logged facts can't be read"
    if "truncated" in request:
        return f"{request['truncated']} was truncated in the log"
    try:
        route = table.match(policy_request)
    except BadRequest as error:
        _compare(row, None, f"the request is rejected: {error.operator_message}", report)
        return ""
    if route is None:
        _compare(row, Outcome.NO_ROUTE, "no route matches", report)
        return ""
    if missing := missing_inputs(route.route, request, identity_snapshot):
        return f"not logged: {missing}"
    certificate = policy_request.client_certificate
    if route.client_ca is not None and certificate is not None and route.client_ca.id not in certificate.verification_errors:
        return "its client certificate was not verified against this CA"
    decision = evaluate_route(policy_request, identity, route, row.decided_at.timestamp())
    _compare(row, decision.outcome, decision_text.user_message(decision), report)
    return ""


def _compare(row: Any, outcome: Outcome | None, reason: str, report: ReplayReport) -> None:
    """Report the change, if any.  A denial after a sign-in prompt counts as newly denied, because signing in might have led to access."""
    was_allowed, was_prompted = row.outcome == Outcome.ALLOWED.value, row.outcome in _PROMPTS
    if outcome is Outcome.ALLOWED:
        kind = None if was_allowed else NEWLY_ALLOWED
    elif outcome is not None and outcome.value in _PROMPTS:
        kind = None if was_prompted else NEWLY_PROMPTED
    else:
        kind = NEWLY_DENIED if was_allowed or was_prompted else None
    if kind is not None:
        report.add(row, kind, reason)
