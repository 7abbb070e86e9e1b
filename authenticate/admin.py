"""Admin page "Temporary access": requests and grants.

Approvers decide requests here as on the access page. An administrator who is not an approver can only revoke access.
"""

from collections.abc import AsyncGenerator
from itertools import starmap
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode

from authenticate.access_requests.access_request_service import AccessActor, format_duration
from authenticate.service import page_context
from authenticate.views.actors import actor_for
from authenticate.views.view_helpers import get_session
from config.settings.linked_accounts import VERIFIED_EMAIL
from databroker.admin.read_only_admin import SESSION_KEY, TablelessAdmin
from databroker.audit_log import AuditLogUnavailable, administrator_log
from databroker.grants.access_request_store import AccessRequestStore, StoredAccessRequest
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.grants.grant_store import AccessError, GrantStore
from foundation.errors import BrokerError
from foundation.web.times import time_element

MAX_ROWS = 100
# Records of each kind that are read, which bounds the time of the page.
MAX_READ = 1000
BROKER_UNAVAILABLE = "The data broker is unavailable; the change may be incomplete. Reload in a minute."
AUDIT_LOG_UNAVAILABLE = "The audit log is unavailable. Nothing was changed; try again in a minute."
NOT_AN_APPROVER = "You can't decide this request: only approvers of its route can, and not on their own requests."
DONE = {"approve": "Approved.", "refuse": "Refused.", "revoke": "The access was revoked."}


class AccessForAWhile(models.Model):
    """Model without a table (PageAdmin)."""

    class Meta:
        app_label = "authenticate"
        managed = False
        default_permissions = ()
        verbose_name = verbose_name_plural = "temporary access"


class AccessForAWhileAdmin(TablelessAdmin):
    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST":
            self._do(request)
            return HttpResponseRedirect(request.path)
        try:
            context = async_to_sync(_context)(request)
        except BrokerError:
            context = {"problem": "The data broker is unavailable."}
        return self.page(request, "admin/authenticate/access.html", "Temporary access", limit=MAX_ROWS, **context)

    def _do(self, request: HttpRequest) -> None:
        """Perform the action of a button, and show its result."""
        try:
            self.message_user(request, async_to_sync(_perform)(request), messages.SUCCESS)
        except AccessError as error:
            text = str(error)
            self.message_user(request, f"{text[:1].upper()}{text[1:]}.", messages.WARNING)
        except AuditLogUnavailable:
            self.message_user(request, AUDIT_LOG_UNAVAILABLE, messages.ERROR)
        except BrokerError:
            self.message_user(request, BROKER_UNAVAILABLE, messages.ERROR)


async def admin_actor(request: HttpRequest) -> AccessActor | None:
    """Return the administrator as an actor; None if they signed in by password, or their session has ended."""
    gate = page_context(request)
    entered_by, session = request.session.get(SESSION_KEY), await get_session(request)
    return await actor_for(gate, session) if session is not None and session.id == entered_by else None


async def _perform(request: HttpRequest) -> str:
    gate, sent = page_context(request), request.POST
    desk, do = gate.authenticate.access_requests, sent.get("do", "")
    if do == "revoke":
        user_id, _, id = sent.get("access", "").rpartition(" ")
        audit = administrator_log(request)
        await desk.revoke_as_administrator(audit.actor.name, user_id, id, audit)
        return DONE[do]
    caller, (id, _, nonce) = await admin_actor(request), sent.get("request", "").partition(" ")
    if caller is None or do not in DONE:
        raise AccessError("only administrators signed in by single sign-on can decide requests; nothing was changed")
    if do == "refuse":
        await desk.deny(caller, id, nonce)
        return DONE[do]
    approval = await desk.approve(caller, id, nonce, gate.authorize.load_session_identity)
    return DONE[do] if approval.grant_expires_at else "Approved. More approvals are needed."


async def _context(request: HttpRequest) -> dict[str, Any]:
    gate = page_context(request)
    broker, clock = gate.broker, gate.authenticate.clock
    pending = await take(AccessRequestStore(broker, clock).iter_pending())
    active, expired = [await take(GrantStore(broker, clock).iter_grants(expired=expired)) for expired in (False, True)]
    caller = await admin_actor(request)
    pending.sort(key=lambda held: held.request.requested_at)
    active.sort(key=lambda each: each[1].expires_at)
    expired.sort(key=lambda each: each[1].expires_at, reverse=True)
    return {
        "pending": [_pending_row(gate.authenticate.access_requests, held, caller) for held in pending[:MAX_ROWS]],
        "more_pending": len(pending) > MAX_ROWS,
        "active": list(starmap(_grant_row, active[:MAX_ROWS])),
        "more_active": len(active) > MAX_ROWS,
        "expired": list(starmap(_grant_row, expired[:MAX_ROWS])),
        "not_an_approver": NOT_AN_APPROVER,
    }


async def take(records: AsyncGenerator[Any], maximum: int = MAX_READ) -> list[Any]:
    """Return at most `maximum` records."""
    first: list[Any] = []
    async for each in records:
        first.append(each)
        if len(first) >= maximum:
            break
    await records.aclose()
    return first


def _pending_row(desk: Any, held: StoredAccessRequest, caller: AccessActor | None) -> dict[str, Any]:
    access_request, route = held.request, desk.rules.route(held.request.route)
    settings = None if route is None else route.access_requests
    return {
        "access_request": access_request,
        "user_url": _user_url(access_request.user_id),
        "value": f"{held.id} {access_request.request_id}",
        "duration": format_duration(access_request.duration_seconds),
        "needed": 0 if settings is None else settings.approvals,
        "is_gone": route is None,
        "requested_at": time_element(access_request.requested_at),
        "expires_at": time_element(access_request.expires_at),
        "can_decide": caller is not None and desk.can_decide(caller, access_request),
    }


def _grant_row(held: UserGrants, access: AccessGrant) -> dict[str, Any]:
    moments = {"starts_at": time_element(access.started_at), "expires_at": time_element(access.expires_at)}
    value = f"{held.user_id} {access.route_hash}"
    return {"user": held, "user_url": _user_url(held.user_id), "access": access, "value": value, **moments}


def _user_url(id: str) -> str:
    """Return the page of a user; for linked accounts, the list of them."""
    kind, _, address = id.partition("/")
    if kind == VERIFIED_EMAIL:
        return f"{reverse('admin:databroker_user_changelist')}?{urlencode({'q': address})}"
    return reverse("admin:databroker_user_change", args=(quote(id),))


def register(site: admin.AdminSite) -> None:
    site.register(AccessForAWhile, AccessForAWhileAdmin)
