"""Timeline zone: the time zone by which an administrator reads the decision log, chosen once and kept with their visit to the admin."""

from dataclasses import dataclass
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

KEPT = "timeline_zone"


@dataclass(frozen=True, slots=True)
class TimelineZone:
    """Zone; `problem` says what is wrong with the one that was asked for, `is_chosen` whether anybody has asked for any."""

    zone: ZoneInfo
    problem: str
    is_chosen: bool


def zone_of(request: Any, default: str) -> TimelineZone:
    """Zone that the page is asked for, else the one that was chosen before, else `default`."""
    wanted, kept = request.GET.get("zone", "").strip(), request.session.get(KEPT, "")
    if wanted in _known() and wanted != kept:
        kept = request.session[KEPT] = wanted
    problem = "" if wanted in ("", kept) else f"{wanted} is no time zone that is known here; Europe/Berlin is one."
    return TimelineZone(ZoneInfo(kept if kept in _known() else default), problem, bool(wanted or kept))


@cache
def zones() -> tuple[str, ...]:
    """Names that people choose from: of places, and UTC."""
    return ("UTC", *sorted(name for name in _known() if "/" in name and not name.startswith("Etc/")))


@cache
def _known() -> frozenset[str]:
    return frozenset(available_timezones())
