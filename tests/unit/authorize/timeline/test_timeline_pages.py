"""The timeline lists decisions by day and hour of a zone, each once over all pages."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from authorize.models import LoggedDecision
from authorize.timeline import timeline_pages
from authorize.timeline.timeline_pages import TimelinePage, paginate, select_zone, zones

pytestmark = pytest.mark.usefixtures("database")

UTC_ZONE, BERLIN, KOLKATA = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")


def decided(*moments: datetime) -> None:
    for number, at in enumerate(moments):
        LoggedDecision.objects.create(decided_at=at, url=f"a.example/{number}", outcome="allowed", duration_seconds=0, snapshot="{}")


def outline(page: TimelinePage, zone: ZoneInfo) -> list[tuple[str, list[tuple[str, int]]]]:
    return [(str(day.day), [(f"{each.starts_at.astimezone(zone):%H:%M %z}", len(each.rows)) for each in day.hours]) for day in page.days]


def test_the_newest_come_first_under_their_day_and_hour() -> None:
    decided(datetime(2027, 1, 15, 22, 10, tzinfo=UTC), datetime(2027, 1, 15, 22, 50, tzinfo=UTC), datetime(2027, 1, 15, 23, 5, tzinfo=UTC))
    rows = LoggedDecision.objects.all()
    assert outline(paginate(rows, "", UTC_ZONE), UTC_ZONE) == [("2027-01-15", [("23:00 +0000", 1), ("22:00 +0000", 2)])]
    assert outline(paginate(rows, "", BERLIN), BERLIN) == [("2027-01-16", [("00:00 +0100", 1)]), ("2027-01-15", [("23:00 +0100", 2)])]
    assert outline(paginate(rows, "", KOLKATA), KOLKATA) == [("2027-01-16", [("04:00 +0530", 2), ("03:00 +0530", 1)])]


def test_repeated_autumn_hour_is_listed_separately() -> None:
    decided(datetime(2027, 10, 31, 0, 30, tzinfo=UTC), datetime(2027, 10, 31, 1, 30, tzinfo=UTC))
    page = paginate(LoggedDecision.objects.all(), "", BERLIN)
    assert outline(page, BERLIN) == [("2027-10-31", [("02:00 +0100", 1), ("02:00 +0200", 1)])]


def test_pages_hold_each_decision_once_also_of_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_pages, "PAGE_SIZE", 3)
    same = datetime(2027, 1, 15, 22, 10, 1, 234567, tzinfo=UTC)
    decided(*[same] * 5, same + timedelta(microseconds=1), same - timedelta(microseconds=1))
    seen, before = [], ""
    while True:
        page = paginate(LoggedDecision.objects.all(), before, UTC_ZONE)
        displayed = [row.pk for day in page.days for hour in day.hours for row in hour.rows]
        assert len(displayed) <= 3
        seen += displayed
        if page.next_page is None:
            break
        before = page.next_page["before"]
    assert seen == list(LoggedDecision.objects.order_by("-decided_at", "-id").values_list("pk", flat=True))


@pytest.mark.parametrize("before", ["x", "-1", "1-", "1-x", "９-9", "9" * 30 + "-1", "1-" + "9" * 30, "1" * 18 + "-" + "9" * 19])
def test_invalid_position_selects_newest_page(before: str) -> None:
    decided(datetime(1970, 1, 1, tzinfo=UTC))
    assert len(paginate(LoggedDecision.objects.all(), before, UTC_ZONE).days) == 1


def test_an_empty_log_has_no_days() -> None:
    assert paginate(LoggedDecision.objects.all(), "", UTC_ZONE) == TimelinePage([], None)


def resolve(wanted: str, session: dict[str, Any]) -> tuple[str, bool, bool]:
    found = select_zone(SimpleNamespace(GET={"zone": wanted} if wanted else {}, session=session), "Asia/Kolkata")
    return str(found.zone), bool(found.problem), found.is_chosen


def test_zone_is_unchosen_by_default() -> None:
    session: dict[str, Any] = {}
    assert resolve("", session) == ("Asia/Kolkata", False, False)
    assert resolve("Europe/Berlin", session) == ("Europe/Berlin", False, True)
    assert resolve("", session) == ("Europe/Berlin", False, True)
    assert resolve("UTC", session) == resolve("", session) == ("UTC", False, True)


@pytest.mark.parametrize("wanted", ["Mars/Olympus", "../UTC", "/etc/passwd", "utc\x00", "x" * 5000])
def test_invalid_zone_is_reported_and_ignored(wanted: str) -> None:
    session: dict[str, Any] = {}
    assert resolve(wanted, session) == ("Asia/Kolkata", True, True)
    assert session == {}


def test_unknown_stored_zone_is_ignored() -> None:
    assert resolve("", {"timeline_zone": "Mars/Olympus"})[0] == "Asia/Kolkata"


def test_the_form_offers_places() -> None:
    assert zones()[0] == "UTC"
    assert {"Europe/Berlin", "America/Argentina/Buenos_Aires"} <= set(zones())
