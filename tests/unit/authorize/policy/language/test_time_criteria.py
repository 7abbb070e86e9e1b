"""When does a rule on time hold?"""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from authorize.policy.decision import Outcome, decide
from tests.unit.authorize.builders import NOW, make_route, request, table, user
from tests.unit.authorize.policy.policy_texts import answer


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("bounds", "moment", "expected"),
    [
        ({"after": "08:00"}, "2027-01-15T08:00:00", True),
        ({"after": "08:00"}, "2027-01-15T07:59:59", False),
        ({"before": "08:00"}, "2027-01-15T07:59:59", True),
        ({"before": "08:00"}, "2027-01-15T08:00:00", False),
        ({"before": "24:00"}, "2027-01-15T23:59:59", True),
        ({"after": "08:00", "zone": "Europe/Berlin"}, "2027-01-15T07:00:00", True),
        ({"after": "08:00", "zone": "Europe/Berlin"}, "2027-07-15T06:00:00", True),
        ({"after": "08:00", "zone": "Europe/Berlin"}, "2027-01-15T06:00:00", False),
    ],
)
def test_the_time_of_day(bounds: dict[str, str], moment: str, expected: bool) -> None:
    assert answer({"time_of_day": bounds}, now=at(moment)) is expected


@pytest.mark.parametrize(("moment", "expected"), [("23:00", True), ("03:00", True), ("06:00", False), ("21:59:59", False), ("22:00", True)])
def test_a_night_goes_round_midnight(moment: str, expected: bool) -> None:
    policy = [{"allow": {"time_of_day": {"after": "22:00", "before": "06:00"}}}]
    found = decide(request(), None, table(make_route(policy=policy)), at(f"2027-01-15T{moment}"))
    assert found.outcome is (Outcome.ALLOWED if expected else Outcome.FORBIDDEN)


@pytest.mark.parametrize(
    ("days", "expected"),
    [("fri", True), (["mon", "Friday"], True), ("mon-fri", True), ("sat-thu", False), ("thu-mon", True), ({"not_in": ["fri"]}, False),
    ({"is": "thu", "zone": "Pacific/Honolulu"}, True)],
)  # fmt: skip
def test_the_day_of_the_week(days: Any, expected: bool) -> None:
    assert answer({"day_of_week": days}, now=NOW) is expected


@pytest.mark.parametrize(
    ("bounds", "moment", "expected"),
    [
        ("2027-01-15", "2027-01-15T23:59:59", True),
        ("2027-01-15", "2027-01-16T00:00:00", False),
        ({"is": "2027-03-28", "zone": "Europe/Berlin"}, "2027-03-28T21:59:59", True),
        ({"is": "2027-03-28", "zone": "Europe/Berlin"}, "2027-03-28T22:00:00", False),
        ({"after": "2027-01-15"}, "2027-01-15T00:00:00", True),
        ({"before": "2027-01-15"}, "2027-01-15T00:00:00", False),
        ({"before": "2027-01-15T18:00", "zone": "America/New_York"}, "2027-01-15T22:59:59", True),
    ],
)
def test_the_date(bounds: Any, moment: str, expected: bool) -> None:
    assert answer({"date": bounds}, now=at(moment)) is expected


@pytest.mark.parametrize(
    ("written", "issued", "expected"),
    [
        ("1h", NOW - 3600, True),
        ("1h", NOW - 3601, False),
        ({"at_least": "1h"}, NOW - 3600, True),
        ({"at_least": "1h"}, NOW - 3599, False),
        ("1h", NOW + 30, True),
        ("1h", NOW + 61, None),
        ({"at_least": "1h"}, 0.0, None),
    ],
)
def test_the_age_of_a_session(written: Any, issued: float, expected: bool | None) -> None:
    assert answer({"session_age": written}, user(issued_at=issued)) is expected
    assert answer({"session_age": written}, None) == "maybe"


def test_a_route_knows_that_time_may_change_its_answer() -> None:
    timed, untimed = table(make_route(policy=[{"deny": {"not": {"date": "2027-01-15"}}}]), make_route(prefix="/a")).routes()
    assert (timed.is_time_dependent, untimed.is_time_dependent) == (True, False)
