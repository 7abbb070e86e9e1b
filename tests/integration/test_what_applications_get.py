"""An application behind another proxy gets what gate judged and nothing else: the examples of forward auth, and that of ext_authz."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache

import pytest

from tests.support.development_provider import DevelopmentProvider
from tests.support.front_proxies import APP
from tests.support.fronts import FORWARD_AUTH, AnyFront, session_cookie, started
from tests.support.raw_http import Broken, RawClient
from tests.support.upstream import RecordingUpstream

EVIL = "evil.example"
FROM_GATE = (
    "X-Gate-Claim-Email",
    "X-Gate-Claim-Groups",
    "X-Gate-Jwt-Assertion",
    "X_Gate_Claim_Email",
    "X.Gate.Claim.Email",
    "XGateClaimEmail",
)
STEERING = (
    *("X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Forwarded-Method"),
    *("X-Forwarded-Proto", "X-Forwarded-For", "X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Groups", "Forwarded", "X-Real-Ip"),
    *("X-Forwarded-Preferred-Username", "X-Original-Url", "X-Original-Uri", "X-Original-Host", "X-Original-Method", "X-Rewrite-Url"),
    *(
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-Override-Method",
        "X-HTTP-Verb",
        "X-Method",
        "X-HTTP-Path-Info",
        "X-Proxy-Url",
        "X-Host",
        "X-Script-Name",
        "X_Original_Url",
        "X_Forwarded_Host",
        "X.Original.Url",
    ),
)
# Only Ingress NGINX passes the client's value in this header, and no application trusts it as a proxy's.
CLIENT_HEADERS = re.compile(rb"\r\nX-Original-Forwarded-For: [^\r]*")
TRAILED = ("X-Gate-Claim-Email", "X-Gate-Jwt-Assertion", "Authorization", "Cookie", "Host", "X-Forwarded-Host", "X-Original-Url", "X-Odd")


@dataclass(frozen=True)
class Place:
    """A proxy at which alice requests an application, and the application, which records the requests."""

    proxy: AnyFront
    cookie: str
    application: RecordingUpstream

    @property
    def host(self) -> str:
        return f"{APP}:{self.proxy.port}"

    def ask(self, case: str, *lines: str, target: str = "/x", host: str | None = None, body: str = "", method: str = "GET") -> bytes:
        """The request as it reached the application; empty where it did not."""
        hosts = [f"Host: {self.host if host is None else host}"]
        head = [f"{method} {target} HTTP/1.1", *hosts, f"X-Case: {case}", f"Cookie: {self.cookie}", *lines, "", ""]
        with RawClient(self.proxy.port, tls=self.proxy.certificates.client_context(), server_name=APP) as client:
            try:
                client.send("\r\n".join(head).encode("latin-1") + body.encode("latin-1")).response(method)
            except Broken:
                return b""
        return self.application.by_case.get(case, b"")


def hosts_of(request: bytes) -> list[str]:
    lines = [line.partition(b":") for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]]
    return [value.strip().decode().lower() for name, _, value in lines if name.lower() == b"host"]


@pytest.fixture(scope="module")
def opened(
    provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], tuple[AnyFront, RecordingUpstream]]]:
    with ExitStack() as stack:

        @cache
        def start(name: str) -> tuple[AnyFront, RecordingUpstream]:
            application = stack.enter_context(RecordingUpstream())
            directory = tmp_path_factory.mktemp(name)
            return stack.enter_context(started(name, directory, provider.url, application.url)), application

        yield start


@pytest.fixture(params=[*FORWARD_AUTH, "Envoy"])
async def place(request: pytest.FixtureRequest, opened: Callable[[str], tuple[AnyFront, RecordingUpstream]]) -> Place:
    proxy, application = opened(request.param)
    return Place(proxy, await session_cookie(proxy, "alice"), application)  # type: ignore[arg-type]


async def test_forwarded_host_is_the_authorized_host(place: Place) -> None:
    plain = place.ask("plain")
    assert hosts_of(plain) == [place.host]
    for number, (target, host) in enumerate(
        (
            (f"https://{place.host}/x", EVIL),
            (f"https://{place.host}/x", place.host),
            (f"http://{place.host}/x", EVIL),
            (f"https://{EVIL}/x", place.host),
            ("/x", f"{APP}:9999"),
            ("/x", APP),
            ("/x", place.host.upper()),
            ("/x", f"{APP}.:{place.proxy.port}"),
            ("/x", EVIL),
            ("/x", f"{place.host}\r\nHost: {EVIL}"),
            ("/x", f"{EVIL}\r\nHost: {place.host}"),
            ("//other.example/x", place.host),
            ("@other.example/x", place.host),
        )
    ):
        received = place.ask(f"host-{number}", target=target, host=host)
        assert hosts_of(received) in ([place.host], []), (target, host)
        assert EVIL.encode() not in received, (target, host)
        assert b":9999" not in received  # gate's ids and signatures may contain the number


async def test_client_proxy_headers_are_removed(place: Place) -> None:
    for name in (*FROM_GATE, *STEERING):
        for lines in ((f"{name}: {EVIL}",), (f"{name}: a", f"{name}: {EVIL}"), (f"Connection: {name}", f"{name}: {EVIL}")):
            received = place.ask(f"{name}-{len(lines)}-{lines[0][:6]}", *lines)
            assert EVIL.encode() not in CLIENT_HEADERS.sub(b"", received), lines
            assert hosts_of(received) in ([place.host], []), lines


async def test_trailers_are_ignored(place: Place) -> None:
    for name in TRAILED:
        for announced in ((), (f"Trailer: {name}",), (f"Trailer: {name}", "TE: trailers", "Connection: TE")):
            body = f"2\r\nhi\r\n0\r\n{name}: {EVIL}\r\n\r\n"
            received = place.ask(f"trailer-{name}-{len(announced)}", "Transfer-Encoding: chunked", *announced, method="POST", body=body)
            assert EVIL.encode() not in received, (name, announced)


async def test_duplicate_cookie_or_authorization_is_cleaned(place: Place) -> None:
    for lines in (("Cookie: theirs=1",), ("Authorization: Basic YTpi", "Authorization: Basic YzpkCg=="), ("Cookie: a=b", "Cookie: c=d")):
        received = place.ask(f"twice-{lines[0]}-{len(lines)}", *lines)
        assert b"_gate" not in received, lines
