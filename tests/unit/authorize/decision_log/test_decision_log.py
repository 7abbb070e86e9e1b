"""Is every refusal kept, the rest sampled, and nothing piled up?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authorize.decision_log.decision_log import BATCH_SIZE, FIRST_SEEN_WINDOW_SECONDS, DecisionLog, DecisionLogEntry, QueuedEntry
from authorize.policy.decision import NO_ROUTE, decide
from foundation.errors import BrokerError
from foundation.telemetry import metrics
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, make_route, request, table, user

ROUTES = table(make_route(allowed_users=["ann@corp.com"]))
ANN, BOB = user(), user("bob@corp.com", subject="2")


class Log(DecisionLog):
    def __init__(self, directory: Path, *, chance: float = 0.99, max_queued: int = 1000, **settings: Any):
        self.written: list[QueuedEntry] = []
        self.now = NOW
        self.is_broken = False
        self.error: Exception = BrokerError("the database is away")
        super().__init__(self._take, clock=lambda: self.now, chance=lambda: chance, max_queued=max_queued)
        self.configure(make_options(directory, **settings), "c0ffee")

    def _take(self, entries: Sequence[QueuedEntry]) -> None:
        if self.is_broken:
            raise self.error
        self.written += entries

    def add(self, user=ANN, request_id: str = "r1", **facts: Any) -> bool:
        incoming = request("/a?token=1", **facts)
        decision = decide(incoming, user, ROUTES, NOW)
        if not self.should_log(decision, user, ""):
            return False
        self.enqueue(DecisionLogEntry(request_id, incoming, decision, user, 0.001, "192.0.2.1"))
        return True


def dropped() -> float:
    return metrics.registry.get_sample_value("gate_decision_log_dropped_total") or 0.0


def test_logs_every_denial_and_first_allowed_request_per_user_and_route(tmp_path: Path) -> None:
    log = Log(tmp_path)
    assert [log.add(BOB) for _ in range(3)] == [True, True, True]
    assert [log.add(ANN) for _ in range(3)] == [True, False, False]
    assert [log.add(None) for _ in range(2)] == [True, False]
    assert log.should_log(NO_ROUTE, None, "")
    assert log.should_log(None, None, "")
    signed_out = decide(request("/a"), None, ROUTES, NOW)
    assert [log.should_log(signed_out, None, reason) for reason in ("", "expired token")] == [False, True]
    log.now += FIRST_SEEN_WINDOW_SECONDS
    assert log.add(ANN)


@pytest.mark.parametrize(("chance", "is_recorded"), [(0.49, True), (0.5, False)])
def test_allowed_requests_are_sampled(tmp_path: Path, chance: float, is_recorded: bool) -> None:
    log = Log(tmp_path, chance=chance, decision_log_sample_rate=0.5)
    log.add(ANN)
    assert log.add(ANN) is is_recorded


def test_logs_nothing_if_size_is_zero(tmp_path: Path) -> None:
    assert not Log(tmp_path, decision_log_size=0).add(BOB)


async def test_the_oldest_is_dropped_and_counted_where_too_many_wait(tmp_path: Path) -> None:
    log, before = Log(tmp_path, max_queued=3), dropped()
    for number in range(5):
        log.add(BOB, request_id=str(number))
    await log.flush()
    assert [entry.request_id for entry, _ in log.written] == ["2", "3", "4"]
    assert dropped() - before == 2


@pytest.mark.parametrize("error", [BrokerError("the database is away"), ValueError("unexpected")], ids=["away", "unexpected"])
async def test_batch_is_bounded_and_unwritable_entries_are_counted(tmp_path: Path, error: Exception) -> None:
    log, before = Log(tmp_path), dropped()
    log.error = error
    for _ in range(BATCH_SIZE + 1):
        log.add(BOB)
    log.is_broken = True
    with capture_logs() as logged:
        await log.flush()
    log.is_broken = False
    await log.flush()
    assert (len(log.written), dropped() - before) == (1, BATCH_SIZE)
    assert [(line["count"], line["reason"]) for line in logged] == [(BATCH_SIZE, str(error))]


async def test_queued_entry_has_no_query_and_only_referenced_headers(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.add(BOB, headers=((b"cookie", b"_gate=abc"),))
    await log.flush()
    ((entry, keeping),) = log.written
    assert entry.decision is not None
    assert entry.decision.context is not None
    for request_ in (entry.request, entry.decision.context.request):
        assert (request_.query, request_.headers) == ("", ())
    assert (entry.decided_at, keeping.configuration) == (NOW, "c0ffee")
