"""Timeline filters: what an administrator asks of the decision log by the page's form, and the decisions that fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from zoneinfo import ZoneInfo

from django.db.models import QuerySet
from django.utils import timezone

from authorize.models import LoggedDecision
from authorize.policy.compiled_route import name_of
from authorize.policy.decision import Outcome
from authorize.timeline.words import newest, with_words
from config.routes.route import Route

FIELDS = ("person", "route", "outcome", "within", "from", "to", "q", "would_be")
WITHIN = {
    "5m": ("The last 5 minutes", timedelta(minutes=5)),
    "1h": ("The last hour", timedelta(hours=1)),
    "1d": ("The last 24 hours", timedelta(days=1)),
    "7d": ("The last 7 days", timedelta(days=7)),
}
# What stands for an outcome where there was no decision comes last.
OUTCOMES = (*(outcome.value for outcome in Outcome), "bad request", "unavailable")
Rows: TypeAlias = QuerySet[LoggedDecision]


@dataclass(slots=True)
class TimelineFilters:
    """Filters as they were asked for, and `problems` with them, in words; where there are some, no decision fits."""

    said: Mapping[str, str]
    zone: ZoneInfo
    routes: Sequence[Route] = ()
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, query: Mapping[str, str], zone: ZoneInfo, routes: Sequence[Route]) -> "TimelineFilters":
        # A link to a route says its id, which is the same whatever the route is called.
        said = {"route": query.get("route_id", ""), **{name: value for name in FIELDS if (value := query.get(name, ""))}}
        return cls({name: value.replace("\x00", "").strip() for name, value in said.items() if value.strip()}, zone, routes)

    def rows(self) -> Rows:
        rows = LoggedDecision.objects.all()
        for name, narrow in (("person", self._person), ("route", self._route), ("outcome", self._outcome), ("would_be", self._would_be)):
            if name in self.said:
                rows = narrow(rows, self.said[name])
        rows = self._times(rows)
        if "q" in self.said:
            try:
                rows = with_words(rows, self.said["q"])
            except ValueError as error:
                self.problems.append(str(error))
        return rows.none() if self.problems else rows

    def _person(self, rows: Rows, wanted: str) -> Rows:
        """By one of the names, whole, which have indexes; else by a part of one."""
        for lookup in ("person_id", "person"):
            if LoggedDecision.objects.filter(**{lookup: wanted}).exists():
                return rows.filter(**{lookup: wanted})
        return newest(rows).filter(person__holds=wanted)

    def _route(self, rows: Rows, wanted: str) -> Rows:
        ids = {route.id for route in self.routes if wanted in (route.id, name_of(route))}
        if ids or LoggedDecision.objects.filter(route_id=wanted).exists():
            return rows.filter(route_id__in=ids or {wanted})
        return newest(rows).filter(route__holds=wanted)

    def _outcome(self, rows: Rows, wanted: str) -> Rows:
        if wanted not in OUTCOMES:
            self.problems.append(f"{wanted} is no outcome of a decision.")
        return rows.filter(outcome=wanted)

    def _would_be(self, rows: Rows, wanted: str) -> Rows:
        return newest(rows).filter(would_be=wanted)

    def _times(self, rows: Rows) -> Rows:
        if (span := WITHIN.get(self.said.get("within", ""))) is not None:
            rows = rows.filter(at__gte=timezone.now() - span[1])
        for name, lookup in (("from", "at__gte"), ("to", "at__lt")):
            if name in self.said and (moment := self._moment(self.said[name])) is not None:
                rows = rows.filter(**{lookup: moment})
        return rows

    def _moment(self, written: str) -> datetime | None:
        """A time as the page's fields write it; without a zone it is of the page's."""
        try:
            moment = datetime.fromisoformat(written)
            return (moment if moment.tzinfo else moment.replace(tzinfo=self.zone)).astimezone(UTC)
        except (ValueError, OverflowError):
            self.problems.append(f"{written} is no time such as 2027-01-31T18:00.")
            return None

    def name_of_route(self) -> str:
        """The route that is asked for, as people call it."""
        wanted = self.said.get("route", "")
        return next((name_of(route) for route in self.routes if route.id == wanted), wanted)
