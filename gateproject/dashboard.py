"""Dashboard of the admin: how gate does at this moment, counted from the tables that the admin shows."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from authorize.models import LoggedDecision
from authorize.page_context import page_context
from authorize.policy.decision import Outcome
from databroker.models import DirectoryRun, Session, User

# A count of a whole day would take as long as the day was busy.
LATEST = 5_000
MOST_ROUTES = 8
DAY = timedelta(days=1)
REFUSALS = (Outcome.FORBIDDEN.value, Outcome.CERTIFICATE.value)


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of a chart; `percent` of the longest one."""

    words: str
    number: int
    percent: int
    address: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Dashboard's figures.  `decisions` is how many the bars count, since `oldest`."""

    sessions: int
    signed_in: int
    configuration: Any
    directory: DirectoryRun | None
    decisions: int
    oldest: Any
    outcomes: tuple[Bar, ...]
    refused: tuple[Bar, ...]


def dashboard_of(request: HttpRequest) -> Dashboard:
    latest = list(LoggedDecision.objects.order_by("-id").values_list("outcome", "route", "at")[:LATEST])
    refused = ((outcome, route) for outcome, route, _ in latest if outcome in REFUSALS)
    outcomes = Counter(outcome for outcome, _, _ in latest)
    return Dashboard(
        sessions=Session.objects.exclude(expires__lte=timezone.now()).count(),  # what has expired goes by and by
        signed_in=User.objects.filter(last_sign_in__gte=timezone.now() - DAY).count(),
        configuration=page_context(request).configuration,
        directory=DirectoryRun.objects.order_by("-began").first(),
        decisions=len(latest),
        oldest=latest[-1][2] if latest else None,
        outcomes=_bars((outcome, number, {"outcome": outcome}) for outcome, number in outcomes.most_common()),
        refused=_bars(
            (f"{route}: {outcome}", number, {"outcome": outcome, "q": route})
            for (outcome, route), number in Counter(refused).most_common(MOST_ROUTES)
        ),
    )


def _bars(counted: Iterable[tuple[str, int, dict[str, str]]]) -> tuple[Bar, ...]:
    """Bars of what is counted, the longest first."""
    counts, page = list(counted), reverse("admin:authorize_loggeddecision_changelist")
    return tuple(
        Bar(words, number, max(1, round(100 * number / counts[0][1])), f"{page}?{urlencode(lookups)}") for words, number, lookups in counts
    )
