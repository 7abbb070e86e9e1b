"""Is the zone that a reader has chosen kept, and is any other word none?"""

from types import SimpleNamespace
from typing import Any

import pytest

from authorize.timeline.zone import zone_of, zones


def asked(wanted: str, session: dict[str, Any]) -> tuple[str, bool, bool]:
    found = zone_of(SimpleNamespace(GET={"zone": wanted} if wanted else {}, session=session), "Asia/Kolkata")
    return str(found.zone), bool(found.problem), found.is_chosen


def test_nobody_has_chosen_until_somebody_does() -> None:
    session: dict[str, Any] = {}
    assert asked("", session) == ("Asia/Kolkata", False, False)
    assert asked("Europe/Berlin", session) == ("Europe/Berlin", False, True)
    assert asked("", session) == ("Europe/Berlin", False, True)
    assert asked("UTC", session) == asked("", session) == ("UTC", False, True)


@pytest.mark.parametrize("wanted", ["Mars/Olympus", "../UTC", "/etc/passwd", "utc\x00", "x" * 5000])
def test_what_is_no_zone_is_told_and_changes_nothing(wanted: str) -> None:
    session: dict[str, Any] = {}
    assert asked(wanted, session) == ("Asia/Kolkata", True, True)
    assert session == {}


def test_a_zone_that_was_kept_by_another_release_is_none() -> None:
    assert asked("", {"timeline_zone": "Mars/Olympus"})[0] == "Asia/Kolkata"


def test_the_form_offers_places() -> None:
    assert zones()[0] == "UTC"
    assert {"Europe/Berlin", "America/Argentina/Buenos_Aires"} <= set(zones())
