"""Django middleware around our views: which pages exist at this host, the admin's guards, our cookies."""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from asgiref.sync import markcoroutinefunction
from django.db import InterfaceError, InternalError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import timezone, translation
from django.utils.deprecation import MiddlewareMixin
from django_prometheus.middleware import PrometheusAfterMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware

from foundation.auth_challenges import missing_headers
from foundation.errors import BrokerError
from foundation.web.languages import LANGUAGES, preferred_language
from foundation.web.message import Message
from foundation.web.responses import render_error
from proxy.service import page_context

log = structlog.get_logger(__name__)

ADMIN = "/.gate/admin/"

# The admin's own pages need its stylesheets and scripts, all from our host; nothing inline.
ADMIN_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)


class PageMetricsMiddleware(PrometheusAfterMiddleware):
    """Metrics of our pages, by view, method and status: django-prometheus's, under labels that no client chooses."""

    def label_metric(self, metric: Any, request: HttpRequest, response: HttpResponse | None = None, **labels: str) -> Any:
        if "method" in labels:  # of which its latency has any that a client writes
            labels["method"] = self._method(request)
        return super().label_metric(metric, request, response, **labels)


class HostPagesMiddleware(MiddlewareMixin):
    """URLs by host: the pages of the authenticate host exist there only; those of route hosts everywhere else."""

    def process_request(self, request: HttpRequest) -> None:
        at_authenticate_host = page_context(request).at_authenticate_host
        request.urlconf = "gateproject.urls" if at_authenticate_host else "proxy.urls"


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Stylesheets and scripts.  WhiteNoise looks at each of them when it is made; this, when the first is asked for."""

    def add_files_from_finders(self) -> None:
        pass

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not self.files and request.path_info.startswith(self.static_prefix):
            super().add_files_from_finders()
        return super().__call__(request)


class TimeZoneMiddleware(MiddlewareMixin):
    """Time zone of the admin, as the configuration in force names it."""

    def process_request(self, request: HttpRequest) -> None:
        timezone.activate(page_context(request).options.time_zone)


class LanguageMiddleware:
    """Language of a page, as its reader prefers; the admin is English."""

    async_capable, sync_capable = True, False

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponse]]):
        self._get_response = get_response
        markcoroutinefunction(self)
        for language in LANGUAGES:
            # Django reads its catalogues, for the names of months, when a language is first used: now, and not while people wait.
            with translation.override(language):
                translation.gettext("")

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(ADMIN):
            return await self._get_response(request)
        with translation.override(preferred_language(request.headers.get("Accept-Language", ""))):
            return await self._get_response(request)


class AdminCsrfMiddleware(CsrfViewMiddleware):
    """CSRF protection for the admin; our other pages have tokens of their own (foundation/crypto/csrf_token.py)."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path.startswith(ADMIN):
            super().process_request(request)

    def process_view(self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any) -> HttpResponse | None:
        return super().process_view(request, view, args, kwargs) if request.path.startswith(ADMIN) else None


class StoreUnavailableMiddleware(MiddlewareMixin):
    """503 without the data broker: nobody can say whose session stands, so no page lets anybody go on.  It says when to come back."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        # Only the admin asks the database itself; everything else goes through the data broker.
        # PostgreSQL calls it internal that it may only be read.
        if not isinstance(exception, (BrokerError, OperationalError, InterfaceError, InternalError)):
            return None
        request_id = page_context(request).request_id
        if isinstance(exception, BrokerError):
            log.error("data broker unavailable", error=str(exception), request_id=request_id)
            at_admin = "The data broker is unavailable, so the admin can't load your session."
        else:
            log.error("admin database unavailable", error=str(exception).partition("\n")[0], request_id=request_id)
            at_admin = "The database failed."
        if request.path.startswith(ADMIN):
            reason = at_admin
            advice = "Cached sessions stay valid for a short time. The log has the cause; try again in a moment."
        else:
            reason, advice = Message("Your session can't be loaded at the moment."), Message("Try again in a minute.")
        response = render_error(request, 503, reason, advice=advice)
        response.headers["Retry-After"] = str(getattr(exception, "retry_after", BrokerError.retry_after))
        return response


def _no_such_method(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """In place of Django's answer, which is empty: a reload of what a button has led to asks for a page that only buttons open."""
    page = render_error(request, 405, Message("This method is not supported here."), links=((Message("Your applications"), "/.gate/"),))
    page.headers["Allow"] = response.headers["Allow"]
    return page


class ResponseHeadersMiddleware(MiddlewareMixin):
    """Response headers: the admin's security headers, and what an answer of its status must carry."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if isinstance(response, HttpResponseNotAllowed):
            response = _no_such_method(request, response)
        for name, value in page_context(request).incoming.site.headers:
            response.headers[name.decode()] = value.decode()
        for name, value in missing_headers(response.status_code, [name.lower().encode() for name in response.headers]):
            response.headers[name.decode()] = value.decode()
        if request.path.startswith(ADMIN):
            response.headers.setdefault("Content-Security-Policy", ADMIN_POLICY)
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            response.headers.setdefault("X-Frame-Options", "DENY")
            response.headers.setdefault("Referrer-Policy", "same-origin")
        return response
