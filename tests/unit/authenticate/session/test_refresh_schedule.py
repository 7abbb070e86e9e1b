"""When is which session due?  By a heap: what is not due is not looked at, and what was forgotten does not come up."""

from dataclasses import replace
from typing import Any

import pytest

from authenticate.session.refresh_schedule import NEVER, RefreshDue, RefreshSchedule, can_read_claims, tokens_due
from databroker.records import SessionRecord

SESSION = SessionRecord(
    "s", "oidc/a", "a", "oidc", issued_at=1000.0, expires_at=51_400.0, access_token="x", refresh_token="r", access_token_expires_at=4600.0
)


class Now:
    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def now() -> Now:
    return Now(1000.0)


@pytest.fixture
def schedule(now: Now) -> RefreshSchedule:
    return RefreshSchedule(600.0, now, random_fraction=lambda: 0.5)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, 4540.0),
        ({"access_token_expires_at": 1060.0}, 1030.0),  # halfway, or it would be refreshed without a pause
        ({"tokens_received_at": 4500.0, "access_token_expires_at": 4560.0}, 4530.0),
        ({"refresh_token": ""}, NEVER),
        ({"access_token_expires_at": None}, NEVER),
        ({"expires_at": 4500.0}, NEVER),  # it ends before
    ],
)
def test_tokens_are_due_a_minute_before_they_expire(changes: dict[str, Any], due: float) -> None:
    assert tokens_due(replace(SESSION, **changes)) == due


def test_claims_can_be_read_while_there_is_a_token() -> None:
    assert can_read_claims(SESSION, 5000.0)
    without = replace(SESSION, refresh_token="")
    assert can_read_claims(without, 4599.0)
    assert not can_read_claims(without, 4600.0)
    assert can_read_claims(replace(without, access_token_expires_at=None), 40_000.0)
    assert not can_read_claims(SESSION, 51_400.0)
    assert not can_read_claims(replace(SESSION, access_token=""), 1000.0)


def test_a_session_comes_up_when_it_is_due_and_once(schedule: RefreshSchedule, now: Now) -> None:
    schedule.on_session(SESSION, 1000.0)
    assert (schedule.next(), schedule.pop(1599.0)) == (1600.0, None)
    assert schedule.pop(1600.0) == ("s", RefreshDue(4540.0, 1600.0))
    assert (schedule.pop(9999.0), len(schedule)) == (None, 0)
    now.at = 1601.0
    schedule.on_claims_read(SESSION)
    assert schedule.next() == 2201.0


def test_a_change_of_the_record_does_not_put_off_the_reading(schedule: RefreshSchedule, now: Now) -> None:
    schedule.on_session(SESSION, 1000.0)
    now.at = 1500.0
    schedule.on_session(replace(SESSION, access_token_expires_at=1700.0), 1500.0)
    assert schedule.next() == 1600.0
    assert schedule.pop(1600.0) == ("s", RefreshDue(1640.0, 1600.0))


def test_after_a_pause_the_readings_are_spread(schedule: RefreshSchedule, now: Now) -> None:
    now.at = 40_000.0
    schedule.on_session(replace(SESSION, access_token_expires_at=41_000.0), 1000.0)
    assert schedule.next() == 40_300.0


def test_ended_session_does_not_reappear(schedule: RefreshSchedule) -> None:
    schedule.on_session(SESSION, 1000.0)
    schedule.forget("s")
    assert (schedule.next(), schedule.pop(9999.0)) == (NEVER, None)
    schedule.on_session(SESSION, 1000.0)
    schedule.on_session(replace(SESSION, access_token="", refresh_token=""), 1100.0)
    assert len(schedule) == 0


def test_a_hundred_refreshes_of_each_leave_no_heap_behind(schedule: RefreshSchedule, now: Now) -> None:
    for round in range(100):
        now.at += 10.0
        for number in range(100):
            schedule.on_claims_read(replace(SESSION, id=f"s{number}", access_token_expires_at=5000.0 + round))
    assert len(schedule) == 100
    assert len(schedule._heap) <= 1201


def test_reports_number_of_items(schedule: RefreshSchedule) -> None:
    schedule.on_session(SESSION, 1000.0)
    assert repr(schedule) == "<RefreshSchedule 1 sessions>"
    schedule.clear()
    assert schedule.next() == NEVER
