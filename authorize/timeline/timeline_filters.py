"""Filters of the decision log's timeline, and the matching decisions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from django.db.models import Max, Q, QuerySet
from django.utils import timezone

from authorize.explain.simulation import parse_time
from authorize.models import LoggedDecision
from authorize.policy.compiled_route import route_name
from authorize.policy.decision import Outcome
from config.routes.route import Route
from databroker.admin.row_search import MAX_TERMS
from foundation.values import parse_ip

FIELDS = ("user", "client", "route", "outcome", "within", "from", "to", "q", "shadow_outcome")
TIME_RANGES = {
    "5m": ("The last 5 minutes", timedelta(minutes=5)),
    "1h": ("The last hour", timedelta(hours=1)),
    "1d": ("The last 24 hours", timedelta(days=1)),
    "7d": ("The last 7 days", timedelta(days=7)),
}
# Outcomes of requests without a decision come last.
OUTCOMES = (*(outcome.value for outcome in Outcome), "bad request", "unavailable")
Rows: TypeAlias = QuerySet[LoggedDecision]


@dataclass(slots=True)
class TimelineFilters:
    """Filters of the form, with the `problems` of invalid ones.  If there are problems, no decision matches."""

    values: Mapping[str, str]
    zone: ZoneInfo
    routes: Sequence[Route] = ()
    problems: list[str] = field(default_factory=list)

    @classmethod
    def from_query(cls, query: Mapping[str, str], zone: ZoneInfo, routes: Sequence[Route]) -> "TimelineFilters":
        # A link contains the route's id, which does not change with its name.
        values = {"route": query.get("route_id", ""), **{name: value for name in FIELDS if (value := query.get(name, ""))}}
        return cls({name: value.replace("\x00", "").strip() for name, value in values.items() if value.strip()}, zone, routes)

    def rows(self) -> Rows:
        rows = LoggedDecision.objects.all()
        for name, narrow in (
            ("user", self._filter_user),
            ("client", self._client),
            ("route", self._route),
            ("outcome", self._outcome),
            ("shadow_outcome", self._shadow_outcome),
        ):
            if name in self.values:
                rows = narrow(rows, self.values[name])
        rows = self._times(rows)
        if "q" in self.values:
            try:
                rows = search(rows, self.values["q"])
            except ValueError as error:
                self.problems.append(str(error))
        return rows.none() if self.problems else rows

    def _filter_user(self, rows: Rows, value: str) -> Rows:
        """Match a complete name or id, which are indexed, else a part of one."""
        for lookup in ("user_id", "display_name"):
            if LoggedDecision.objects.filter(**{lookup: value}).exists():
                return rows.filter(**{lookup: value})
        return recent_only(rows).filter(display_name__holds=value)

    def _client(self, rows: Rows, value: str) -> Rows:
        """Match a complete client id, or a part of one, such as the domain of a metadata document."""
        return recent_only(rows).filter(client_id__holds=value)

    def _route(self, rows: Rows, value: str) -> Rows:
        ids = {route.id for route in self.routes if value in (route.id, route_name(route))}
        if ids or LoggedDecision.objects.filter(route_id=value).exists():
            return rows.filter(route_id__in=ids or {value})
        return recent_only(rows).filter(route_name__holds=value)

    def _outcome(self, rows: Rows, value: str) -> Rows:
        if value not in OUTCOMES:
            self.problems.append(f"{value} is no outcome of a decision.")
        return rows.filter(outcome=value)

    def _shadow_outcome(self, rows: Rows, value: str) -> Rows:
        return recent_only(rows).filter(shadow_outcome=value)

    def _times(self, rows: Rows) -> Rows:
        if (span := TIME_RANGES.get(self.values.get("within", ""))) is not None:
            rows = rows.filter(decided_at__gte=timezone.now() - span[1])
        for name, lookup in (("from", "decided_at__gte"), ("to", "decided_at__lt")):
            if name in self.values and (moment := self._moment(self.values[name])) is not None:
                rows = rows.filter(**{lookup: moment})
        return rows

    def _moment(self, text: str) -> datetime | None:
        """Parse a time of the form.  A time without a zone is in the zone of the page."""
        try:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=self.zone)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.problems.append(f"{text} is no time such as 2027-01-31T18:00.")
            return None

    def selected_route_name(self) -> str:
        """Return the name of the selected route."""
        value = self.values.get("route", "")
        return next((route_name(route) for route in self.routes if route.id == value), value)


# No index supports a word in the middle of a text, so only the newest decisions are scanned.
MAX_SCANNED = 200_000
_TIMES = {"after:": "decided_at__gte", "before:": "decided_at__lt"}
_REQUEST_ID = re.compile(r"[0-9A-Fa-f]{32}")


def search(rows: QuerySet[LoggedDecision], text: str) -> QuerySet[LoggedDecision]:
    """Return the decisions that contain all words.  `after:` and `before:` restrict the time.  Other words may match any column.

    Request ids and complete e-mail addresses are matched by index only.  Raises ValueError.
    """
    is_found_by_index = False
    for word in text.replace("\x00", "").split()[:MAX_TERMS]:
        if moment := next((lookup for beginning, lookup in _TIMES.items() if word.startswith(beginning)), None):
            rows = rows.filter(**{moment: _moment(word)})
        elif (named := _named(word)) and rows.filter(**named).exists():
            rows, is_found_by_index = rows.filter(**named), True
        elif address := str(parse_ip(word) or ""):
            rows = (rows if is_found_by_index else recent_only(rows)).filter(client_address__in={word, address})
        else:
            rows = (rows if is_found_by_index else recent_only(rows)).filter(_any_column(word))
    return rows


def recent_only(rows: QuerySet[LoggedDecision]) -> QuerySet[LoggedDecision]:
    """Return the newest decisions, up to the scan limit, selected by time as the timeline and its indexes are."""
    last = LoggedDecision.objects.aggregate(last=Max("pk"))["last"] or 0
    oldest = LoggedDecision.objects.filter(pk__lte=last - MAX_SCANNED).order_by("-pk").values_list("decided_at", flat=True).first()
    return rows if oldest is None else rows.filter(decided_at__gte=oldest)


def _moment(word: str) -> datetime:
    try:
        return datetime.fromtimestamp(parse_time(word.partition(":")[2]), UTC)
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None


def _named(word: str) -> dict[str, Any]:
    """Return the indexed column that may equal this word, empty if its form matches none."""
    if _REQUEST_ID.fullmatch(word):
        return {"request_id": word.lower()}
    return {"display_name": word} if "@" in word else {}


def _any_column(word: str) -> Q:
    exactly = Q(request_id=word) | Q(route_id=word)
    return (
        exactly
        | Q(display_name__holds=word)
        | Q(user_id__holds=word)
        | Q(route_name__holds=word)
        | Q(url__icontains=word)
        | Q(mcp_name__holds=word)
    )
