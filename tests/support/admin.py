"""The admin's pages for tests: a separate site, a signed-in client, and a `gate` for the pages."""

import re
from collections.abc import Awaitable, Callable
from functools import cache
from html import unescape
from types import ModuleType, SimpleNamespace
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, AsyncRequestFactory, override_settings
from django.urls import path, set_urlconf
from django.utils.decorators import async_only_middleware

from databroker.admin.read_only_admin import SESSION_KEY

MIDDLEWARE = [
    "tests.support.admin.separate_urlconf",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]


@async_only_middleware
def separate_urlconf(get_response: Callable[[HttpRequest], Awaitable[HttpResponse]]) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    """Pass the URLs per request, because a change of ROOT_URLCONF clears Django's caches of all URLconfs."""

    async def answer(request: HttpRequest) -> HttpResponse:
        request.urlconf = request.scope["urls"]
        try:
            return await get_response(request)
        finally:
            set_urlconf(None)

    return answer


class ClientOfGate(AsyncClient):
    """Client whose requests have `gate` in their scope, as from gateproject/asgi.py."""

    def __init__(self, gate: SimpleNamespace, urls: ModuleType):
        super().__init__()
        self._scope = {"gate": gate, "urls": urls}

    async def request(self, **request: Any) -> HttpResponse:
        return await super().request(**request, **self._scope)


@cache
def _urls(registers: tuple[Callable[[AdminSite], None], ...]) -> ModuleType:
    """Return one URLconf for all tests of the same pages, because Django caches an entry for each."""
    site = AdminSite()
    for register in registers:
        register(site)
    urls = ModuleType("urls_of_the_admin_alone")
    urls.urlpatterns = [path("admin/", site.urls)]
    return urls


class AdminPages:
    """Client of the pages: `get` and `post` as a staff user, or as another user with `is_staff=False`."""

    def __init__(self, *registers: Callable[[AdminSite], None], is_staff: bool = True, email: str = "", session_id: str = "", **gate: Any):
        self._client = ClientOfGate(SimpleNamespace(**{"client_address": "192.0.2.9", **gate}), _urls(registers))
        user = get_user_model().objects.create_user("ann" if is_staff else "bob", email, is_staff=is_staff)
        with override_settings(MIDDLEWARE=MIDDLEWARE):
            self._client.force_login(user)
            if session_id:  # session id of the admin sign-in
                session = self._client.session
                session[SESSION_KEY] = session_id
                session.save()

    def get(self, page: str, **query: str) -> HttpResponse:
        return async_to_sync(self.aget)(page, **query)

    def post(self, page: str, **form: Any) -> HttpResponse:
        return async_to_sync(self.apost)(page, **form)

    async def aget(self, page: str, **query: str) -> HttpResponse:
        with override_settings(MIDDLEWARE=MIDDLEWARE):
            return await self._client.get(f"/admin/{page}", query)

    async def apost(self, page: str, **form: Any) -> HttpResponse:
        with override_settings(MIDDLEWARE=MIDDLEWARE):
            return await self._client.post(f"/admin/{page}", form, follow=True)


def apps_on_sign_in_page(register: Callable[[AdminSite], None]) -> list[Any]:
    """Return the apps on the sign-in page, which Django also fills in for anonymous users."""
    site = AdminSite()
    register(site)
    request = AsyncRequestFactory().get("/admin/login/")
    request.user = AnonymousUser()
    return site.get_app_list(request)


def visible_text(response: HttpResponse) -> str:
    """Return the visible text: without tags and styles, with single spaces."""
    content = re.sub(r"(?s)<(script|style).*?</\1>", " ", response.content.decode())
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", content)).split())
