"""Bounded replay, for a page: the newest decisions made again by a policy, as many as a moment allows, beside requests."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import QuerySet

from authorize.explain.replay import ReplayReport, replay_one
from authorize.models import LoggedDecision
from authorize.policy.route_table import RouteTable
from foundation.errors import GateError

MOST = 20_000  # decisions
LONGEST = timedelta(seconds=5)
# Judging takes the processor from requests: after each few decisions it is theirs for a while.
SLICE, REST = 50, 0.005
_one_at_a_time = threading.Lock()


class ReplayUnderWay(GateError):
    """Another replay is under way in this process."""

    status = 503


@dataclass(slots=True)
class BoundedReplay:
    """Replay of `looked` decisions, the newest; `stopped` says why there were no more."""

    report: ReplayReport = field(default_factory=ReplayReport)
    looked: int = 0
    stopped: str = ""


def replay_newest(
    rows: QuerySet[LoggedDecision],
    table: RouteTable,
    now: Callable[[], float] = time.monotonic,
    rest: Callable[[float], None] = time.sleep,
) -> BoundedReplay:
    """Replay of these decisions by the routes of a policy; ReplayUnderWay.  Called in a thread, of which it takes LONGEST at most."""
    if not _one_at_a_time.acquire(blocking=False):
        raise ReplayUnderWay("another replay is running. Try again in a moment")
    try:
        return _replayed(rows, table, now, rest)
    finally:
        _one_at_a_time.release()


def _replayed(rows: QuerySet[LoggedDecision], table: RouteTable, now: Callable[[], float], rest: Callable[[float], None]) -> BoundedReplay:
    done, ends = BoundedReplay(), now() + LONGEST.total_seconds()
    for row in rows.order_by("-at", "-id")[: MOST + 1].iterator(chunk_size=SLICE):
        if done.looked == MOST:
            done.stopped = f"Only the newest {MOST:,} decisions are replayed on this page."
            break
        if done.looked % SLICE == 0 and done.looked:
            rest(REST)
            if now() >= ends:
                done.stopped = f"Stopped after {LONGEST.seconds} seconds: the rest was not replayed."
                break
        replay_one(row, table, done.report)
        done.looked += 1
    return done
