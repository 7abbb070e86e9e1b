"""Django application that reports how Django parses paths, for any ASGI server. `MOUNTS` lists its prefixes, separated by spaces."""

import os
from urllib.parse import quote

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import re_path

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of a test", MIDDLEWARE=[], USE_TZ=True)


def served(handler):
    def view(request: HttpRequest, **_: str) -> HttpResponse:
        path = quote(request.path_info, safe="")
        return HttpResponse(headers={"X-Served": handler, "X-Method": request.method, "X-Path": path})

    return view


def _urls():
    for mount in os.environ["MOUNTS"].split():
        beginning = mount.strip("/") + "/" if mount != "/" else ""
        yield re_path(rf"^{beginning}users$", served("users"))
        yield re_path(rf"^{beginning}admin/users$", served("admin"))
        yield re_path(rf"^{beginning}static/", served("static"))
    yield re_path("", served("other"))


urlpatterns = list(_urls())
django.setup()
application = get_asgi_application()
