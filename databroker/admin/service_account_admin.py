"""Admin page of service accounts: create, rotate and revoke.  A secret is displayed once, in the response to the form."""

from datetime import timedelta
from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.decorators import method_decorator
from django.views.decorators.csrf import csrf_protect

from databroker.admin.read_only_admin import SESSION_KEY, ReadOnlyAdmin, time_column
from databroker.audit_log import AuditAction, administrator, record_actions
from databroker.broker_client import page_context
from databroker.models import ServiceAccount
from databroker.permissions import PERMISSIONS
from databroker.records import SESSION
from databroker.service_account_store import AccountError, ServiceAccounts, accounts_created_by, validate_name
from foundation.errors import BrokerError

LIFETIMES = (("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "unlimited"))
UNAVAILABLE = "The data broker is unavailable; nothing was changed."


class NewAccount(forms.Form):
    """Form for a new account."""

    name = forms.CharField(
        max_length=63, help_text="a-z, 0-9 and hyphens. Rules refer to it in allowed_users: <code>service_account/NAME</code>"
    )
    groups = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="One per line, as in allowed_groups. Optional."
    )
    permissions = forms.MultipleChoiceField(
        required=False,
        choices=[(name, f"{name}: {description}") for name, description in PERMISSIONS.items()],
        widget=forms.CheckboxSelectMultiple,
        label="API permissions",
        help_text="None by default. Routes ignore them.",
    )
    lifetime = forms.ChoiceField(choices=LIFETIMES, initial="90", required=False, label="Lifetime")

    @property
    def seconds(self) -> float | None:
        days = self.cleaned_data["lifetime"]
        return timedelta(days=int(days)).total_seconds() if days else None


class ServiceAccountAdmin(ReadOnlyAdmin):
    """Admin page of service accounts."""

    list_display = ["id", "groups", "permissions", "ends", "used", "last_host", "renewed", "made", "created_by"]
    search_fields = ["id", "groups", "permissions", "created_by"]
    search_help_text = "Name, group, permission or creator"
    ordering = ["id"]
    actions = ["rotate", "revoke"]

    # Dates only, because the list has many columns.
    ends = time_column("expires_at", "day")
    used = time_column("last_seen_at", "day", "last used")
    renewed = time_column("rotated_at", "day", "last new secret")
    made = time_column("created_at", "day")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    @method_decorator(csrf_protect)
    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Create an account, outside a transaction, because the audit entry must remain if the broker fails."""
        form = NewAccount(request.POST or None)
        if request.method == "POST" and form.is_valid():
            name, cleaned = form.cleaned_data["name"], form.cleaned_data
            try:
                validate_name(name)
                groups, permissions = cleaned["groups"].splitlines(), cleaned["permissions"]
                token = self._run_audited(
                    request,
                    AuditAction.CREATE_ACCOUNT,
                    name,
                    groups,
                    form.seconds,
                    administrator(request).name,
                    permissions,
                    secret_viewers=_secret_viewers(request),
                )
                return self._secret_page(request, name, token)
            except (AccountError, BrokerError) as error:
                form.add_error(None, UNAVAILABLE if isinstance(error, BrokerError) else _to_sentence(error))
        return self._page(request, "Add service account", form=form)

    @admin.action(description="Rotate the secret of the selected account (also revokes the accounts created with it)", permissions=["view"])
    def rotate(self, request: HttpRequest, accounts: QuerySet) -> HttpResponse | None:
        names = list(accounts.values_list("pk", flat=True)[:2])
        if len(names) != 1:
            self.message_user(request, "Select exactly one account: its new secret is shown once.", messages.WARNING)
            return None
        try:
            token = self._run_audited(request, AuditAction.ROTATE_ACCOUNT, names[0], secret_viewers=_secret_viewers(request))
            self._report_ended_with(request, names)
            return self._secret_page(request, names[0], token)
        except (AccountError, BrokerError) as error:
            self.message_user(request, UNAVAILABLE if isinstance(error, BrokerError) else _to_sentence(error), messages.ERROR)
            return None

    @admin.action(description="Revoke the selected accounts permanently", permissions=["view"])
    def revoke(self, request: HttpRequest, accounts: QuerySet) -> None:
        revoked, names = 0, list(accounts.values_list("pk", flat=True))
        for name in names:
            try:
                self._run_audited(request, AuditAction.REVOKE_ACCOUNT, name)
                revoked += 1
            except AccountError:
                continue  # already revoked
            except BrokerError:
                self.message_user(request, f"The data broker is unavailable; {revoked} revoked.", messages.ERROR)
                return
            finally:
                if revoked:
                    # The projection would remove it a moment later, but the next page is shown before.
                    ServiceAccount.rows.filter(pk=name).delete()
        self.message_user(request, f"{revoked} revoked.", messages.SUCCESS)
        self._report_ended_with(request, names)

    def _report_ended_with(self, request: HttpRequest, names: list[str]) -> None:
        try:
            accounts = async_to_sync(ServiceAccounts(page_context(request).broker).list)()
        except BrokerError:
            return
        for name in names:
            if created := accounts_created_by(name, accounts):
                self.message_user(request, f"Created by {name} and no longer valid: {', '.join(created)}.", messages.WARNING)

    def _run_audited(self, request: HttpRequest, action: AuditAction, name: str, *arguments: Any, **more: Any) -> Any:
        """Audit an action, then perform it, so that an action that cannot be logged is not performed."""
        record_actions(request, action, [(name, name)], ServiceAccount)
        accounts = ServiceAccounts(page_context(request).broker)
        work: Any = {
            AuditAction.CREATE_ACCOUNT: accounts.create,
            AuditAction.ROTATE_ACCOUNT: accounts.rotate,
            AuditAction.REVOKE_ACCOUNT: accounts.revoke,
        }[action]
        try:
            return async_to_sync(work)(name, *arguments, **more)
        except (AccountError, BrokerError):
            record_actions(request, action.failure, [(name, name)], ServiceAccount)
            raise

    def _secret_page(self, request: HttpRequest, name: str, token: str) -> HttpResponse:
        return self._page(request, f"Secret of {name}", token=token)

    def _page(self, request: HttpRequest, title: str, **context: Any) -> HttpResponse:
        response = self.page(request, "admin/databroker/serviceaccount/secret.html", title, **{"form": None, "token": "", **context})
        response.headers["Cache-Control"] = "no-store"
        return response

    def change_view(self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Redirect to the list, which has all details."""
        return HttpResponseRedirect(self.changelist_url(ServiceAccount, q=object_id))


def _secret_viewers(request: HttpRequest) -> tuple[str, ...]:
    """Return the identifiers of the administrator, who sees the secret, as access requests use them.

    An administrator with a password has no user id, and possibly an email address.
    """
    names = (request.user.email,) if request.user.email else ()
    if (session_id := request.session.get(SESSION_KEY)) is None:
        return names
    session = async_to_sync(page_context(request).broker.get)(SESSION, session_id)
    if session is None:
        raise AccountError("your session has ended")
    return (str(session.data["user_id"]), *names)


def _to_sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def register(site: admin.AdminSite) -> None:
    site.register(ServiceAccount, ServiceAccountAdmin)
