"""Pages of the timeline: decisions, newest first, by day and hour of the reader's time zone."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from itertools import groupby
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db.models import Q, QuerySet

from authorize.models import LoggedDecision

PAGE_SIZE = 100
# Columns of a timeline entry.  The snapshots of a hundred decisions take a megabyte.
_COLUMNS = (
    *("decided_at", "display_name", "user_id", "client_id", "method", "url", "mcp_method", "mcp_name"),
    *("route_name", "route_id", "outcome", "reason", "shadow_outcome"),
)
_LETTERS = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class TimelineHour:
    """Hour that starts at `starts_at`, with its decisions."""

    starts_at: datetime
    rows: list[LoggedDecision]


@dataclass(frozen=True, slots=True)
class TimelineDay:
    day: date
    hours: list[TimelineHour]


@dataclass(frozen=True, slots=True)
class TimelinePage:
    """Page of the timeline.  `next_page` is the query of the next page, None on the last."""

    days: list[TimelineDay]
    next_page: Mapping[str, str] | None


def paginate(rows: QuerySet[LoggedDecision], before: str, zone: ZoneInfo) -> TimelinePage:
    """Return the page of decisions older than `before`, a value from `next_page`.  An invalid value selects the newest page."""
    found = list(_before(rows, before).only(*_COLUMNS).order_by("-decided_at", "-id")[: PAGE_SIZE + 1])
    entries = found[:PAGE_SIZE]
    last = entries[-1] if len(found) > PAGE_SIZE else None
    return TimelinePage(list(_days(entries, zone)), None if last is None else {"before": f"{_microseconds(last.decided_at)}-{last.pk}"})


def _before(rows: QuerySet[LoggedDecision], before: str) -> QuerySet[LoggedDecision]:
    at, _, id = before.partition("-")
    if not (at and id and len(before) < 40 and _LETTERS.issuperset(at + id)):
        return rows
    try:
        moment = datetime.fromtimestamp(int(at) // 10**6, UTC).replace(microsecond=int(at) % 10**6)
    except (ValueError, OverflowError, OSError):
        return rows
    # The first condition uses an index, and the second selects among decisions of the same moment.
    return rows.filter(decided_at__lte=moment).filter(Q(decided_at__lt=moment) | Q(pk__lt=min(int(id), 2**63 - 1)))


def _microseconds(decided_at: datetime) -> int:
    return int(decided_at.replace(microsecond=0).timestamp()) * 10**6 + decided_at.microsecond


def _days(rows: Iterable[LoggedDecision], zone: ZoneInfo) -> Iterator[TimelineDay]:
    hours = (TimelineHour(starts_at, list(of_hour)) for starts_at, of_hour in groupby(rows, lambda row: _hour(row, zone)))
    for day, of_day in groupby(hours, lambda hour: hour.starts_at.astimezone(zone).date()):
        yield TimelineDay(day, list(of_day))


def _hour(row: Any, zone: ZoneInfo) -> datetime:
    """Return the start of the hour in UTC, because two hours of an autumn night have the same local time."""
    local: datetime = row.decided_at.astimezone(zone)
    return local.replace(minute=0, second=0, microsecond=0).astimezone(UTC)


ZONE_SESSION_KEY = "timeline_zone"


@dataclass(frozen=True, slots=True)
class TimelineZone:
    """Time zone of the page.  `problem` is the error of an invalid choice.  `is_chosen` is False while the default applies."""

    zone: ZoneInfo
    problem: str
    is_chosen: bool


def select_zone(request: Any, default: str) -> TimelineZone:
    """Return the requested zone, else the zone chosen before, else `default`."""
    requested, stored = request.GET.get("zone", "").strip(), request.session.get(ZONE_SESSION_KEY, "")
    if requested in _known() and requested != stored:
        stored = request.session[ZONE_SESSION_KEY] = requested
    problem = "" if requested in ("", stored) else f"{requested} is no time zone that is known here; Europe/Berlin is one."
    return TimelineZone(ZoneInfo(stored if stored in _known() else default), problem, bool(requested or stored))


@cache
def zones() -> tuple[str, ...]:
    """Return the selectable zone names: locations and UTC."""
    return ("UTC", *sorted(name for name in _known() if "/" in name and not name.startswith("Etc/")))


@cache
def _known() -> frozenset[str]:
    return frozenset(available_timezones())
