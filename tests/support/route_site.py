"""A route host in one process: gate's pages there, and browsers with cookies."""

import time
from http.cookies import SimpleCookie
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from django.core.handlers.asgi import ASGIHandler

from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.handoff import HandoffTokens
from foundation.crypto.signing_key import SigningKey
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.service import ProxyService
from tests.support.asgi import Answer, chunked_receive, incoming_from
from tests.support.options import make_options

ROUTES = [
    {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True},
    {"from": "https://other.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True},
    {"from": "https://strong.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True, "acr_values": ["mfa"]},
    {
        "from": "tcp+https://db.example.com:5432",
        "to": "tcp://127.0.0.1:9",
        "acr_values": ["mfa"],
        "max_age": "15m",
        "allowed_users": ["a@b.c"],
    },
    {"from": "https://finance.example.com", "to": "http://127.0.0.1:9", "allowed_users": ["boss@example.com"]},
]


class RouteSite:
    """Site of a route host. `ahead` is the offset of the clock in seconds."""

    def __init__(self, directory: Path, django_pages: ASGIHandler, **settings: Any):
        self.ahead = 0.0
        self.options = make_options(directory, **{"policy": ROUTES, "forward_auth_url": "http://forward.example.com", **settings})
        self.broker = MemoryStore(self.clock)
        self.authorize = AuthorizeService(
            self.options, Replica(self.broker, clock=self.clock), SigningKey.from_options(self.options), self.clock
        )
        resources = SharedResources(broker=self.broker)
        self.proxy = ProxyService(self.options, AuthorizationPipeline(self.options, self.authorize, resources, self.clock), resources)
        self.handoffs = HandoffTokens(self.options)
        self._django_pages = django_pages

    def clock(self) -> float:
        return time.time() + self.ahead

    def browser(self) -> "RouteBrowser":
        return RouteBrowser(self)

    async def ask(self, url: str, **scope: Any) -> Answer:
        answer, incoming = Answer(), incoming_from(url, **scope)
        gate = SimpleNamespace(
            options=self.options,
            broker=self.broker,
            authorize=self.authorize,
            proxy=self.proxy,
            incoming=incoming,
            request_id=incoming.request_id,
        )
        await self._django_pages({**incoming.scope, "path": incoming.request.path, "gate": gate}, chunked_receive(), answer.send)
        return answer


class RouteBrowser:
    """Browser with cookies per host. It does not follow redirects."""

    def __init__(self, site: RouteSite):
        self.site = site
        self.cookies: dict[str, dict[str, str]] = {}

    async def get(self, url: str, **headers: str) -> Answer:
        host = urlsplit(url).netloc
        jar = self.cookies.setdefault(host, {})
        sent = {"accept": "text/html", **headers}
        if jar:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in jar.items())
        answer = await self.site.ask(url, headers=sent)
        self.keep(host, answer.values("set-cookie"))
        return answer

    def keep(self, host: str, set_cookies: list[str]) -> None:
        jar = self.cookies.setdefault(host, {})
        for text in set_cookies:
            for name, morsel in SimpleCookie(text).items():
                jar.pop(name, None)
                if morsel["max-age"] != "0":
                    jar[name] = morsel.value

    def begin(self, host: str) -> str:
        """Start a sign-in as the data plane does for a page that needs a session; return the attempt id."""
        attempt_id, set_cookies = self.site.proxy.sign_in_attempts.start({}, host, [], self.site.clock())
        self.keep(host, set_cookies)
        return attempt_id
