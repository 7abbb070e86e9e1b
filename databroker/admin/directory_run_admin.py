"""Admin page of directory syncs: the last sync of each directory, and the history."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from config.options import Options
from databroker.admin.read_only_admin import ReadOnlyAdmin, time_column
from databroker.broker_client import page_context
from databroker.models import DirectoryRun
from foundation.web.times import time_element


def describe_last_success(now: float, prefix: str = "") -> str:
    """Describe the last sync that had succeeded at `now` (Unix seconds), with its age; "" if there was none.

    `prefix` is the prefix of record ids of this directory.
    """
    at = datetime.fromtimestamp(now, UTC)
    run = DirectoryRun.objects.filter(id__startswith=prefix, error="", started_at__lte=at).order_by("-started_at").first()
    if run is None:
        return ""
    return f"{run.started_at:%Y-%m-%dT%H:%M:%SZ}, {timedelta(seconds=int((at - run.started_at).total_seconds()))} before"


class OutcomeFilter(admin.SimpleListFilter):
    """Filter by success or failure."""

    title = "outcome"
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("good", "read"), ("bad", "failed")]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        filtered = {"good": queryset.filter(error=""), "bad": queryset.exclude(error="")}
        return filtered.get(self.value() or "", queryset)


class ProviderFilter(admin.SimpleListFilter):
    """Filter by provider, if several have directories."""

    title = "provider"
    parameter_name = "provider"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(each.id, each.id) for each in page_context(request).options.providers.values() if each.is_entry and each.has_directory]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        return queryset.filter(id__startswith=f"{self.value()}/") if self.value() else queryset


class DirectoryRunAdmin(ReadOnlyAdmin):
    """Admin page of directory syncs."""

    list_display = ["when", "provider", "triggered_by", "duration", "users", "groups", "added", "changed", "removed", "outcome"]
    list_display_links = ["when"]
    list_filter = [ProviderFilter, OutcomeFilter]
    ordering = ["-started_at", "-id"]
    fields = [
        "started",
        "provider",
        "source",
        "triggered_by",
        "duration",
        "users",
        "groups",
        "added",
        "changed",
        "removed",
        "requests",
        "outcome",
    ]
    readonly_fields = ["started", "provider", "duration", "outcome"]

    started = time_column("started_at")

    @admin.display(description="started", ordering="started_at")
    def when(self, run: DirectoryRun) -> str:
        return time_element(run.started_at, "exact") if run.started_at else run.id

    @admin.display(description="provider", empty_value="", ordering="id")
    def provider(self, run: DirectoryRun) -> str:
        return run.provider

    @admin.display(description="duration", ordering="duration_seconds")
    def duration(self, run: DirectoryRun) -> str:
        return f"{run.duration_seconds:.1f} s"

    @admin.display(description="outcome", ordering="error")
    def outcome(self, run: DirectoryRun) -> str:
        return run.error or "read"


def latest_runs(options: Options) -> list[DirectoryRun]:
    """Return the latest sync of each directory, successful or not."""
    prefixes = [provider.record_id_prefix for provider in options.providers.values() if provider.has_directory]
    found = (DirectoryRun.objects.filter(id__startswith=prefix).order_by("-started_at").first() for prefix in prefixes)
    return [run for run in found if run is not None]


def register(site: admin.AdminSite) -> None:
    site.register(DirectoryRun, DirectoryRunAdmin)
