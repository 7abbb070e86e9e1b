"""Does a replay for a page stop where it should, with the newest first, and leave the processor to requests?"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from authorize.explain import bounded_replay
from authorize.explain.bounded_replay import BoundedReplay, ReplayUnderWay, replay_newest
from authorize.explain.replay import LET_IN
from authorize.models import LoggedDecision
from authorize.policy.route_table import RouteTable
from authorize.state import route_table
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import APP, log_decision

BOB = user("bob@corp.com", subject="2")


@pytest.fixture
def table(database: None, tmp_path: Path) -> RouteTable:
    for number in range(5):
        log_decision(tmp_path, f"r{number}", BOB)
    return route_table(make_options(tmp_path, policy=[{**APP, "allow_any_authenticated_user": True, "name": "Wages"}]))


def replayed(table: RouteTable, ticks: Iterator[float] | None = None, rests: list[float] | None = None) -> BoundedReplay:
    clock = iter([0.0] * 1000) if ticks is None else ticks
    return replay_newest(LoggedDecision.objects.all(), table, lambda: next(clock), (rests if rests is not None else []).append)


def test_all_are_made_again_where_there_are_few(table: RouteTable) -> None:
    done = replayed(table)
    (change,) = done.report.changes.values()
    assert (done.looked, done.stopped, done.report.replayed) == (5, "", 5)
    assert (change.kind, change.person, change.requests, change.last) == (LET_IN, "bob@corp.com", 5, "r4")


def test_of_many_the_newest_are_made_again(table: RouteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_replay, "MOST", 3)
    done = replayed(table)
    assert (done.looked, done.report.replayed) == (3, 3)
    assert "newest 3 decisions" in done.stopped
    monkeypatch.setattr(bounded_replay, "MOST", 5)
    assert replayed(table).stopped == ""


def test_after_its_time_it_stops_and_rests_before_that(table: RouteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_replay, "SLICE", 2)
    rests: list[float] = []
    done = replayed(table, (3.0 * tick for tick in count()), rests)
    assert done.looked == 4
    assert "after 5 seconds" in done.stopped
    assert rests == [bounded_replay.REST] * 2


def test_one_is_under_way_at_a_time_whatever_becomes_of_it(table: RouteTable) -> None:
    def another(_: float) -> None:
        replayed(table)

    bounded_replay_rows = LoggedDecision.objects.all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_replay, "SLICE", 1)
        with pytest.raises(ReplayUnderWay):
            replay_newest(bounded_replay_rows, table, lambda: 0.0, another)
    assert replayed(table).looked == 5


def test_nothing_is_made_of_nothing(table: RouteTable) -> None:
    LoggedDecision.objects.all().delete()
    assert replayed(table).looked == 0
