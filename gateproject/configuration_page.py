"""Admin page "Configuration": active values, their sources, and the last change. Secrets are redacted."""

from typing import Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db import models
from django.http import HttpRequest, HttpResponse

from config.inspect.redaction import DisplayedValue, effective_route, effective_settings
from config.inspect.source_map import SourceMap
from config.options import Options
from databroker.admin.read_only_admin import TablelessAdmin
from proxy.admin import search_routes, status_context
from proxy.service import page_context

ROUTES_PER_PAGE = 50
SettingGroup = tuple[str, list[DisplayedValue], list[DisplayedValue]]  # title of a group, values that are set, defaults


class Configuration(models.Model):
    """Model without a table (PageAdmin)."""

    class Meta:
        app_label = "gateproject"
        managed = False
        default_permissions = ()
        verbose_name = verbose_name_plural = "configuration"


class ConfigurationAdmin(TablelessAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        gate = page_context(request)
        options, source_map, route_filter = gate.options, gate.provenance.source_map, request.GET.get("route", "").strip()
        routes = Paginator(search_routes(options.policy, route_filter), ROUTES_PER_PAGE).get_page(request.GET.get("p"))
        return self.page(
            request,
            "admin/gateproject/configuration.html",
            "Configuration",
            provenance=gate.provenance,
            groups=list(_groups(options, source_map)),
            routes=routes,
            shown_routes=[(route, effective_route(route, index, source_map)) for index, route in routes],
            route_filter=route_filter,
            scope=describe_scope(options),
            **status_context(gate.configuration),
        )


def _groups(options: Options, source_map: SourceMap) -> list[SettingGroup]:
    every = effective_settings(options, source_map)
    return [(title, [it for it in found if not it.is_default], [it for it in found if it.is_default]) for title, found in every]


def describe_scope(options: Options) -> str:
    """Return which processes use the displayed configuration."""
    if options.services != "all":
        scope = "This is the configuration of the authenticate service. The other services have their own files."
    elif options.process_count > 1:
        scope = f"All {options.process_count} processes of this gate use it."
    else:
        scope = "This is the configuration of this process."
    return f"{scope} Each of several instances shows its own configuration: equal checksums mean equal files."


def register(site: admin.AdminSite) -> None:
    site.register(Configuration, ConfigurationAdmin)
