"""Admin page of a user: databroker's page, with their decisions, access and applications linked in both directions."""

import asyncio
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from authenticate.access_requests.access_request_service import format_duration
from authenticate.portal.programmatic_clients import list_clients
from authorize.identity.identity_builder import grant_subject_for_user
from authorize.models import LoggedDecision
from databroker.admin.group_admin import membership_origin
from databroker.admin.read_only_admin import MAX_LINKS
from databroker.admin.session_admin import UserAdmin
from databroker.broker_client import page_context
from databroker.grants.access_request_store import AccessRequestStore
from databroker.grants.grant_store import GrantStore
from databroker.models import ConnectedAccount, Group, Membership, ServiceAccount, Session, User
from databroker.records import ProgrammaticClient, UserRecord
from foundation.email_address import unambiguous_name
from foundation.errors import BrokerError
from foundation.web.times import time_element

RECENT_DECISIONS = 10
MAX_LISTED_SESSIONS = 20  # of which client applications are listed
BROKER_UNAVAILABLE = "The data broker is unavailable."
Lines = list[tuple[Any, ...]]


class UserDetailsAdmin(UserAdmin):
    """Users, with their decisions, temporary access and client applications."""

    fields = [
        "id",
        "address",
        "name",
        "signed_in",
        "member_of",
        "signed_in_as",
        "connected_to",
        "access",
        "access_requests",
        "decided",
        "programs",
        "accounts",
        "claims",
    ]
    readonly_fields = [*UserAdmin.readonly_fields, "connected_to", "access", "access_requests", "decided", "programs", "accounts"]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        user = super().get_object(request, object_id, from_field)
        if user is not None and request.method in ("GET", "HEAD"):
            user.options = page_context(request).options
            broker, sessions = page_context(request).broker, list(user.sessions.order_by("-started_at", "pk")[:MAX_LISTED_SESSIONS])
            try:
                user.access_lines, user.request_lines = async_to_sync(_access)(broker, user)
                user.let_in = async_to_sync(_programmatic_clients)(broker, sessions)
            except BrokerError:
                user.access_lines = user.request_lines = user.let_in = BROKER_UNAVAILABLE
        return user

    @admin.display(description="groups")
    def member_of(self, user: Any) -> SafeString | str:
        """Return the groups, each with its source."""
        found = list(Membership.objects.filter(user=user).select_related("group").order_by("group__name", "group_id")[: MAX_LINKS + 1])
        lines = [
            (self.row_link(each.group), membership_origin(each.from_claim, each.from_directory, user.pk, user.options))
            for each in found[:MAX_LINKS]
        ]
        every = self.changelist_url(Group, members__id__exact=user.pk)
        more = format_html('<div><a href="{}">Show all</a></div>', every) if len(found) > MAX_LINKS else ""
        return format_html("{}{}", format_html_join("", "<div>{}: {}</div>", lines), more) if lines else self.get_empty_value_display()

    @admin.display(description="accounts at MCP servers")
    def connected_to(self, user: User) -> SafeString:
        return self.row_links(user.connected_accounts.order_by("resource"), self.changelist_url(ConnectedAccount, user__id__exact=user.pk))

    @admin.display(description="temporary access")
    def access(self, user: Any) -> SafeString | str:
        return self._access_lines(user.access_lines)

    @admin.display(description="access requests")
    def access_requests(self, user: Any) -> SafeString | str:
        return self._access_lines(user.request_lines)

    @admin.display(description="latest decisions")
    def decided(self, user: User) -> SafeString | str:
        found = LoggedDecision.objects.filter(user_id=user.pk).defer("snapshot").order_by("-decided_at", "-id")[:RECENT_DECISIONS]
        lines = [
            (
                time_element(row.decided_at, "exact"),
                self._url("authorize_loggeddecision_change", row.pk),
                row.outcome,
                f"{row.method} {row.url}",
            )
            for row in found
        ]
        if not lines:
            return "None in the decision log."
        every = f"{self._url('authorize_loggeddecision_changelist')}?{urlencode({'user': user.pk})}"
        rows = format_html_join("", '<div>{} <a href="{}">{}</a> {}</div>', lines)
        return format_html('{}<div><a href="{}">Show all</a></div>', rows, every)

    @admin.display(description="authorized programs")
    def programs(self, user: Any) -> SafeString | str:
        """Return the authorized client applications, each with the session that it uses and ends with."""
        if isinstance(user.let_in, str):
            return user.let_in
        lines = [
            (client.redirect_host, client.host, time_element(client.authorized_at), self.row_link(session, "this session"))
            for session, let_in in user.let_in
            for client in let_in
        ]
        rows = format_html_join("", "<div>Program at {} for {}, since {}, until {} ends</div>", lines)
        return rows or f"None in the newest {MAX_LISTED_SESSIONS} sessions."

    @admin.display(description="service accounts created by this user")
    def accounts(self, user: User) -> SafeString | str:
        """Return the service accounts by the names of this user in `created_by`, each of which is unique to the user."""
        names = {str(user), unambiguous_name("", user.name, user.pk), user.pk}
        found = list(ServiceAccount.objects.filter(created_by__in=names).order_by("pk")[: MAX_LINKS + 1])
        lines = [(self.row_link(each), _describe_account(each)) for each in found[:MAX_LINKS]]
        every = self.changelist_url(ServiceAccount, q=user.email or user.pk)
        more = format_html('<div><a href="{}">Show all</a></div>', every) if len(found) > MAX_LINKS else ""
        return format_html("{}{}", format_html_join("", "<div>{}: {}</div>", lines), more) if lines else "None."

    def _access_lines(self, lines: Lines | str) -> SafeString | str:
        if isinstance(lines, str):
            return lines
        if not lines:
            return "None."
        page = self._url("authenticate_accessforawhile_changelist")
        return format_html(
            '{}<div><a href="{}">Revoke or decide</a></div>', format_html_join("", "<div>{}, until {}: {}</div>", lines), page
        )

    def _url(self, page: str, *arguments: Any) -> str:
        return reverse(f"{self.admin_site.name}:{page}", args=arguments)


async def _access(broker: Any, user: Any) -> tuple[Lines, Lines]:
    """Return rows of the user's access and access requests; empty without a user record."""
    if isinstance(user.records, str):
        raise BrokerError(user.records)
    record = user.records[0]
    if record is None:
        return [], []
    holder = grant_subject_for_user(UserRecord.from_record(record), user.options.providers)
    held = await GrantStore(broker).active_for(*holder)
    requests = [each.request for each in await AccessRequestStore(broker).list_for(*holder)]
    grants = [
        (each.route_name or each.route, time_element(each.expires_at), f"{each.reason} (granted by {each.granted_by})") for each in held
    ]
    return grants, [
        (f"{each.route_name}, for {format_duration(each.duration_seconds)}", time_element(each.expires_at), each.reason)
        for each in requests
    ]


async def _programmatic_clients(broker: Any, sessions: list[Session]) -> list[tuple[Session, list[ProgrammaticClient]]]:
    found = await asyncio.gather(*(list_clients(broker, session.pk) for session in sessions))
    return list(zip(sessions, found, strict=True))


def _describe_account(account: ServiceAccount) -> SafeString:
    """Describe an account: its permissions, its expiry, and whether it is valid."""
    may = [f"{name} {value}" for name, value in (("groups", account.groups), ("API:", account.permissions)) if value]
    ends = format_html("until {}", time_element(account.expires_at)) if account.expires_at else "no expiry"
    used = format_html("last used {}", time_element(account.last_seen_at)) if account.last_seen_at else "never used"
    return format_html("{}, {}, {}", ", ".join(may) or "no group", ends, used)


def register(site: admin.AdminSite) -> None:
    """Register in place of databroker's page."""
    site.unregister(User)
    site.register(User, UserDetailsAdmin)
