"""Pages of a Django site that signs users in by a proxy's header (tests/support/header_applications.py)."""

from django.contrib.auth.middleware import RemoteUserMiddleware
from django.http import HttpRequest, HttpResponse
from django.urls import re_path


class ProxysHeader(RemoteUserMiddleware):
    header = "HTTP_REMOTE_USER"


def current_user(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{request.user.get_username()} {request.META.get('HTTP_REMOTE_GROUPS', '')}")


urlpatterns = [re_path("", current_user)]
