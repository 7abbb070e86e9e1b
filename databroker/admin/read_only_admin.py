"""Admin of rows that nobody edits, which all of our pages are made of."""

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

# From here on nobody sees a row more or less.
CACHE_ABOVE = 10_000
CACHE_SECONDS = 30


class CachedPaginator(Paginator):
    """Paginator that keeps a large count for a while.  Small lists are counted each time: there an ended session must be gone from the
    count as from the list.
    """

    @cached_property
    def count(self) -> int:
        try:
            query = str(self.object_list.query)
        except EmptyResultSet:  # a search that can find nothing has no query
            return 0
        key = f"count:{hashlib.sha256(query.encode()).hexdigest()}"
        cached = cache.get(key)
        if isinstance(cached, int) and cached >= CACHE_ABOVE:
            return cached
        number: int = self.object_list.count()
        if number >= CACHE_ABOVE:
            cache.set(key, number, CACHE_SECONDS)
        return number


# Key of Django's session for the session of ours that the admin was entered by; sign-ins by password have none.
SESSION_KEY = "gate_session"
# Those of our links and of Django's list filters.
_LOOKUPS = frozenset({"exact", "gte", "lt", "isnull"})
MAX_LINKS = 100  # the full list of a group's members has pages, this one has an end


class ReadOnlyAdmin(admin.ModelAdmin):
    """Admin of rows that nobody edits, because they are made from records; whoever was let into the admin may look at everything."""

    actions: Any = None
    list_per_page = 50
    paginator = CachedPaginator
    show_facets = admin.ShowFacets.NEVER

    @property
    def media(self) -> Media:
        """Script of a list with actions, and no more: Django's others are for forms, and listen for the end of a page in a way that
        browsers are about to drop."""
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
        """Whether a list may be narrowed by a query parameter, as its filters and our links do it.

        Django also allows `__regex`, which SQLite evaluates in Python: one link that an administrator opened could stop the process.
        """
        _, separator, kind = lookup.rpartition("__")
        return (not separator or kind in _LOOKUPS) and super().lookup_allowed(lookup, value, request)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": capfirst(self.opts.verbose_name_plural), **(extra_context or {})})

    def history_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Redirect to the audit log of this object."""
        return HttpResponseRedirect(self.changelist_url(AuditEntry, object_id=unquote(object_id)))

    def page(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Page of our own in the admin's frame."""
        request.current_app = self.admin_site.name
        return TemplateResponse(request, template, {**self.admin_site.each_context(request), "title": title, "opts": self.opts, **context})

    def get_record(self, request: HttpRequest, type: str, id: str) -> Record | None:
        """Raises BrokerError."""
        return async_to_sync(page_context(request).broker.get)(type, id)

    def url(self, model: type[Model], page: str, *args: str) -> str:
        return reverse(f"{self.admin_site.name}:databroker_{model._meta.model_name}_{page}", args=[quote(arg) for arg in args])

    def changelist_url(self, model: type[Model], **lookups: str) -> str:
        return f"{self.url(model, 'changelist')}?{urlencode(lookups)}"

    def row_link(self, row: Model, text: str = "") -> SafeString:
        return format_html('<a href="{}">{}</a>', self.url(type(row), "change", row.pk), text or str(row))

    def row_links(self, rows: QuerySet, everything: str) -> SafeString:
        """Links to the first hundred; `everything` is the address of the list that has them all."""
        first = list(rows[: MAX_LINKS + 1])
        lines = format_html_join("", "<div>{}</div>", ((self.row_link(row, _row_label(row)),) for row in first[:MAX_LINKS]))
        more = format_html('<div><a href="{}">All of them</a></div>', everything) if len(first) > MAX_LINKS else ""
        return format_html("{}{}", lines, more) if first else format_html("{}", self.get_empty_value_display())


class TablelessAdmin(ReadOnlyAdmin):
    """Admin of a page that is no list of rows.  Its model has no table: the index lists models, so a page needs one to be listed by."""

    def get_urls(self) -> list[Any]:
        # There is no row, so there are no pages of a row either.
        return [url for url in super().get_urls() if (url.name or "").endswith("_changelist")]


def _row_label(row: Model) -> str:
    if not isinstance(row, Session):
        return str(row)
    since = time_element(row.started_at, "long") if row.started_at else "an unknown time"
    return format_html("since {} from {}", since, row.client_address or "an unknown address")


def time_column(field: str, form: TimeForm = "full", description: str = "") -> Callable[[Any, Any], str]:
    """Method of a ModelAdmin, for `list_display` or `readonly_fields`.  `field` holds a datetime or None."""

    @admin.display(description=description or field.removesuffix("_at").replace("_", " "), ordering=field)
    def display(model_admin: Any, row: Any) -> str:
        value = getattr(row, field)
        return time_element(value, form) if value else "-"

    return display
