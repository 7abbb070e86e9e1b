"""Admin pages of the decision log: the timeline, explanations and replay."""

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from django.utils import timezone
from django.utils.http import urlencode

from authorize.authorizer import page_context
from authorize.explain.explain_form import DecisionNotLogged, ExplainForm
from authorize.explain.explanation import Explanation, explain_logged
from authorize.explain.replay import TITLES, BoundedReplay, ReplayInProgress, replay_newest
from authorize.models import LoggedDecision
from authorize.policy.compiled_route import route_name
from authorize.timeline.timeline_filters import OUTCOMES, TIME_RANGES, TimelineFilters
from authorize.timeline.timeline_pages import paginate, select_zone, zones
from config.options import Options
from databroker.admin.read_only_admin import ReadOnlyAdmin

MAX_HOURS = 24 * 31
MAX_CHANGES = 100  # of each kind on the page of a replay
REPLAY_FILTERS = ("user", "route", "route_id")
MAX_ROUTE_NAMES = 500  # routes that the form offers by name


class DecisionAdmin(ReadOnlyAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Render the decision log as a timeline in the reader's time zone."""
        options = page_context(request).options
        zone = select_zone(request, options.time_zone)
        filters = TimelineFilters.from_query(request.GET, zone.zone, options.policy)
        with timezone.override(zone.zone):
            timeline = paginate(filters.rows(), request.GET.get("before", ""), zone.zone)
            context = {
                **filters_context(filters, options),
                "timeline": timeline,
                "earlier": None if timeline.next_page is None else urlencode({**filters.values, **timeline.next_page}),
                "is_first_page": "before" not in request.GET,
                "newest": urlencode(filters.values),
                "zone": zone,
                "zones": zones(),
            }
            return self.page(request, "admin/authorize/timeline.html", "Decision log", **context).render()

    def get_urls(self) -> list[Any]:
        pages = [
            path("explain/", self.admin_site.admin_view(self.explain_view), name="authorize_loggeddecision_explain"),
            path("replay/", self.admin_site.admin_view(self.replay_view), name="authorize_loggeddecision_replay"),
            path("explain.json", self.explain_json, name="authorize_loggeddecision_json"),
        ]
        return [*pages, *super().get_urls()]

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Render the explanation of a decision."""
        row = self.get_object(request, object_id)
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        page = page_context(request)
        return self._page(request, ExplainForm(), explain_logged(row, page.options, page.configuration.checksum))

    def explain_view(self, request: HttpRequest) -> HttpResponse:
        """Explain a logged decision by its id in `request`, or a simulated request by `url` and the other fields."""
        form = ExplainForm(request.GET)
        try:
            return self._page(request, form, form.explain(page_context(request)) if form.is_submitted else None)
        except ValueError as error:
            return self._page(request, form, None, str(error))

    def replay_view(self, request: HttpRequest) -> HttpResponse:
        """Replay the decisions of the last hours under the current policy.  Only a POST starts it, because it takes seconds."""
        page = page_context(request)
        params = request.POST if request.method == "POST" else request.GET
        context: dict[str, Any] = {"hours": params.get("hours") or "24", "most_hours": MAX_HOURS, "configuration": page.configuration}
        filters = TimelineFilters.from_query({name: params.get(name, "") for name in REPLAY_FILTERS}, ZoneInfo("UTC"), page.options.policy)
        if request.method == "POST":
            try:
                context["replay"] = replay_context(replay_newest(_last_hours(filters.rows(), context["hours"]), page.authorize.routes))
            except (ValueError, ReplayInProgress) as error:
                context["problem"] = str(error)
        return self.page(request, "admin/authorize/replay.html", "Replay", **filters_context(filters, page.options), **context)

    def explain_json(self, request: HttpRequest) -> HttpResponse:
        """Return an explanation as JSON.

        It does not use `admin_view`, which would respond with the sign-in page if access is denied.
        """
        if not self.admin_site.has_permission(request):
            return _json({"error": "Administrators only. Sign in to the admin first."}, 403)
        if request.method not in ("GET", "HEAD"):
            return _json({"error": "GET only"}, 405)
        try:
            return _json(ExplainForm(request.GET).explain(page_context(request)))
        except DecisionNotLogged as error:
            return _json({"error": str(error)}, 404)
        except ValueError as error:
            return _json({"error": str(error)}, 400)

    def _page(self, request: HttpRequest, form: ExplainForm, explanation: Explanation | None, problem: str = "") -> HttpResponse:
        title = "Why?" if explanation else "Explain a request"
        context = {"form": form, "explanation": explanation, "problem": problem}
        return self.page(request, "admin/authorize/explain.html", title, **context)


def filters_context(filters: TimelineFilters, options: Options) -> dict[str, Any]:
    """Return the context of the filter form."""
    return {
        "filters": {**filters.values, "route": filters.selected_route_name()},
        "problems": filters.problems,
        "outcomes": OUTCOMES,
        "spans": [(key, label) for key, (label, _) in TIME_RANGES.items()],
        "route_names": sorted({route_name(route) for route in options.policy})[:MAX_ROUTE_NAMES],
        "logging_disabled": not options.decision_log_size,
    }


def _last_hours(rows: QuerySet[LoggedDecision], written: str) -> QuerySet[LoggedDecision]:
    """Return the rows of the last hours.  Raises ValueError if the number is invalid."""
    if not (written.isascii() and written.isdecimal() and len(written) <= 6 and 0 < int(written) <= MAX_HOURS):
        raise ValueError(f"{written} must be a number of hours from 1 to {MAX_HOURS}.")
    return rows.filter(decided_at__gte=timezone.now() - timedelta(hours=int(written)))


def replay_context(done: BoundedReplay) -> dict[str, Any]:
    """Return the context of a replay: the first changes of each kind, and how many there are."""
    kinds = [(title, done.report.changes_of_kind(kind)) for kind, title in TITLES.items()]
    return {
        "done": done,
        "kinds": [(title, found[:MAX_CHANGES], len(found)) for title, found in kinds if found],
        "not_replayed": done.report.not_replayed.most_common(MAX_CHANGES),
        "not_replayed_number": done.report.not_replayed.total(),
    }


def _json(document: dict[str, Any], status: int = 200) -> JsonResponse:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return JsonResponse(document, status=status, headers=headers, json_dumps_params={"indent": 2})


def register(site: admin.AdminSite) -> None:
    site.register(LoggedDecision, DecisionAdmin)
