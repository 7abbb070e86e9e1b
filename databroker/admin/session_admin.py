"""Admin pages of sessions and users, with actions that end sessions, and of the audit log."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import Error
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.csrf import csrf_protect

from databroker.admin import row_search
from databroker.admin.end_sessions_action import EndSessionsAction
from databroker.admin.read_only_admin import ReadOnlyAdmin, time_column
from databroker.admin.record_details import fetch_or_message, render_claims, render_session_facts
from databroker.audit_log import AUDIT_COLUMNS, csv_lines, row_user, session_label
from databroker.models import AuditEntry, Group, Session, User
from databroker.records import DIRECTORY_USER, SESSION, USER
from foundation.errors import BrokerError

MAX_EXPORT_ROWS = 100_000


class EndSessionsAdmin(ReadOnlyAdmin):
    """Admin with actions that end sessions."""

    def run(self, request: HttpRequest, *actions: Callable[[EndSessionsAction], None]) -> None:
        ending = EndSessionsAction(request)
        try:
            for action in actions:
                action(ending)
        except BrokerError:
            self.message_user(
                request, f"The data broker is unavailable; some sessions were not ended. {_describe_result(ending)}", messages.ERROR
            )
        except Error:
            self.message_user(
                request, f"The database is unavailable; some sessions were not ended. {_describe_result(ending)}", messages.ERROR
            )
        else:
            if ending.is_complete:
                self.message_user(request, _describe_result(ending), messages.SUCCESS)
            else:
                self.message_user(request, f"{_describe_result(ending)} More sessions remain: repeat the action.", messages.WARNING)


class SessionAdmin(EndSessionsAdmin):
    """Admin page of sessions."""

    list_display = ["user_name", "kind", "client", "started", "seen", "last_host", "client_address"]
    list_display_links = ["user_name"]
    list_filter = ["kind"]
    search_fields = ["id"]  # what is searched says `get_search_results`
    search_help_text = "User, route, OAuth client, MCP server, start of a client address, or session id"
    ordering = ["-started_at", "id"]
    fields = [
        "id",
        "account",
        "started_full",
        "expires_full",
        "seen_full",
        "last_host",
        "client_address",
        "user_agent",
        "kind",
        "client_id",
        "resource",
        "scopes",
        "in_the_store",
        "claims",
    ]
    readonly_fields = ["account", "started_full", "expires_full", "seen_full", "in_the_store", "claims"]
    actions = ["end_sessions", "end_all"]

    # Short formats in the list, because it has many columns; full ones on the session's page.
    started, started_full = time_column("started_at", "short"), time_column("started_at")
    expires_full = time_column("expires_at")
    seen, seen_full = time_column("last_seen_at", "short"), time_column("last_seen_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        # Not a join, because it would run for every row before the page is selected.
        return super().get_queryset(request).prefetch_related("user")

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        return row_search.sessions(queryset, search_term), False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        session = super().get_object(request, object_id, from_field)
        if session is not None and request.method in ("GET", "HEAD"):
            session.records = fetch_or_message(lambda: (self.get_record(request, SESSION, session.pk),))
        return session

    @admin.display(description="in the data broker")
    def in_the_store(self, session: Any) -> SafeString | str:
        return render_session_facts(session.records)

    @admin.display(description="claims")
    def claims(self, session: Any) -> SafeString | str:
        return render_claims(session.records)

    @admin.display(description="user", ordering="user__email")
    def user_name(self, session: Session) -> str:
        return str(row_user(session) or session.user_id or "unknown")

    @admin.display(description="user")
    def account(self, session: Session) -> str:
        user = row_user(session)
        return self.row_link(user) if user else (session.user_id or "")

    @admin.display(description="client", ordering="client_id")
    def client(self, session: Session) -> str:
        """Return the OAuth client, or the user agent of a browser."""
        name = session.client_id or session.user_agent
        return name if len(name) <= 32 else f"{name[:32]}…"

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.has_view_permission(request, obj)

    @admin.action(description="End the selected sessions", permissions=["view"])
    def end_sessions(self, request: HttpRequest, sessions: QuerySet) -> None:
        self.run(request, lambda ending: ending.end_sessions(sessions.values_list("pk", flat=True)))

    @admin.action(description="End all sessions of these users", permissions=["view"])
    def end_all(self, request: HttpRequest, sessions: QuerySet) -> None:
        people = list(sessions.values_list("user_id", flat=True).order_by().distinct())
        without_user = list(sessions.filter(user_id=None).values_list("pk", flat=True))
        self.run(request, lambda ending: ending.end_all_sessions(people), lambda ending: ending.end_sessions(without_user))

    @method_decorator(csrf_protect)
    def delete_view(self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """End a session outside a transaction.

        The audit entry must remain if the broker fails, and a store in this database must not wait for the transaction's lock.
        """
        session = self.get_object(request, unquote(object_id))
        context = {"title": "End this session?", "subtitle": session_label(session) if session else None, **(extra_context or {})}
        try:
            return self._delete_view(request, object_id, context)
        except BrokerError:
            self.message_user(request, "The data broker is unavailable; the session was not ended.", messages.ERROR)
            return HttpResponseRedirect(self.url(Session, "changelist"))

    def delete_model(self, request: HttpRequest, obj: Session) -> None:
        EndSessionsAction(request).end_sessions([obj.pk])

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """Do nothing, because `EndSessionsAction` writes the audit entry."""


class UserAdmin(EndSessionsAdmin):
    """Admin page of users."""

    list_display = ["id", "address", "name", "signed_in"]
    list_filter = ["last_sign_in_at"]
    search_fields = ["id"]  # what is searched says `get_search_results`
    search_help_text = "Id, e-mail, name or group"
    ordering = ["email", "id"]
    fields = ["id", "address", "name", "signed_in", "member_of", "signed_in_as", "claims"]
    readonly_fields = ["address", "signed_in", "member_of", "signed_in_as", "claims"]
    actions = ["end_all"]

    signed_in = time_column("last_sign_in_at")

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        return row_search.users(queryset, search_term), False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        user = super().get_object(request, object_id, from_field)
        if user is not None and request.method in ("GET", "HEAD"):
            user.records = fetch_or_message(
                lambda: (self.get_record(request, USER, user.pk), self.get_record(request, DIRECTORY_USER, user.pk))
            )
        return user

    @admin.display(description="e-mail", ordering="email")
    def address(self, user: User) -> SafeString | str:
        if not user.unauthoritative_email:
            return user.email
        unverified = "<s>{}</s>, not verified, or not assertable by the provider: it matches no rule and may belong to another user"
        return format_html("{}{}" + unverified, user.email, "; " if user.email else "", user.unauthoritative_email)

    @admin.display(description="claims")
    def claims(self, user: Any) -> SafeString | str:
        return render_claims(user.records)

    @admin.display(description="groups")
    def member_of(self, user: User) -> SafeString:
        return self.row_links(user.groups.order_by("name", "id"), self.changelist_url(Group, members__id__exact=user.pk))

    @admin.display(description="sessions")
    def signed_in_as(self, user: User) -> SafeString:
        return self.row_links(user.sessions.order_by("-started_at"), self.changelist_url(Session, user__id__exact=user.pk))

    @admin.action(description="End all sessions of the selected users", permissions=["view"])
    def end_all(self, request: HttpRequest, users: QuerySet) -> None:
        people = list(users.values_list("pk", flat=True))
        self.run(request, lambda ending: ending.end_all_sessions(people))


class AuditAdmin(ReadOnlyAdmin):
    """Admin page of the audit log."""

    list_display = ["at", "actor", "actor_kind", "actor_id", "action", "object_name", "client_address"]
    list_display_links = ["at"]
    list_filter = ["occurred_at", "actor_kind", "action"]
    search_fields = [
        *(f"{field}__holds" for field in ("actor", "actor_id", "action", "object_repr", "object_id")),
        "client_address__startswith",
    ]
    search_help_text = "Actor, action, object, or address"
    ordering = ["-id"]  # entries are numbered in order of creation
    fields = ["at", "actor", "actor_kind", "actor_id", "client_address", "action", "object_type", "object_name", "object_id"]
    readonly_fields = ["at", "object_name"]
    actions = ["as_csv", "as_json"]

    at = time_column("occurred_at", description="time")

    @admin.display(description="object", ordering="object_repr")
    def object_name(self, entry: AuditEntry) -> str:
        return entry.object_repr

    @admin.action(description="Save as CSV")
    def as_csv(self, request: HttpRequest, chosen: QuerySet[AuditEntry]) -> HttpResponse:
        rows = _newest_rows(chosen).values_list(*AUDIT_COLUMNS)
        return _attachment(HttpResponse("".join(csv_lines(AUDIT_COLUMNS, rows)), content_type="text/csv; charset=utf-8"), "audit-log.csv")

    @admin.action(description="Save as JSON")
    def as_json(self, request: HttpRequest, chosen: QuerySet[AuditEntry]) -> HttpResponse:
        return _attachment(JsonResponse({"entries": list(_newest_rows(chosen).values(*AUDIT_COLUMNS))}), "audit-log.json")


def _newest_rows(chosen: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
    """Return the newest entries, at most MAX_EXPORT_ROWS."""
    return chosen.order_by("-id")[:MAX_EXPORT_ROWS]


def _attachment(response: HttpResponse, name: str) -> HttpResponse:
    """Set a header so that a browser saves the response and never renders it, because its content comes from other parties."""
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def register(site: admin.AdminSite) -> None:
    site.disable_action("delete_selected")  # the action `end_sessions` replaces it
    site.register(Session, SessionAdmin)
    site.register(User, UserAdmin)
    site.register(AuditEntry, AuditAdmin)


def _describe_result(ending: EndSessionsAction) -> str:
    return f"{ending.ended} session{'s' if ending.ended != 1 else ''} ended."
