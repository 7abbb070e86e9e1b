"""One path, one reading: real servers behind both data planes and three front proxies, with anonymous requests.

Each layout of routes protects a handler of the application.  No spelling of a path or method may make any of the servers run it,
and ordinary names pass.  The oracle is what the servers say that they ran.
"""

import itertools
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

import pytest

from tests.support import front_proxies
from tests.support.certs import CertificateFiles
from tests.support.development_provider import DevelopmentProvider
from tests.support.front_proxies import front
from tests.support.gate import GateBuilder
from tests.support.raw_http import Broken, RawClient
from tests.support.raw_http2 import RawHttp2Client
from tests.support.reference_servers import Arrived, FanOut, ReferenceServers, Served

PUBLIC: dict[str, Any] = {"allow_public_unauthenticated_access": True}
PROTECTED: dict[str, Any] = {"allow_any_authenticated_user": True}
TOKEN = re.compile(r"[A-Za-z_%0-9]+")
TOGETHER = 4  # clients of a door
PLANES = {"embedded": "embedded", "Envoy": "envoy", "Envoy over HTTP/2": "envoy"}
FRONTS = {"nginx": front_proxies.nginx, "HAProxy": front_proxies.haproxy, "Caddy": front_proxies.caddy}

# Instead of a slash; whole beginnings of a path; its ends; the same for what is to pass as a picture: what some reader takes for nothing.
SLASHES = (
    *("//", "///", "/./", "/;/", "/;x=y/", ";/", ";x/", "/.;/", "/%2e/", "/%2E;/", "/x/../", "/x/..;/", "/x/..;a=b/", "/x/%2e%2e/"),
    *("/x/%2e%2e;/", "%2F", "%2f", "/%2F", "%2F/", "%252F", "/%3B/", "%3B/", "%3bx%2F", ";%2F", "/;%2F", "/;%2F..%2F", "/x%2F..%2F"),
    *("/x%2f../", "/x/..%2F", "/x/..%2f;x/", "\\", "%5C", "%c0%af"),
)
BEGINNINGS = (
    *("/static/..", "/static/%2e%2e", "/static/..;", "/static/..;x=y", "/static/%2e%2e;", "/static;x/..", "/static/..%2f", "/static%2f.."),
    *("/static%2F..%2F", "/static/..%5c", "/static/..%252f", "/static/%252e%252e", "/static/..%3B", "/static//..//..", "/x.css;/.."),
    *("/x.css;x/%2e%2e", "/x.css%2f..", "/static/x.css/..;/..;", "/.", "/;", "/;x", "/..;", "/..", "/%2F", "/%2f..", "/;/..;", "/;%2F.."),
)
ENDS = (
    *(";", ";x", ";x=y", ";/", ";x/y", ";%2F", ";%2Fx", ";%2f..%2fx", ";a%2Fb;c", ";%2F%2e%2e", ";x%2F;y", "/;x", "/;%2F", "%3B", "%3Bx"),
    *(
        "%3bx%2Fy",
        "%3B%2Fx",
        "/.",
        "/%2e",
        "/.;",
        "/x/..",
        "/x/..;",
        "/x/..;y",
        "/x/%2e%2e",
        "/x%2F..",
        "%2F..%2Fusers",
        "%2f.",
        "/..%2fusers",
    ),
    *(
        "/../users",
        "/..;/users",
        "%00",
        "%00x",
        "%0a",
        "%20",
        "%3F",
        "%23",
        "?x",
        "#",
        ".",
        "%253B",
        "%252F",
        "%",
        "%7C",
        "%5c",
        "\\..\\users",
    ),
)
PICTURES = (".css", ";.css", ";x.css", "/;x.css", ";/x.css", "/x.css/..", "/..;x.css", "%3B.css", "%3Bx.css", "%3b%2Fx.css", ";%2Fx.css")
PICTURES += (";a/../x.css", "%3Fx.css", "?x.css", "%23x.css", "#x.css", "%00.css", "%0a.css", "%2Fx.css", "%2F..%2Fx.css", "/..%2Fx.css")
PICTURES += ("%20.css", "%5cx.css", ";x%2f..%2Fy.css", "/%2e;x.css", "/%2e%2e;x.css", "%253Bx.css")
METHODS = (
    *(
        "delete",
        "Delete",
        "dELETE",
        "DELETe",
        "DELETE ",
        "%44ELETE",
        "DELETE\t",
        " DELETE",
        "DELETE\x0b",
        "DELETE\x85",
        "D\xc9LETE",
        "DELETE\0",
    ),
    *("delete?", "DELETE;", "DELETE_", "XDELETE", "DELETEX"),
)
STEERING = (
    *(
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
        "X-Override-Method",
        "X-HTTP-Verb",
        "X-Method",
        "X_HTTP_Method_Override",
        "X.HTTP.Method.Override",
        "XHTTPMethodOverride",
    ),
    *("X-Original-URL", "X-Rewrite-URL", "X_Rewrite_URL", "X-Original-Uri", "X-Override-Url", "X-Script-Name", "X-Forwarded-Uri"),
    *("X-Forwarded-Method", "X-Original-Method", "X-Forwarded-Prefix", "X--Rewrite--Url", "x-REWRITE-url"),
)
ORDINARY = (
    *(
        "a",
        "a%20b",
        "a%20b%20c.txt",
        "%C3%BCber",
        "%E6%97%A5%E6%9C%AC",
        "%F0%9F%8D%B5",
        "a@b",
        "ann@example.com",
        "a:b",
        "12:30:05",
        "a+b",
        "c++",
    ),
    *(
        "a,b",
        "1,2,3",
        "~ann",
        "a~b",
        "a!b",
        "it's",
        "(a)",
        "a*b",
        "a=b",
        "a&b",
        "$a",
        "a-b_c.d",
        "v1.2.3",
        ".hidden",
        "...",
        "a..b",
        "a%3Ab",
    ),
    *(
        "a%40b",
        "a%2Cb",
        "a%2Bb",
        "%7Bid%7D",
        "%5Bx%5D",
        "a%22b",
        "a%7Cb",
        "a%26b%3Dc",
        "100%25",
        "usersx",
        "user",
        "users.html",
        "Users%20and%20groups",
    ),
)


@dataclass(frozen=True)
class Layout:
    """Routes below a mount; `served` are the handlers that require a session, `bases` the paths that lead to them."""

    name: str
    routes: Callable[[str], list[dict[str, Any]]]
    served: frozenset[str]
    bases: tuple[str, ...]
    names: str = "/{}"  # where ordinary names are public

    @property
    def mount(self) -> str:
        return f"/{self.name}"


def public(**deny: Any) -> dict[str, Any]:
    return {**PUBLIC, "policy": [{"deny": deny}]}


LAYOUTS = (
    Layout(
        "exact",
        lambda at: [{"path": f"{at}/users", **PROTECTED}, {"prefix": f"{at}/", **PUBLIC}],
        frozenset({"users"}),
        ("/users",),
    ),
    Layout(
        "pictures",
        lambda at: [{"regex": rf"{at}/.*\.(css|js|png)", **PUBLIC}, {"prefix": f"{at}/", **PROTECTED}],
        frozenset({"users", "admin"}),
        ("/users", "/admin/users"),
        "/{}.css",
    ),
    Layout(
        "flat",
        lambda at: [{"regex": f"{at}/[^/]*", **PUBLIC}, {"prefix": f"{at}/", **PROTECTED}],
        frozenset({"admin"}),
        ("/admin/users",),
    ),
    Layout(
        "denied",
        lambda at: [{"prefix": f"{at}/", **public(http_path={"is": f"{at}/users"})}],
        frozenset({"users"}),
        ("/users",),
    ),
    Layout(
        "matched",
        lambda at: [{"prefix": f"{at}/", **public(http_path={"matches": f"{at}/admin/.*"})}],
        frozenset({"admin"}),
        ("/admin/users",),
    ),
    Layout(
        "folder",
        lambda at: [{"prefix": f"{at}/admin/", **PROTECTED}, {"prefix": f"{at}/", **PUBLIC}],
        frozenset({"admin"}),
        ("/admin/users",),
    ),
    Layout("methods", lambda at: [{"prefix": f"{at}/", **public(http_method={"in": ["DELETE"]})}], frozenset(), ("/users",)),
)


@dataclass(frozen=True)
class Case:
    layout: Layout
    method: str
    target: str  # below the mount, or whole where it begins with http
    lines: tuple[str, ...] = ()


def spellings(path: str) -> Iterator[str]:
    """Spellings of one path by which an attacker tries to reach a handler unnoticed by gate."""
    yield path
    for at in [index for index, letter in enumerate(path) if letter == "/"]:
        for slash in SLASHES:
            if at or slash.startswith("/"):  # other targets are none
                yield path[:at] + slash + path[at + 1 :]
    for beginning in BEGINNINGS:
        yield beginning + path
    for end in ENDS:
        yield path + end
    last = path.rindex("/") + 1
    for letter in (f"%{ord(path[last]):02X}", f"%25{ord(path[last]):02x}"):
        yield path[:last] + letter + path[last + 1 :]
    for slash, end in itertools.product(("%2F", "/;x/", "//"), (";x", ";%2F")):
        if last > 1 or slash.startswith("/"):
            yield path[: last - 1] + slash + path[last:] + end


def cases() -> Iterator[Case]:
    for layout in LAYOUTS:
        if layout.name == "methods":
            yield Case(layout, "DELETE", "/users")
            yield from (Case(layout, method, "/users") for method in METHODS)
            yield from (Case(layout, "POST", "/users", (f"{name}: DELETE",)) for name in STEERING)
            continue
        for base in layout.bases:
            found = list(spellings(base))
            if layout.name == "pictures":
                found = [base + end for end in PICTURES] + ([] if base == "/users" else [f"{each};x.css" for each in found])
            yield from (Case(layout, "GET", target) for target in dict.fromkeys(found))
        if layout.name == "exact":
            yield from (Case(layout, "GET", "/x", (f"{name}: /users",)) for name in STEERING)


CASES = tuple(cases())


class Door:
    """An enforcement point: a data plane with a host for each layout, or a front proxy with one host and a mount for each layout."""

    def __init__(self, name: str, port: int, certificates: CertificateFiles):
        self.name, self.port, self.certificates = name, port, certificates
        self.is_front, self.is_http2 = name in FRONTS, name == "Envoy over HTTP/2"

    def host(self, layout: Layout) -> str:
        return front_proxies.APP if self.is_front else f"{layout.name}.localhost"

    def target(self, case: Case) -> str:
        return f"{case.layout.mount if self.is_front else ''}{case.target}"

    def number(self, case: Case, index: int) -> str:
        return f"{self.name.replace(' ', '-')}-{case.layout.name}-{index}"

    def ask(self, cases: Sequence[Case]) -> list[int]:
        """Their statuses; 0 for a connection that was closed without one."""
        statuses = [0] * len(cases)
        waiting = iter(list(enumerate(cases)))
        lock = threading.Lock()

        def work() -> None:
            clients = Clients(self)
            while True:
                with lock:
                    index, case = next(waiting, (-1, None))
                if case is None:
                    break
                statuses[index] = clients.ask(case, self.number(case, index))
            clients.close()

        workers = [threading.Thread(target=work) for _ in range(TOGETHER)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return statuses


class Clients:
    """A connection to each host of an enforcement point, reopened if it was closed."""

    def __init__(self, door: Door):
        self._door = door
        self._clients: dict[str, Any] = {}

    def ask(self, case: Case, number: str) -> int:
        door, host = self._door, self._door.host(case.layout)
        authority, lines = f"{host}:{door.port}", [f"X-Case: {number}", *case.lines]
        try:
            client = self._clients.get(host) or self._opened(host)
            if door.is_http2:
                pairs = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
                return client.request(case.method, door.target(case), authority, *pairs).status
            head = [f"{case.method} {door.target(case)} HTTP/1.1", f"Host: {authority}", *lines, "", ""]
            answer = client.send("\r\n".join(head).encode("latin-1")).response(case.method)
            if answer.announces_close:
                self._forget(host)
            return answer.status
        except (Broken, OSError):
            self._forget(host)
            return 0

    def _opened(self, host: str) -> RawClient | RawHttp2Client:
        tls, port = self._door.certificates.client_context(), self._door.port
        client = RawHttp2Client(port, tls, host) if self._door.is_http2 else RawClient(port, tls=tls, server_name=host)
        self._clients[host] = client
        return client

    def _forget(self, host: str) -> None:
        if client := self._clients.pop(host, None):
            client.__exit__()

    def close(self) -> None:
        for host in list(self._clients):
            self._forget(host)


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FanOut]:
    mounts = ["/", *(layout.mount for layout in LAYOUTS)]
    with ReferenceServers(tmp_path_factory.mktemp("readers"), mounts) as readers, FanOut(readers.ports) as running:
        yield running


@pytest.fixture(scope="module")
def opened(provider: DevelopmentProvider, upstream: FanOut, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Door]]:
    """Each is started when it is asked for first: tests run in any order."""
    with ExitStack() as stack:

        @cache
        def gate(plane: str) -> tuple[int, CertificateFiles]:
            builder = GateBuilder(provider.url).setting(data_plane=plane)
            for layout in LAYOUTS:
                for route in layout.routes(""):
                    builder.route(f"{layout.name}.localhost", to=upstream.url, **route)
            running = stack.enter_context(builder.start(tmp_path_factory.mktemp(plane)))
            return running.port, running.certificates

        @cache
        def start(name: str) -> Door:
            if name not in FRONTS:
                return Door(name, *gate(PLANES[name]))
            routes = [route for layout in LAYOUTS for route in layout.routes(layout.mount)]
            directory = tmp_path_factory.mktemp(name)
            running = stack.enter_context(front(directory, provider.url, upstream.url, FRONTS[name], first=routes))
            return Door(name, running.port, running.certificates)

        yield start


@pytest.fixture(params=[*PLANES, *FRONTS], ids=str)
def door(request: pytest.FixtureRequest, opened: Callable[[str], Door]) -> Door:
    return opened(request.param)


def test_the_servers_read_paths_in_different_ways(upstream: FanOut) -> None:
    """So that the others can find something."""

    def readers(method: str, target: str, *, runs: str) -> set[str]:
        head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nX-Case: {target}\r\n\r\n".encode()
        return {name for name, served in upstream.read(head).served.items() if runs in (served.handler, served.method)}

    all_users = {"Tomcat", "Django under daphne", "Django under uvicorn", "Express", "Go", "nginx"}
    assert readers("GET", "/users", runs="users") == readers("GET", "/exact/admin/users", runs="admin") == all_users
    assert readers("GET", "/users;%2Fx", runs="users") == {"Tomcat"}
    assert readers("GET", "/admin/users;x.css", runs="admin") == {"Tomcat"}
    assert readers("GET", "/admin%2Fusers", runs="admin") >= {"Tomcat", "Django under daphne", "Django under uvicorn", "nginx"}
    assert readers("GET", "//users", runs="users") >= {"Tomcat", "nginx"}
    assert readers("GET", "/static/..%2Fusers", runs="users") >= {"nginx"}
    assert readers("delete", "/users", runs="DELETE") >= {"Django under daphne"}


def test_no_spelling_reaches_protected_paths(door: Door, upstream: FanOut) -> None:
    # An HTTP/2 method that is no token ends the connection, and Envoy takes two seconds to end it.
    cases = [case for case in CASES if not door.is_http2 or TOKEN.fullmatch(case.method)]
    statuses = door.ask(cases)
    through = [(index, case, upstream.arrived.get(door.number(case, index))) for index, case in enumerate(cases)]
    holes = [f"{case.method} {case.target} ({case.layout.name}): {found}" for _, case, it in through if it and (found := reached(case, it))]
    assert not holes, f"{len(holes)} of {len(cases)}:\n" + "\n".join(holes)
    steered = [f"{case.lines}: {it.head!r}" for _, case, it in through if it and case.lines and case.lines[0].split(": ")[1] in it.values]
    assert not steered, f"{len(steered)} of {len(cases)}:\n" + "\n".join(steered)
    assert 200 in statuses
    assert not [status for status in statuses if status >= 500 and status != 501]


def reached(case: Case, it: Arrived) -> dict[str, str]:
    """Handlers that require a session and ran without one, by the server that ran them."""
    if case.layout.name == "methods":
        return {name: served.method for name, served in it.served.items() if served.method == "DELETE"}
    return {name: served.handler for name, served in it.served.items() if served.handler in case.layout.served}


def test_ordinary_names_pass(door: Door, upstream: FanOut) -> None:
    named = [Case(layout, "GET", layout.names.format(name)) for layout in LAYOUTS for name in ORDINARY]
    statuses = door.ask(named)
    assert [(case.layout.name, case.target, status) for case, status in zip(named, statuses, strict=True) if status != 200] == []
    for index, case in enumerate(named):
        arrived = upstream.arrived[door.number(case, index)]
        wanted = {name: Served("other", "GET", unquote(door.target(case))) for name in arrived.served}
        assert arrived.served == wanted, case.target
