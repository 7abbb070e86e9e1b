"""Admin site, accessed by single sign-on of the configured administrators while their session is valid."""

import hashlib
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from asgiref.sync import async_to_sync
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model, login
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.decorators import method_decorator
from django.utils.text import slugify
from django.views.decorators.cache import never_cache

import authenticate.admin
import authenticate.views.oauth.connection_admin
import authorize.admin
import databroker.admin.directory_run_admin
import databroker.admin.group_admin
import databroker.admin.service_account_admin
import databroker.admin.session_admin
import proxy.admin
from authenticate.service import page_context
from authorize.policy.identity import Identity
from databroker.admin.read_only_admin import SESSION_KEY
from databroker.audit_log import USER_ID_KEY, Actor, ActorKind, record_action
from foundation.web.plain_text import sanitize_text
from foundation.web.responses import render_error
from gateproject.configuration_page import register as register_configuration_page
from gateproject.dashboard import build_dashboard
from gateproject.middleware import ADMIN
from gateproject.user_admin import register as register_person_page

BACKEND = "django.contrib.auth.backends.ModelBackend"
# Sections of the admin and their models, in order.
SECTIONS = (
    ("Access policy", ("Route", "AccessForAWhile", "LoggedDecision")),
    ("People", ("User", "Session", "ConnectedAccount", "Group")),
    ("Service accounts and directory", ("ServiceAccount", "DirectoryRun")),
    ("Audit log", ("AuditEntry",)),
    ("Configuration", ("Configuration",)),
)


class GateAdminSite(AdminSite):
    index_title = "Sessions, people, routes and decisions"
    site_url = "/.gate/"
    enable_nav_sidebar = True

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        name = page_context(request).incoming.site.brand.name
        return {**super().each_context(request), "site_header": name, "site_title": f"{name} admin"}

    def index(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        return super().index(request, {"dashboard": build_dashboard(request), **(extra_context or {})})

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Return the sections by topic instead of by Django application."""
        apps = super().get_app_list(request, app_label)
        if app_label is not None:
            return apps
        pages = {model["object_name"]: model for app in apps for model in app["models"]}
        sections = ((title, [pages[name] for name in names if name in pages]) for title, names in SECTIONS)
        return [{"name": title, "app_label": slugify(title), "models": models} for title, models in sections if models]

    def has_permission(self, request: HttpRequest) -> bool:
        """Check permission on each request: the Django session alone is not enough, its sign-in session must be valid."""
        if not super().has_permission(request):
            return False
        signed_in_by = request.session.get(SESSION_KEY)
        if signed_in_by is None:
            # The pages have no per-account permissions.
            return bool(page_context(request).options.admin_password_login and request.user.is_superuser)
        identity = identify(request)
        return identity is not None and identity.session_id == signed_in_by and may_administer(request, identity)

    @method_decorator(never_cache)
    def login(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> HttpResponse:
        gate = page_context(request)
        if gate.options.admin_password_login and (request.method == "POST" or "password" in request.GET):
            answer = super().login(request, extra_context)
            if answer.status_code == HTTPStatus.FOUND and self.has_permission(request):
                record_action(request, "opened the admin", object_repr=request.user.get_username())
            return answer
        identity = identify(request)
        if identity is None:
            return HttpResponseRedirect(gate.authenticate.browser_redirects.sign_in_url(_target(request)))
        if not may_administer(request, identity):
            stranger = Actor(ActorKind.USER, identity.user_id, identity.display_name)
            record_action(
                request,
                "was denied access to the admin",
                object_repr=identity.display_name,
                object_id=identity.user_id,
                non_administrator=stranger,
            )
            reason = f"You are signed in as {identity.display_name}, who is not an administrator of this gate."
            advice = "The settings admin_allowed_users and admin_allowed_groups list the administrators."
            sign_out_url = f"/.gate/signout/?{urlencode({'gate_redirect_uri': gate.authenticate.origin + _target(request)})}"
            links = (("View my account", "/.gate/"), ("Sign in as another user", sign_out_url))
            return render_error(request, 403, reason, advice=advice, links=links)
        login(request, _django_user(identity), backend=BACKEND)
        request.session[SESSION_KEY] = identity.session_id
        request.session[USER_ID_KEY] = identity.user_id
        record_action(request, "opened the admin", object_repr=identity.display_name, object_id=identity.user_id)
        return HttpResponseRedirect(_target(request))


def identify(request: HttpRequest) -> Identity | None:
    gate = page_context(request)
    return async_to_sync(gate.authorize.identify)(gate.incoming.cookie_headers, gate.incoming.request.host_port)


def may_administer(request: HttpRequest, identity: Identity) -> bool:
    gate = page_context(request)
    return bool(gate.authorize.may_administer(identity))


def _django_user(identity: Identity) -> AbstractBaseUser:
    """Return the account, linked by provider and subject, never by email, because an address can be reassigned."""
    model = get_user_model()
    username = f"sso-{hashlib.sha256(identity.user_id.encode()).hexdigest()[:32]}"
    user, is_new = model.objects.get_or_create(username=username)
    if is_new:
        user.set_unusable_password()
    # Pages greet users by `first_name`; the audit log uses the address or the name (`administrator`).
    user.email = identity.email[:254] if identity.verified_email else ""
    user.first_name = sanitize_text(identity.name or user.email or identity.user_id)[:150]
    user.is_staff = user.is_superuser = user.is_active = True
    user.save()
    return user


def _target(request: HttpRequest) -> str:
    """Return where to redirect after sign-in: always a page of the admin, whatever the query contains."""
    target = request.GET.get("next", ADMIN)
    try:
        parts = urlsplit(target)
    except ValueError:  # a bracket without an IPv6 address
        return ADMIN
    is_inside = not parts.scheme and not parts.netloc and parts.path.startswith(ADMIN) and "\\" not in target
    return target if is_inside and not parts.path.startswith(f"{ADMIN}log") else ADMIN


site = GateAdminSite(name="admin")
databroker.admin.session_admin.register(site)
register_person_page(site)
authenticate.admin.register(site)
authenticate.views.oauth.connection_admin.register(site)
databroker.admin.service_account_admin.register(site)
databroker.admin.directory_run_admin.register(site)
databroker.admin.group_admin.register(site)
proxy.admin.register(site)
authorize.admin.register(site)
register_configuration_page(site)
