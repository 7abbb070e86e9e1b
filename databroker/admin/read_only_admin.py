"""Base classes of the read-only admin pages."""

import hashlib
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.contrib.admin.utils import quote, unquote
from django.core.cache import cache
from django.core.exceptions import EmptyResultSet
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.forms import Media
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import capfirst

from databroker.broker_client import page_context
from databroker.models import AuditEntry, Session
from databroker.records import Record
from foundation.web.times import TimeForm, time_element

# In a longer list a slightly outdated count is not noticed.
CACHE_ABOVE = 10_000
CACHE_SECONDS = 30


class CachedPaginator(Paginator):
    """Paginator that caches large counts.  Small lists are counted each time, so that an ended session also leaves the count."""

    @cached_property
    def count(self) -> int:
        try:
            query = str(self.object_list.query)
        except EmptyResultSet:  # a filter that matches no row compiles to no query
            return 0
        key = f"count:{hashlib.sha256(query.encode()).hexdigest()}"
        cached = cache.get(key)
        if isinstance(cached, int) and cached >= CACHE_ABOVE:
            return cached
        number: int = self.object_list.count()
        if number >= CACHE_ABOVE:
            cache.set(key, number, CACHE_SECONDS)
        return number


# Key of Django's session for the id of the gate session that opened the admin; password sign-ins have none.
SESSION_KEY = "gate_session"
# Lookups of the admin's own links and of Django's list filters.
_LOOKUPS = frozenset({"exact", "gte", "lt", "isnull"})
MAX_LINKS = 100  # longer lists link to their paginated page


class ReadOnlyAdmin(admin.ModelAdmin):
    """Read-only admin of rows that are projected from records.  Every administrator may view all of them."""

    actions: Any = None
    list_per_page = 50
    paginator = CachedPaginator
    show_facets = admin.ShowFacets.NEVER

    @property
    def media(self) -> Media:
        """Return only the script for list actions.

        Django's other scripts are for forms, and use the `unload` event, which browsers are removing.
        """
        return Media(js=["admin/js/actions.js"])

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return request.user.is_active and request.user.is_staff

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Return whether a query parameter may filter a list: only the lookups that filters and links use.

        Django also allows `__regex`, which SQLite evaluates in Python, so a link that an administrator opens could block the process.
        """
        _, separator, kind = lookup.rpartition("__")
        return (not separator or kind in _LOOKUPS) and super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": capfirst(self.opts.verbose_name_plural), **(extra_context or {})})

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirect to the audit log of this object."""
        return HttpResponseRedirect(self.changelist_url(AuditEntry, object_id=unquote(object_id)))

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Render a page in the layout of the admin."""
        request.current_app = self.admin_site.name
        return TemplateResponse(request, template, {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **context})

    def get_record(self, request: HttpRequest, type: str, id: str) -> Record | None:
        """Return the record from the data broker, or None.  Raises BrokerError."""
        return async_to_sync(page_context(request).broker.get)(type, id)

    def url(self, model: type[Model], page: str, *args: str) -> str:
        return reverse(f"{self.admin_site.name}:databroker_{model._meta.model_name}_{page}", args=[quote(arg) for arg in args])

    def changelist_url(self, model: type[Model], **lookups: str) -> str:
        return f"{self.url(model, 'changelist')}?{urlencode(lookups)}"

    def row_link(self, row: Model, text: str = "") -> SafeString:
        return format_html('<a href="{}">{}</a>', self.url(type(row), "change", row.pk), text or str(row))

    def row_links(self, rows: QuerySet, everything: str) -> SafeString:
        """Return links to the first MAX_LINKS rows, then one to `everything`, the URL of the full list."""
        first = list(rows[: MAX_LINKS + 1])
        lines = format_html_join("", "<div>{}</div>", ((self.row_link(row, _row_label(row)),) for row in first[:MAX_LINKS]))
        more = format_html('<div><a href="{}">All of them</a></div>', everything) if len(first) > MAX_LINKS else ""
        return format_html("{}{}", lines, more) if first else format_html("{}", self.get_empty_value_display())


class TablelessAdmin(ReadOnlyAdmin):
    """Admin page without rows.  Its model has no table; it exists because the admin's index lists models."""

    def get_urls(self) -> list[Any]:
        # Without rows there are no pages of a row.
        return [url for url in super().get_urls() if (url.name or "").endswith("_changelist")]


def _row_label(row: Model) -> str:
    if not isinstance(row, Session):
        return str(row)
    since = time_element(row.started_at, "long") if row.started_at else "an unknown time"
    return format_html("since {} from {}", since, row.client_address or "an unknown address")


def time_column(field: str, form: TimeForm = "full", description: str = "") -> Callable[[Any, Any], str]:
    """Return a ModelAdmin method for `list_display` or `readonly_fields` that displays `field`, a datetime or None."""

    @admin.display(description=description or field.removesuffix("_at").replace("_", " "), ordering=field)
    def display(model_admin: Any, row: Any) -> str:
        value = getattr(row, field)
        return time_element(value, form) if value else "-"

    return display
