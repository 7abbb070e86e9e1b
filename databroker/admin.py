"""The admin's pages about sessions, users and groups: to look at, and to end sessions."""

from datetime import datetime
from typing import Any

import structlog
from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db.models import Count, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from databroker.models import Group, Session, User
from databroker.records import SESSION
from gateproject.errors import BrokerError

log = structlog.get_logger(__name__)

# A group may have as many members as the company has people; the full list has pages, this one has an end.
SHOWN = 100


class LookOnly(admin.ModelAdmin):
    """Who was let into the admin may look at everything here; nobody edits rows, they are made from records."""

    actions: Any = None
    list_per_page = 50

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

    def url(self, model: type[Model], page: str, *args: str) -> str:
        return reverse(f"{self.admin_site.name}:databroker_{model._meta.model_name}_{page}", args=[quote(arg) for arg in args])

    def list_of(self, model: type[Model], **lookups: str) -> str:
        return f"{self.url(model, 'changelist')}?{urlencode(lookups)}"

    def link(self, row: Model, text: str = "") -> SafeString:
        return format_html('<a href="{}">{}</a>', self.url(type(row), "change", row.pk), text or str(row))

    def links(self, rows: QuerySet, everything: str) -> SafeString:
        """Links to the first hundred; `everything` is the address of the list that has them all."""
        first = list(rows[: SHOWN + 1])
        lines = format_html_join("", "<li>{}</li>", ((self.link(row, _summary(row)),) for row in first[:SHOWN]))
        more = format_html('<p><a href="{}">All of them</a></p>', everything) if len(first) > SHOWN else ""
        return format_html("<ul>{}</ul>{}", lines, more) if first else format_html("{}", self.get_empty_value_display())


class SessionAdmin(LookOnly):
    list_display = ["person", "since", "expires", "client_address", "browser"]
    list_display_links = ["person"]
    list_filter = ["since", "expires"]
    list_select_related = ["user"]
    search_fields = ["id", "user__id", "user__email", "user__name", "client_address"]
    search_help_text = "Person, session id or client address"
    ordering = ["-since", "id"]
    fields = ["id", "account", "since", "expires", "client_address", "user_agent"]
    readonly_fields = ["account"]
    actions = ["end_sessions"]

    @admin.display(ordering="user__email")
    def person(self, session: Session) -> str:
        return str(_user_of(session) or session.user_id or "unknown")

    @admin.display(description="user")
    def account(self, session: Session) -> str:
        user = _user_of(session)
        return self.link(user) if user else (session.user_id or "")

    @admin.display(description="user agent", ordering="user_agent")
    def browser(self, session: Session) -> str:
        return session.user_agent if len(session.user_agent) <= 60 else f"{session.user_agent[:60]}…"

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_view_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions = super().get_actions(request)
        actions.pop("delete_selected", None)  # one name for one thing
        return actions

    @admin.action(description="End the selected sessions", permissions=["delete"])
    def end_sessions(self, request: HttpRequest, sessions: QuerySet) -> None:
        ended = list(sessions)
        try:
            self.delete_queryset(request, sessions)
        except BrokerError:
            self.message_user(request, "The data broker is away; not every session has ended.", messages.ERROR)
            return
        self.log_deletions(request, ended)
        self.message_user(request, f"{len(ended)} session{'s' if len(ended) != 1 else ''} ended.", messages.SUCCESS)

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        try:
            return super().delete_view(request, object_id, {"title": "End this session?", **(extra_context or {})})
        except BrokerError:
            self.message_user(request, "The data broker is away; the session has not ended.", messages.ERROR)
            return HttpResponseRedirect(self.url(Session, "changelist"))

    def delete_model(self, request: HttpRequest, obj: Session) -> None:
        self._end(request, [obj.pk])
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        self._end(request, list(queryset.values_list("pk", flat=True)))
        super().delete_queryset(request, queryset)

    def _end(self, request: HttpRequest, ids: list[str]) -> None:
        """The record ends the session; its row, which the projection would remove a moment later, is only the picture of it."""
        broker = request.scope["gate"].broker
        for id in ids:
            async_to_sync(broker.delete)(SESSION, id)
            log.info("session ended in the admin", session_id=id, ended_by=request.user.get_username())


class UserAdmin(LookOnly):
    list_display = ["id", "email", "name", "last_sign_in"]
    list_filter = ["last_sign_in"]
    search_fields = ["id", "email", "name", "groups__id", "groups__name"]
    search_help_text = "Id, e-mail, name or group"
    ordering = ["email", "id"]
    fields = ["id", "email", "name", "last_sign_in", "member_of", "signed_in_as"]
    readonly_fields = ["member_of", "signed_in_as"]

    @admin.display(description="groups")
    def member_of(self, user: User) -> SafeString:
        return self.links(user.groups.order_by("name", "id"), self.list_of(Group, members__id__exact=user.pk))

    @admin.display(description="sessions")
    def signed_in_as(self, user: User) -> SafeString:
        return self.links(user.sessions.order_by("-since"), self.list_of(Session, user__id__exact=user.pk))


class GroupAdmin(LookOnly):
    list_display = ["id", "name", "email", "size"]
    search_fields = ["id", "name", "email"]
    ordering = ["name", "id"]
    fields = ["id", "name", "email", "people"]
    readonly_fields = ["people"]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).annotate(size=Count("members"))

    @admin.display(description="members", ordering="size")
    def size(self, group: Any) -> int:
        return group.size

    @admin.display(description="members")
    def people(self, group: Group) -> SafeString:
        return self.links(group.members.order_by("email", "id"), self.list_of(User, groups__id__exact=group.pk))


def register(site: admin.AdminSite) -> None:
    site.register(Session, SessionAdmin)
    site.register(User, UserAdmin)
    site.register(Group, GroupAdmin)


def _user_of(session: Session) -> User | None:
    """None also where the session names a user of whom there is no record."""
    try:
        return session.user
    except User.DoesNotExist:
        return None


def _summary(row: Model) -> str:
    if isinstance(row, Session):
        return f"since {_minute(row.since)} from {row.client_address or 'an unknown address'}"
    return str(row)


def _minute(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else "an unknown time"
