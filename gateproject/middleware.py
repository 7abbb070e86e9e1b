"""Django middleware of gate's views: pages by host, checks for the admin, and cookies."""

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

# The admin needs its stylesheets and scripts from this host, but nothing inline.
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
    """Metrics of gate's pages by view, method and status (django-prometheus), without client-controlled labels."""

    def label_metric(self, metric: Any, request: HttpRequest, response: HttpResponse | None = None, **labels: str) -> Any:
        if "method" in labels:  # whose latency metric has labels that a client controls
            labels["method"] = self._method(request)
        return super().label_metric(metric, request, response, **labels)


class HostPagesMiddleware(MiddlewareMixin):
    """URLs by host: pages of the authenticate host exist only there, those of route hosts everywhere else."""

    def process_request(self, request: HttpRequest) -> None:
        is_authenticate_host = page_context(request).is_authenticate_host
        request.urlconf = "gateproject.urls" if is_authenticate_host else "proxy.urls"


class StaticFilesMiddleware(WhiteNoiseMiddleware):
    """Stylesheets and scripts. WhiteNoise scans the files when it is created, so this creates it on the first request."""

    def add_files_from_finders(self) -> None:
        pass

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not self.files and request.path_info.startswith(self.static_prefix):
            super().add_files_from_finders()
        return super().__call__(request)


class TimeZoneMiddleware(MiddlewareMixin):
    """Time zone of the admin, from the active configuration."""

    def process_request(self, request: HttpRequest) -> None:
        timezone.activate(page_context(request).options.time_zone)


class LanguageMiddleware:
    """Language of a page by content negotiation; the admin is English."""

    async_capable, sync_capable = True, False

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponse]]):
        self._get_response = get_response
        markcoroutinefunction(self)
        for language in LANGUAGES:
            # Django loads its catalogs (month names) on first use of a language; load them now instead of during a request.
            with translation.override(language):
                translation.gettext("")

    async def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path.startswith(ADMIN):
            return await self._get_response(request)
        with translation.override(preferred_language(request.headers.get("Accept-Language", ""))):
            return await self._get_response(request)


class AdminCsrfMiddleware(CsrfViewMiddleware):
    """CSRF protection of the admin; gate's other pages use foundation/crypto/csrf_token.py."""

    def process_request(self, request: HttpRequest) -> None:
        if request.path.startswith(ADMIN):
            super().process_request(request)

    def process_view(self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any) -> HttpResponse | None:
        return super().process_view(request, view, args, kwargs) if request.path.startswith(ADMIN) else None


class StoreUnavailableMiddleware(MiddlewareMixin):
    """503 with Retry-After if the data broker is unavailable, because no session can be verified."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        # Only the admin uses the database directly; everything else uses the data broker.
        # PostgreSQL reports a read-only transaction as an internal error.
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


def _method_not_allowed(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """Replace Django's empty 405: reloading the result of a button requests a page that only accepts POST."""
    page = render_error(request, 405, Message("This method is not supported here."), links=((Message("Your applications"), "/.gate/"),))
    page.headers["Allow"] = response.headers["Allow"]
    return page


class ResponseHeadersMiddleware(MiddlewareMixin):
    """Response headers: the admin's security headers, and those that the status requires."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        if isinstance(response, HttpResponseNotAllowed):
            response = _method_not_allowed(request, response)
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
