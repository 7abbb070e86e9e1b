"""Admin page of users' accounts at third-party MCP servers, with an action that disconnects them.  It shows no token."""

from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from authenticate.api.connections_api import disconnect_account, row_state
from authenticate.service import page_context
from authorize.upstream.account_connections import ConnectionState
from databroker.admin import row_search
from databroker.admin.read_only_admin import ReadOnlyAdmin, time_column
from databroker.audit_log import AuditLogUnavailable, administrator_log, row_user
from databroker.models import ConnectedAccount
from foundation.errors import BrokerError

UNAVAILABLE = "The data broker or the audit log is unavailable; some accounts were not disconnected."
STATES = {
    ConnectionState.CONNECTED: "connected",
    ConnectionState.EXPIRED: "expired: the server no longer accepts or renews its tokens",
    ConnectionState.CHANGED: "not used: the settings of the server have changed",
    ConnectionState.REMOVED: "not used: the server is not in the configuration",
}


class ConnectedAccountAdmin(ReadOnlyAdmin):
    """Admin page of connected accounts."""

    list_display = ["user_name", "resource", "connected", "refreshed", "state"]
    list_display_links = ["user_name"]
    search_fields = ["id"]  # what is searched says `get_search_results`
    search_help_text = "User, MCP server, or id"
    ordering = ["-connected_at", "id"]
    fields = ["account", "resource", "connected_full", "refreshed_full", "state"]
    readonly_fields = ["account", "connected_full", "refreshed_full", "state"]
    actions = ["disconnect"]

    connected, connected_full = time_column("connected_at", "short"), time_column("connected_at")
    refreshed = time_column("refreshed_at", "short", "last refreshed")
    refreshed_full = time_column("refreshed_at", description="last refreshed")

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        return super().get_queryset(request).prefetch_related("user")

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        return row_search.connected_accounts(queryset, search_term), False

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        changelist = super().get_changelist_instance(request)
        for row in changelist.result_list:
            _set_state(request, row)
        return changelist

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        row = super().get_object(request, object_id, from_field)
        if row is not None:
            _set_state(request, row)
        return row

    @admin.display(description="user", ordering="user__email")
    def user_name(self, row: ConnectedAccount) -> str:
        return str(row_user(row) or row.user_id or "unknown")

    @admin.display(description="user")
    def account(self, row: ConnectedAccount) -> str:
        user = row_user(row)
        return self.row_link(user) if user else (row.user_id or "")

    @admin.display
    def state(self, row: Any) -> str:
        return STATES[row.connection_state]

    @admin.action(description="Disconnect the selected accounts", permissions=["view"])
    def disconnect(self, request: HttpRequest, rows: QuerySet) -> None:
        service, audit, ended = page_context(request).authenticate, administrator_log(request), 0
        try:
            for id in list(rows.values_list("pk", flat=True)):
                ended += async_to_sync(disconnect_account)(service.broker, service.connections, id, audit)
                # The next page may be shown before the projection deletes it.
                ConnectedAccount.rows.filter(pk=id).delete()
        except (AuditLogUnavailable, BrokerError):
            self.message_user(request, f"{UNAVAILABLE} {ended} disconnected.", messages.ERROR)
        else:
            self.message_user(request, f"{ended} disconnected.", messages.SUCCESS)


def _set_state(request: HttpRequest, row: Any) -> None:
    service = page_context(request).authenticate
    row.connection_state = row_state(row, service.connections.servers, service.clock())


def register(site: admin.AdminSite) -> None:
    site.register(ConnectedAccount, ConnectedAccountAdmin)
