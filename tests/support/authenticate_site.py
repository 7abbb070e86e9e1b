"""The authenticate host in one process: its pages, browsers, and a clock that tests control."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from asgiref.testing import ApplicationCommunicator

from authenticate.provider.provider_client import ProviderClient
from authenticate.service import AuthenticateService
from authorize.policy.policy_request import parse_request
from authorize.service import AuthorizeService
from databroker.records import SESSION, Record
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.handoff import Handoff, HandoffTokens
from foundation.crypto.signing_key import SigningKey
from proxy.responses.site_context import build_site_info
from tests.support.brokers import DisturbedBroker
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, FakeIdP
from tests.support.options import make_options

HOST = "auth.example.com"
ORIGIN = f"https://{HOST}"
APP = "https://app.example.com"
ROUTES = [
    {"from": APP, "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True},
    {"from": "https://other.example.com:8443", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True},
    {"from": "https://*.wild.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True},
]
ATTEMPT = "a" * 22  # attempt id of a route host


class Clock:
    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


class Site:
    def __init__(self, directory: Path, idp: FakeIdP, django_pages: Any, **settings: Any):
        self.clock = Clock()
        self.client_address = "192.0.2.7"
        self.idp = idp
        idp.clock = self.clock
        self.options = make_options(
            directory,
            **{
                "authenticate_service_url": ORIGIN,
                "idp_provider_url": idp.issuer,
                "idp_client_id": CLIENT_ID,
                "idp_client_secret": CLIENT_SECRET,
                "groups_claim": "groups",
                "policy": ROUTES,
                **settings,
            },
        )
        self.broker = DisturbedBroker(MemoryStore(self.clock))
        signing_key = SigningKey.from_options(self.options)
        self.service = AuthenticateService(self.options, self.broker, signing_key, self.clock)
        self._authorize = AuthorizeService(self.options, Replica(self.broker), signing_key, self.clock)
        self._django_pages = django_pages

    @property
    def client(self) -> ProviderClient:
        """Client of the only provider."""
        (client,) = self.service.providers.all()
        return client

    def browser(self) -> "Browser":
        return Browser(self)

    def sign_in_url(self, target: str = f"{APP}/reports?year=2026&q=a%20b", attempt: str = ATTEMPT) -> str:
        """Return the sign-in URL as the data plane builds it for a route host."""
        params = {"gate_redirect_uri": target, "gate_attempt": attempt}
        return self.service.signer.sign(f"{ORIGIN}/.gate/sign_in", params, self.clock())

    def open_handoff(self, location: str, host_port: str = "app.example.com") -> Handoff:
        """Open a handoff token as the route host does."""
        token = parse_qs(urlsplit(location).query)["gate_session"][0]
        return HandoffTokens(self.options).open(token, host_port, self.clock())

    async def sessions(self) -> list[Record]:
        return await self.broker.page(SESSION, "", 100)

    async def answer(self, method: str, url: str, headers: list[tuple[bytes, bytes]], body: bytes) -> "Response":
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}" in (ORIGIN, "://"), f"not a page of the authenticate host: {url}"
        request = parse_request(
            method,
            HOST.encode(),
            parts.path.encode(),
            parts.query.encode(),
            self._authorize.default_ports,
            source_ip=self.client_address,
            headers=headers,
        )
        gate = SimpleNamespace(
            options=self.options,
            broker=self.broker,
            authorize=self._authorize,
            authenticate=self.service,
            request_id="0" * 32,
            incoming=SimpleNamespace(request_id="0" * 32, response_reason="", request=request, site=build_site_info(self.options)),
            client_address=self.client_address,
        )
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "https",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(b"host", HOST.encode()), *headers],
            "client": ["192.0.2.7", 1],
            "gate": gate,
        }
        communicator = ApplicationCommunicator(self._django_pages, scope)
        await communicator.send_input({"type": "http.request", "body": body, "more_body": False})
        start = await communicator.receive_output(20)
        body_parts = [await communicator.receive_output(20)]
        while body_parts[-1].get("more_body"):
            body_parts.append(await communicator.receive_output(20))
        await communicator.wait()
        content = b"".join(part["body"] for part in body_parts).decode()
        return Response(start["status"], [(name.decode(), value.decode()) for name, value in start["headers"]], content)


@dataclass(frozen=True)
class Response:
    status: int
    raw_headers: list[tuple[str, str]]
    text: str

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.raw_headers}

    @property
    def location(self) -> str:
        assert self.status == 302, f"{self.status}: {self.text}"
        return self.headers["location"]

    @property
    def set_cookies(self) -> list[str]:
        return [value for name, value in self.raw_headers if name.lower() == "set-cookie"]


class Browser:
    """Browser with the cookies of the authenticate host. It does not follow redirects."""

    def __init__(self, site: Site):
        self.site = site
        self.cookies: dict[str, str] = {}

    async def get(self, url: str, *, method: str = "GET", form: Mapping[str, str] | None = None, **headers: str) -> Response:
        sent = {"accept": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if form is not None:
            sent["content-type"] = "application/x-www-form-urlencoded"
        raw = [(name.encode(), value.encode()) for name, value in sent.items()]
        response = await self.site.answer(method, url, raw, urlencode(form or {}).encode())
        self._keep(response)
        return response

    async def post(self, url: str, form: Mapping[str, str], **headers: str) -> Response:
        return await self.get(url, method="POST", form=form, **headers)

    async def to_provider(self, **arguments: str) -> str:
        """Start a sign-in and return the provider's authorization URL."""
        return (await self.get(self.site.sign_in_url(**arguments))).location

    async def sign_in(self, sub: str = "alice", **arguments: str) -> Response:
        """Sign in completely and return the response of the callback."""
        return await self.get(self.site.idp.pick(await self.to_provider(**arguments), sub))

    def _keep(self, response: Response) -> None:
        for value in response.set_cookies:
            for name, morsel in SimpleCookie(value).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
