"""Admin pages of decisions: the decision log, searchable, and the explanation of a logged decision or of an invented request."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import path
from django.utils import timezone

from authorize.explain.explanation import Explanation, explained_again
from authorize.explain.form import DecisionNotLogged, ExplainForm
from authorize.explain.invented_request import described_moment
from authorize.models import LoggedDecision
from authorize.page_context import page_context
from databroker.adminsite.read_only import ReadOnlyAdmin
from foundation.values import ip_of
from foundation.web.times import time_element

_SPANS = {
    "5m": ("Last 5 minutes", timedelta(minutes=5)),
    "1h": ("Last hour", timedelta(hours=1)),
    "1d": ("Last 24 hours", timedelta(days=1)),
}

_TIMES = {"after:": "at__gte", "before:": "at__lt"}
_REQUEST_ID = re.compile(r"[0-9A-Fa-f]{32}")


def _named(word: str) -> dict[str, str]:
    """The indexed column that may hold exactly this word; nothing where its form names none."""
    if _REQUEST_ID.fullmatch(word):
        return {"request_id": word.lower()}
    return {"person": word} if "@" in word else {}


def _address(word: str) -> str:
    """As it is written down; "" where the word is no address."""
    return str(ip_of(word) or "")


class RecentFilter(admin.SimpleListFilter):
    title = "time"
    parameter_name = "within"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(key, words) for key, (words, _) in _SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        span = _SPANS.get(self.value() or "")
        return queryset.filter(at__gte=timezone.now() - span[1]) if span else queryset


class ShadowFilter(admin.AllValuesFieldListFilter):
    """Filter on shadow outcomes.  Most decisions met nothing in shadow, and have no word there: a link without words leads nobody."""

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        return (choice for choice in super().choices(changelist) if choice["display"])


class DecisionAdmin(ReadOnlyAdmin):
    # What fits a screen; the decision's own page has the rest.
    list_display = ["when", "who", "outcome", "asked", "reason"]
    list_display_links = ["when"]
    list_filter = [RecentFilter, "outcome", ("would_be", ShadowFilter)]
    search_fields = ["=request_id", "person", "person_id", "route", "=route_id", "url", "=client_address"]
    search_help_text = "Person, route, URL, request id, client address; after:2027-01-31T18:00 before:2027-01-31T18:05 (UTC)"
    ordering = ["-id"]
    show_full_result_count = False
    change_list_template = "admin/authorize/decisions.html"

    @admin.display(description="time", ordering="id")
    def when(self, row: LoggedDecision) -> str:
        return time_element(row.at, "exact")

    @admin.display(description="person", ordering="person")
    def who(self, row: LoggedDecision) -> str:
        return row.person or "nobody"

    @admin.display(description="request", ordering="url")
    def asked(self, row: LoggedDecision) -> str:
        return f"{row.method} {row.url}".strip()

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Search words: `after:` and `before:` narrow the time; every other word must be somewhere.

        What shows by its form where it belongs is looked for only there: request ids and whole e-mail addresses by their index.
        """
        words = []
        for word in search_term.split():
            if (named := _named(word)) and queryset.filter(**named).exists():
                queryset = queryset.filter(**named)
                continue
            if address := _address(word):
                queryset = queryset.filter(client_address__in={word, address})
                continue
            lookup = next((lookup for beginning, lookup in _TIMES.items() if word.startswith(beginning)), None)
            if lookup is None:
                words.append(word)
                continue
            try:
                moment = datetime.fromtimestamp(described_moment(word.partition(":")[2]), UTC)
            except ValueError as error:
                self.message_user(request, f"{word}: {error}", messages.WARNING)
                return queryset.none(), False
            queryset = queryset.filter(**{lookup: moment})
        return super().get_search_results(request, queryset, " ".join(words))

    def get_urls(self) -> list[Any]:
        pages = [
            path("explain/", self.admin_site.admin_view(self.explain_view), name="authorize_loggeddecision_explain"),
            path("explain.json", self.explain_json, name="authorize_loggeddecision_json"),
        ]
        return [*pages, *super().get_urls()]

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """The page of a decision is its explanation."""
        row = self.get_object(request, object_id)
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)
        own = page_context(request)
        return self._page(request, ExplainForm(), explained_again(row, own.options, own.configuration.checksum))

    def explain_view(self, request: HttpRequest) -> HttpResponse:
        """Explanation by `request`, the id of one that was; or by `url` and what else the form has, for one that is invented."""
        asking = ExplainForm(request.GET)
        try:
            return self._page(request, asking, asking.answer(page_context(request)) if asking.is_asked else None)
        except ValueError as error:
            return self._page(request, asking, None, str(error))

    def explain_json(self, request: HttpRequest) -> HttpResponse:
        """Explanation as JSON.  Not by `admin_view`, which answers everybody else with the sign-in page."""
        if not self.admin_site.has_permission(request):
            return _json({"error": "Only administrators may ask this; sign in to the admin first."}, 403)
        if request.method not in ("GET", "HEAD"):
            return _json({"error": "GET only"}, 405)
        try:
            return _json(ExplainForm(request.GET).answer(page_context(request)))
        except DecisionNotLogged as error:
            return _json({"error": str(error)}, 404)
        except ValueError as error:
            return _json({"error": str(error)}, 400)

    def _page(self, request: HttpRequest, asking: ExplainForm, explanation: Explanation | None, problem: str = "") -> HttpResponse:
        request.current_app = self.admin_site.name
        context = {
            **self.admin_site.each_context(request),
            "title": "Why?" if explanation else "Explain a request",
            "opts": self.opts,
            "asking": asking,
            "explanation": explanation,
            "problem": problem,
        }
        return TemplateResponse(request, "admin/authorize/explain.html", context)


def _json(document: dict[str, Any], status: int = 200) -> JsonResponse:
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return JsonResponse(document, status=status, headers=headers, json_dumps_params={"indent": 2})


def register(site: admin.AdminSite) -> None:
    site.register(LoggedDecision, DecisionAdmin)
