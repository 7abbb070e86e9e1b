"""Admin page of directory runs: when the directory was read last, and how the readings before ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from databroker.adminsite.read_only import ReadOnlyAdmin
from databroker.adminsite.times import time_column
from databroker.models import DirectoryRun
from foundation.web.times import time_element


def last_reading(now: float) -> str:
    """Words about the last reading that had succeeded at `now` (Unix seconds), and how long ago that was; "" where there was none."""
    at = datetime.fromtimestamp(now, UTC)
    run = DirectoryRun.objects.filter(error="", began__lte=at).order_by("-began").first()
    if run is None:
        return ""
    return f"{run.began:%Y-%m-%dT%H:%M:%SZ}, {timedelta(seconds=int((at - run.began).total_seconds()))} before"


class OutcomeFilter(admin.SimpleListFilter):
    """Filter by success and failure."""

    title = "outcome"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("good", "read"), ("bad", "failed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        wanted = {"good": queryset.filter(error=""), "bad": queryset.exclude(error="")}
        return wanted.get(self.value() or "", queryset)


class DirectoryRunAdmin(ReadOnlyAdmin):
    """Directory runs."""

    list_display = ["when", "by", "duration", "users", "groups", "added", "changed", "removed", "outcome"]
    list_display_links = ["when"]
    list_filter = [OutcomeFilter]
    ordering = ["-id"]
    fields = ["began_at", "source", "by", "duration", "users", "groups", "added", "changed", "removed", "requests", "outcome"]
    readonly_fields = ["began_at", "duration", "outcome"]

    began_at = time_column("began")

    @admin.display(description="began", ordering="id")
    def when(self, run: DirectoryRun) -> str:
        return time_element(run.began, "exact") if run.began else run.id

    @admin.display(description="duration", ordering="seconds")
    def duration(self, run: DirectoryRun) -> str:
        return f"{run.seconds:.1f} s"

    @admin.display(description="outcome", ordering="error")
    def outcome(self, run: DirectoryRun) -> str:
        return run.error or "read"


def register(site: admin.AdminSite) -> None:
    site.register(DirectoryRun, DirectoryRunAdmin)
