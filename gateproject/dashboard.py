"""Dashboard of the admin: the current state, counted from the admin's tables."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.http import urlencode

from authenticate.access_requests.requested_access import route_title
from authenticate.admin import take
from authorize.models import LoggedDecision
from authorize.policy.decision import Outcome
from databroker.admin.directory_run_admin import latest_runs
from databroker.grants.access_request_store import AccessRequestStore
from databroker.models import DirectoryRun, Session, User
from foundation.errors import BrokerError
from foundation.readiness import ComponentStatus, ReadinessState
from proxy.admin import last_errors
from proxy.service import ProxyPageContext, page_context

# Counting a complete day would take longer on busier days.
DECISION_SAMPLE = 5_000
MAX_ROUTES = 8
DAY = timedelta(days=1)
MAX_WAITING = 100
CHART_COLUMNS, CHART_HEIGHT = 24, 60  # size of the chart over time
REFUSALS = (Outcome.FORBIDDEN.value, Outcome.CERTIFICATE.value)


@dataclass(frozen=True, slots=True)
class Bar:
    """Bar of a chart; `percent` is relative to the longest one."""

    label: str
    number: int
    percent: int
    address: str


@dataclass(frozen=True, slots=True)
class Column:
    """Column of the chart over time at `x`: heights of denied (bottom) and of all decisions, at most HIGH."""

    x: int
    refused: int
    total: int

    @property
    def top(self) -> int:
        return CHART_HEIGHT - self.total

    @property
    def others(self) -> int:
        return self.total - self.refused

    @property
    def refused_top(self) -> int:
        return CHART_HEIGHT - self.refused


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Figures of the dashboard.

    `decisions` is the number that the bars count, since `oldest`. `waiting` is None if the broker is unavailable. `failing` are
    applications with an upstream whose last request in this process failed, each with the error.
    """

    troubles: tuple[ComponentStatus, ...]
    failing: tuple[tuple[str, str], ...]
    more_failing: int
    upstreams: int
    upstreams_away: int
    waiting: int | None
    max_waiting: int
    columns: tuple[Column, ...]

    sessions: int
    signed_in: int
    configuration: Any
    directories: list[DirectoryRun]
    has_directory: bool
    decisions: int
    oldest: Any
    outcomes: tuple[Bar, ...]
    refused: tuple[Bar, ...]


def build_dashboard(request: HttpRequest) -> Dashboard:
    latest = list(LoggedDecision.objects.order_by("-id").values_list("outcome", "route_name", "decided_at")[:DECISION_SAMPLE])
    refused = ((outcome, route) for outcome, route, _ in latest if outcome in REFUSALS)
    outcomes = Counter(outcome for outcome, _, _ in latest)
    gate = page_context(request)
    upstreams, away = _upstreams(gate)
    failing = _failing(gate)
    return Dashboard(
        troubles=tuple(part for part in gate.readiness().components if part.state is not ReadinessState.OK),
        failing=failing[:MAX_ROUTES],
        more_failing=len(failing[MAX_ROUTES:]),
        upstreams=upstreams,
        upstreams_away=away,
        waiting=_waiting(gate),
        max_waiting=MAX_WAITING,
        columns=_columns([(at.timestamp(), outcome in REFUSALS) for outcome, _, at in latest]),
        sessions=Session.objects.exclude(expires_at__lte=timezone.now()).count(),  # expired rows are deleted with a delay
        signed_in=User.objects.filter(last_sign_in_at__gte=timezone.now() - DAY).count(),
        configuration=gate.configuration,
        directories=latest_runs(gate.options),
        has_directory=any(
            provider.has_group_records or provider.directory_file is not None for provider in gate.options.providers.values()
        ),
        decisions=len(latest),
        oldest=latest[-1][2] if latest else None,
        outcomes=_bars((outcome, number, {"outcome": outcome}) for outcome, number in outcomes.most_common()),
        refused=_bars(
            (f"{route}: {outcome}", number, {"outcome": outcome, "route": route})
            for (outcome, route), number in Counter(refused).most_common(MAX_ROUTES)
        ),
    )


def _upstreams(gate: ProxyPageContext) -> tuple[int, int]:
    """Return the number of upstreams in use, and of those currently ejected."""
    known = (gate.proxy.clusters.get(route) for route in gate.options.policy)
    clusters = {id(cluster): cluster for cluster in known if cluster is not None}.values()
    return sum(len(each.members) for each in clusters), sum(len(each.members) - each.available() for each in clusters)


def _failing(gate: ProxyPageContext) -> tuple[tuple[str, str], ...]:
    known = gate.proxy.upstream_errors
    if not known.has_any:
        return ()
    errors = ((route_title(route), next(filter(None, last_errors(route, known)), "")) for route in gate.options.policy)
    return tuple(each for each in errors if each[1])


def _waiting(gate: ProxyPageContext) -> int | None:
    """Return the number of pending access requests, at most MAX_WAITING."""
    try:
        return len(async_to_sync(take)(AccessRequestStore(gate.broker).iter_pending(), MAX_WAITING))
    except BrokerError:
        return None


def _columns(decided: list[tuple[float, bool]]) -> tuple[Column, ...]:
    """Return columns of equal duration from the oldest to the newest decision, from (time, is denied) pairs."""
    if not decided:
        return ()
    begins, ends = min(at for at, _ in decided), max(at for at, _ in decided)
    step = (ends - begins) / CHART_COLUMNS or 1.0
    places = [(min(CHART_COLUMNS - 1, int((at - begins) / step)), is_refused) for at, is_refused in decided]
    totals, refused = Counter(place for place, _ in places), Counter(place for place, is_refused in places if is_refused)
    scale = CHART_HEIGHT / max(totals.values())
    return tuple(Column(10 * place, round(scale * refused[place]), round(scale * totals[place])) for place in range(CHART_COLUMNS))


def _bars(counted: Iterable[tuple[str, int, dict[str, str]]]) -> tuple[Bar, ...]:
    """Return the bars of a count, longest first."""
    counts, page = list(counted), reverse("admin:authorize_loggeddecision_changelist")
    return tuple(
        Bar(label, number, max(1, round(100 * number / counts[0][1])), f"{page}?{urlencode(lookups)}") for label, number, lookups in counts
    )
