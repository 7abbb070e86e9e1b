"""Do both data planes behave the same, seen from outside?  gate's own, and a real Envoy that gate runs (`data_plane: envoy`).

Whole suites that were written for the one run over the other by `GATE_TESTED_DATA_PLANE=envoy` in the environment (tests/support/gate.py).
"""

import asyncio
import contextlib
import itertools
import json
import socket
import sqlite3
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.support.children import free_port, wait_until
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, sign_in, sign_out
from tests.support.raw_http import Broken, RawClient, RawResponse
from tests.support.raw_http2 import RawHttp2Client
from tests.support.reloading import reload
from tests.support.upstream import OK, Exchange, RawUpstream, SampleUpstream
from tests.support.websockets import CLOSE, TEXT, RawWebSocket, SocketUpstream

APP, PUBLIC, CANARY, SOCKETS, DOWN, SHADOWED, HTTP2, PATHS, DENIED = (
    f"{name}.localhost" for name in ("app", "public", "canary", "sockets", "down", "shadowed", "http2", "paths", "denied")
)
SPELLINGS = (
    "X-Gate-Claim-Email",
    "x-gate-claim-email",
    "X_Gate_Claim_Email",
    "X-Gate_Claim.Email",
    "XGateClaimEmail",
    "X--Gate-Claim-Email",
)
# Enforced, everything would come out the other way round.
SHADOW = {"mode": "shadow", "allow": {"groups": "sales"}, "deny": {"groups": "engineering"}}
PUBLIC_KEYS = {"allow_public_unauthenticated_access": True}


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(
    request: pytest.FixtureRequest,
    provider: DevelopmentProvider,
    upstream: SampleUpstream,
    sockets: SocketUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGate]:
    member = {"allowed_groups": ["engineering"], "pass_identity_headers": True}
    builder = (
        GateBuilder(provider.url)
        .route(APP, prefix="/in", prefix_rewrite="/out", to=upstream.url, **member, set_request_headers={"X-Set": "by the route"})
        .route(APP, prefix="/below", to=upstream.url + "/base/", **member)
        .route(APP, to=upstream.url, **member, remove_request_headers=["X-Unwanted"])
        .route(PUBLIC, prefix="/open/", to=upstream.url, **PUBLIC_KEYS)
        .route(PUBLIC, to=upstream.url, **member)
        .route(PATHS, regex=r".*\.(css|js|png)", to=upstream.url, **PUBLIC_KEYS)
        .route(PATHS, name="secret route", to=upstream.url, **member)
        .route(DENIED, to=upstream.url, **PUBLIC_KEYS, policy=[{"deny": {"http_path": "/users"}}])
        .route(SOCKETS, to=sockets.url, allow_any_authenticated_user=True, allow_websockets=True, set_response_headers={"X-Of-Route": "1"})
        .route(SHADOWED, name="shadowed", to=upstream.url, allowed_groups=["engineering"], policy=[SHADOW])
        .route(DOWN, to=f"http://127.0.0.1:{free_port()}", **PUBLIC_KEYS)
        .route(CANARY, to="http://127.0.0.1:9", **PUBLIC_KEYS)
        .setting(groups_claim="groups", jwt_claims_headers=["email"], data_plane=request.param)
    )
    with builder.start(tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def is_envoy(gate: RunningGate) -> bool:
    return gate.builder.settings["data_plane"] == "envoy"


@pytest.fixture(scope="module")
def is_http2_there(gate: RunningGate, is_envoy: bool, upstream: SampleUpstream) -> bool:
    if is_envoy:
        route = {"from": gate.url(HTTP2, ""), "to": upstream.url, "allowed_groups": ["engineering"], "upstream_http2": True}
        gate.builder.policy.append(route)
        reload(gate, policy=gate.builder.policy)
    return is_envoy


def test_form_without_session_is_saved_or_page_explains(gate: RunningGate, is_http2_there: bool) -> None:
    """Nothing is promised that who carries it in the end can't do."""

    def sent(host: str) -> RawResponse:
        own = (f"Origin: {gate.url(host, '')}", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Accept: text/html")
        form = ("Content-Type: application/x-www-form-urlencoded", "Content-Length: 6")
        return ask(gate, "/order", *own, *form, host=host, server_name=APP, method="POST", body=b"item=2")

    stored = sent(APP)
    assert stored.status == 302
    assert any("_form_" in value for name, value in stored.headers if name.lower() == "set-cookie")
    if is_http2_there:
        refused = sent(HTTP2)
        assert (refused.status, b"does not accept kept forms" in refused.body) == (401, True)
        assert not any("_form_" in value for name, value in refused.headers if name.lower() == "set-cookie")


async def session(gate: RunningGate, user: str = "alice", host: str = APP) -> str:
    async with gate.client() as client:
        await sign_in(client, gate.url(host, "/not-here"), user)
        return client_cookies(client, host)


def ask(
    gate: RunningGate,
    target: str,
    *lines: str,
    host: str = APP,
    server_name: str = "",
    cookie: str = "",
    method: str = "GET",
    body: bytes = b"",
) -> RawResponse:
    """One request, byte for byte."""
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}:{gate.port}", *([f"Cookie: {cookie}"] if cookie else []), *lines]
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=server_name or host) as client:
        return client.send("\r\n".join([*head, "", ""]).encode("latin-1") + body).response(method)


def incoming(answer: RawResponse | httpx.Response) -> dict[str, list[str]]:
    """The headers that the application received."""
    found: dict[str, list[str]] = {}
    for name, value in json.loads(answer.body if isinstance(answer, RawResponse) else answer.content)["headers"]:
        found.setdefault(name.lower(), []).append(value)
    return found


def logged(gate: RunningGate, matches: Callable[[dict], bool]) -> dict:
    return gate.wait_for_event("request", matches)


async def test_sign_in_returns_to_the_page(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await sign_in(client, gate.url(APP, "/a%20b/c?x=1&y=%C3%BC&x=2"), "alice")
        assert (page.status_code, page.json()["target"]) == (200, "/a%20b/c?x=1&y=%C3%BC&x=2")
        again = incoming(await client.get(gate.url(APP, "/again"), headers=HTML | {"x-forwarded-for": "192.0.2.9", "x-unwanted": "1"}))
        rewritten = await client.get(gate.url(APP, "/in/x?y=1"), headers=HTML)
        below = await client.get(gate.url(APP, "/below/x?y=1"), headers=HTML)
        posted = await client.post(gate.url(APP, "/form"), content=b"a body", headers=HTML)
    assert again["x-gate-claim-email"] == ["alice@example.com"]
    assert (again["x-forwarded-for"], again["x-forwarded-proto"]) == (["127.0.0.1"], ["https"])
    assert "_gate" not in str(again)
    assert not {name for name in again if name.startswith(("x-gate-edge", "x-envoy"))} | ({"x-unwanted"} & again.keys())
    assert (rewritten.json()["target"], incoming(rewritten)["x-set"]) == ("/out/x?y=1", ["by the route"])
    assert below.json()["target"] == "/base/below/x?y=1"
    assert (posted.json()["method"], posted.json()["body"]) == ("POST", "a body")


async def test_denied_user_gets_the_reason(gate: RunningGate, upstream: SampleUpstream) -> None:
    bob, before = await session(gate, "bob"), upstream.hits
    refused = ask(gate, "/reports", "Accept: text/html", cookie=bob)
    assert (refused.status, b"bob@example.com" in refused.body) == (403, True)
    stranger, script = ask(gate, "/x", "Accept: text/html"), ask(gate, "/x", "Sec-Fetch-Mode: cors")
    assert (stranger.status, script.status) == (302, 401)
    assert (stranger.header("location") or "").startswith(gate.url("authenticate.localhost", "/.gate/sign_in?"))
    assert ask(gate, "/x", "X: y", host="unknown.localhost", server_name=APP).status == 404
    assert ask(gate, "/x", cookie="_gate=forged").status == 401
    assert upstream.hits == before
    line = logged(gate, lambda entry: entry["path"] == "/reports" and entry["status"] == 403)
    assert line["user_id"]


async def test_each_request_has_one_line_in_the_log(gate: RunningGate) -> None:
    alice = await session(gate)
    identifier = incoming(ask(gate, "/for-the-log?secret=1", cookie=alice))["x-request-id"][0]
    line = logged(gate, lambda entry: entry["request_id"] == identifier)
    assert (line["status"], line["path"], line["client_address"], line["outcome"]) == (200, "/for-the-log", "127.0.0.1", "allowed")
    assert len([entry for entry in gate.log if entry.get("event") == "request" and entry["path"] == "/for-the-log"]) == 1


def reported_in_shadow(gate: RunningGate, request_id: str) -> list[tuple[str, str]]:
    entries = [entry for entry in gate.log if entry.get("event") == "shadow decision" and entry["request_id"] == request_id]
    return [(entry["route"], entry["outcome"]) for entry in entries]


async def test_decision_is_logged_once_on_each_plane(gate: RunningGate) -> None:
    """The shadow outcome and the decision log row exist for requests that Envoy forwards and for those that it hands over to gate."""
    statuses = {}
    for user, method in itertools.product(("alice", "bob"), ("GET", "POST")):
        cookie, path = await session(gate, user, SHADOWED), f"/{user}-{method}-told"
        lines = ("Content-Length: 2",) if method == "POST" else ()
        statuses[path] = ask(gate, path, *lines, host=SHADOWED, cookie=cookie, method=method, body=b"hi" if lines else b"").status
        line = logged(gate, lambda entry, path=path: entry["path"] == path)
        assert reported_in_shadow(gate, line["request_id"]) == [("shadowed", "forbidden" if user == "alice" else "allowed")]
    assert list(statuses.values()) == [200, 200, 403, 403]
    (database,) = (gate.config_file.parent / "data").glob("*.sqlite3")

    def stored() -> list[str]:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            found = connection.execute("SELECT url FROM authorize_loggeddecision WHERE url LIKE '%-told'")
            return sorted("/" + url.partition("/")[2] for (url,) in found)

    await asyncio.to_thread(wait_until, lambda: len(stored()) >= len(statuses), "the decisions are kept")
    assert stored() == sorted(statuses)


async def test_no_spelling_of_an_identity_header_reaches_the_application(gate: RunningGate) -> None:
    alice = await session(gate)
    for name, lines in itertools.product(SPELLINGS, (1, 2)):
        answer = ask(gate, "/", *[f"{name}: evil@example.com"] * lines, cookie=alice)
        assert answer.status == 200
        assert b"evil@example.com" not in answer.body, name
        assert incoming(answer)["x-gate-claim-email"] == ["alice@example.com"]
    for name in (
        "Forwarded",
        "X-Real-Ip",
        "X-Original-Url",
        "X-Rewrite-Url",
        "X_Rewrite_Url",
        "X-HTTP-Method-Override",
        "X.HTTP.Method",
        "X-Method-Override",
        "X-Override-Method",
        "X-HTTP-Verb",
        "X-Method",
        "X-HTTP-Path-Info",
        "X-Proxy-Url",
        "X-Host",
        "X-Script-Name",
        "X-Envoy-Original-Path",
        "X-Gate-Edge-Cluster",
        "X-Gate-Edge-Ticket",
        "X-Gate-Edge-May-Stream",
        "X-Request-Id",
    ):
        assert b"192.0.2.66" not in ask(gate, "/", f"{name}: 192.0.2.66", cookie=alice).body, name


async def test_hop_by_hop_headers_stop_here(gate: RunningGate) -> None:
    answer = incoming(ask(gate, "/", "Connection: x-hop", "X-Hop: 1", "Keep-Alive: 5", "TE: trailers", cookie=await session(gate)))
    assert not {"x-hop", "keep-alive", "te"} & answer.keys()


# Anonymous requests reach the paths below /open/ on this host, and no others.
ODD = [
    "/open/../secret", "/open/%2e%2e/secret", "/open/..%2fsecret", "/open/%2e%2e%2fsecret", "/open/..;/secret", "/open/.%2e/secret",
    "/open//../secret", "//open/secret", "/open", "/OPEN/x", "/open/..\\secret", "/open/%5c../secret", "/open/x/../../secret",
    "/%6fpen/x", "/open%2fx", "/open/%00", "/open/a%2Fb", "/./open/x", "/open/./x", "/open/x?/../secret", "/open/x/%252e%252e/secret",
]  # fmt: skip


async def test_authorized_path_is_the_forwarded_path(gate: RunningGate) -> None:
    passed = {}
    for target in ODD:
        answer = ask(gate, target, "Accept: text/html", host=PUBLIC)
        assert answer.status in (200, 302, 400, 404), target
        if answer.status == 200:
            passed[target] = json.loads(answer.body)["target"]
    for target, forwarded in passed.items():
        path = forwarded.partition("?")[0]
        assert path.startswith("/open/"), target
        assert ".." not in path.lower().replace("%2e", ".").split("/"), target
    # Both data planes forward the same targets as the same paths.
    assert passed == {
        "/%6fpen/x": "/open/x",
        "/open//../secret": "/open/secret",
        "/open/a%2Fb": "/open/a%2Fb",
        "/./open/x": "/open/x",
        "/open/./x": "/open/x",
        "/open/x?/../secret": "/open/x?/../secret",
    }


# Static files are public, everything else is not: what some upstream takes for another place passes as neither.
@pytest.mark.parametrize(
    "target", ["/admin/users;x.css", "/admin/users%3Fx.css", "/admin/users;%2Fx.css", "/admin/users%253Bx.css", "/admin/users%23.css"]
)
async def test_path_ambiguous_between_routes_is_refused(target: str, gate: RunningGate, upstream: SampleUpstream) -> None:
    before, answer = upstream.hits, ask(gate, target, host=PATHS)
    assert (answer.status, upstream.hits) == (400, before)
    assert b"ambiguous" in answer.body
    assert b"secret route" not in answer.body
    line = logged(gate, lambda entry: entry["request_id"] == answer.header("x-request-id"))
    assert "as /admin/users," in line["problem"]
    assert "route 'secret route'" in line["problem"]


@pytest.mark.parametrize("target", ["/users", "/users;x", "/users;%2Fx", "/users%3Fx", "//users", "//x/users", "/%2Fusers"])
async def test_path_ambiguous_with_denied_path_is_denied(target: str, gate: RunningGate, upstream: SampleUpstream) -> None:
    before, answer = upstream.hits, ask(gate, target, host=DENIED)
    assert (answer.status, upstream.hits) == (403, before)


@pytest.mark.parametrize("target", ["/a%20b.css", "/%C3%A4.png", "/ann@corp.com/12:30,a+b~c.js", "/%40%2B%2C.css", "/a'(b)*=!$&.css"])
async def test_an_ordinary_name_passes_as_it_was_written(target: str, gate: RunningGate) -> None:
    assert json.loads(ask(gate, target, host=PATHS).body)["target"] == target


@pytest.mark.parametrize("name", [f"{APP}.", APP.upper(), f"{PUBLIC}@{APP}", f"{APP},{PUBLIC}", f"{PUBLIC}#{APP}", f"{APP}%2f", ""])
async def test_no_spelling_of_a_host_is_another_hosts_route(name: str, gate: RunningGate, upstream: SampleUpstream) -> None:
    before = upstream.hits
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=PUBLIC) as client:
        status = client.send(f"GET /open/x HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()).response().status
    assert status in (302, 400, 404)
    assert upstream.hits == before


async def test_upstream_error_in_the_accepted_format(gate: RunningGate) -> None:
    page, data = ask(gate, "/", "Accept: text/html", host=DOWN), ask(gate, "/", "Accept: application/json", host=DOWN)
    assert (page.status, data.status) == (502, 502)
    assert b"be reached" in page.body
    assert json.loads(data.body)["status"] == 502
    assert logged(gate, lambda entry: entry["host"].startswith(DOWN) and entry["status"] == 502)["problem"]


@asynccontextmanager
async def canary(
    gate: RunningGate, script: Callable[[Exchange], object] | None = None, answer: bytes = OK, **keys: object
) -> AsyncIterator[RawUpstream]:
    """The route of the canary leads to one of this test's own, by a reload."""
    async with RawUpstream(answer, script=script) as running:  # type: ignore[arg-type]
        policy = [route if CANARY not in route["from"] else {**route, "to": running.url, **keys} for route in gate.builder.policy]
        await asyncio.to_thread(reload, gate, policy=policy)
        yield running


@pytest.mark.parametrize("name", ["Remote.User", "X-Webauth-User"])
async def test_identity_header_of_one_route_is_removed_on_others(name: str, gate: RunningGate) -> None:
    async def keep(conversation: Exchange) -> None:
        while head := await conversation.head():
            received.append(head)
            await conversation.send(OK)

    received: list[bytes] = []
    reporting = {"identity_headers": "remote-user", "set_request_headers": {"X-Webauth-User": "${claim.email}"}}
    async with canary(gate, keep) as running:
        open_to_all = {"from": f"https://{CANARY}:{gate.port}", "to": running.url, **PUBLIC_KEYS}
        identified = {"from": f"https://{CANARY}:{gate.port}", "to": f"{running.url}/", "allow_any_authenticated_user": True, **reporting}
        others = [route for route in gate.builder.policy if CANARY not in route["from"]]
        for policy in ([open_to_all], [{**identified, "prefix": "/told/"}, open_to_all], [open_to_all]):
            await asyncio.to_thread(reload, gate, policy=[*others, *policy])
            assert (await asyncio.to_thread(ask, gate, "/", f"{name}: admin", "X-Mine: 1", host=CANARY)).status == 200
    assert [b"admin" in head for head in received] == [True, False, True]
    assert all(b"x-mine" in head.lower() for head in received)


async def test_upstream_cannot_set_gate_cookies(gate: RunningGate) -> None:
    output = b"Set-Cookie: _gate=stolen\r\nSet-Cookie: theirs=1\r\nConnection: x-hop, X-Frame-Options\r\nX-Hop: 1\r\n"
    output += b"X-Frame-Options: ALLOWALL\r\n" * 2
    output += b'Alt-Svc: h3=":8443"\r\n'
    async with canary(gate, answer=OK.replace(b"\r\n\r\n", b"\r\n" + output + b"\r\n", 1)):
        answer = await asyncio.to_thread(ask, gate, "/", host=CANARY)
    assert [value for name, value in answer.headers if name.lower() == "set-cookie"] == ["theirs=1"]
    assert [value for name, value in answer.headers if name.lower() == "x-frame-options"] == ["SAMEORIGIN"]
    assert (answer.header("x-hop"), answer.header("alt-svc")) == (None, None)


async def test_no_application_cuts_its_answer_so_that_the_rest_of_it_answers_another_request(gate: RunningGate) -> None:
    inner = b"HTTP/1.1 200 OK\r\nSet-Cookie: _gate=stolen\r\nContent-Length: 6\r\n\r\nPOISON"
    output = b"HTTP/1.1 200 OK\r\nX-Gate-Edge-Failed: status 101\r\nContent-Length: %d\r\n\r\n" % len(inner)
    async with canary(gate, answer=output + inner):

        def both() -> list[RawResponse]:
            with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=CANARY) as client:
                return [
                    client.send(b"GET / HTTP/1.1\r\nHost: %b:%d\r\n\r\n" % (host.encode(), gate.port)).response() for host in (CANARY, APP)
                ]

        of_application, of_another_route = await asyncio.to_thread(both)
    assert (of_application.status, of_application.body) == (200, inner)
    assert (of_another_route.status, of_another_route.header("set-cookie")) == (401, None)


async def test_a_run_of_blanks_in_a_cookie_costs_other_requests_nothing(gate: RunningGate) -> None:
    """A pattern that takes its square would hold a worker of Envoy for ten seconds, and eight of them for longer than anybody waits."""
    output = b"HTTP/1.1 200 OK\r\nSet-Cookie: theirs%b=1\r\nContent-Length: 0\r\n\r\n" % (b" " * 50_000 + b"x")
    async with canary(gate, answer=output):
        answers = await asyncio.wait_for(asyncio.gather(*(asyncio.to_thread(ask, gate, "/", host=CANARY) for _ in range(8))), PATIENCE)
        alongside = await asyncio.wait_for(asyncio.to_thread(ask, gate, "/ping", host=APP), PATIENCE)
    assert [answer.status for answer in answers] == [200] * 8
    assert alongside.status == 200


async def test_application_error_is_no_refusal_of_the_listener(gate: RunningGate) -> None:
    async with canary(gate, answer=OK.replace(b"200 OK", b"404 Not Found", 1)):
        assert (await asyncio.to_thread(ask, gate, "/", host=CANARY)).status == 404
    assert (await asyncio.to_thread(ask, gate, "/nothing", host="nobody.localhost", server_name=APP)).status == 404
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP) as client:
        refused = client.send(b"nonsense\r\n\r\n").response()
    rejected = "request rejected by listener"
    gate.wait_for_event(rejected, lambda line: line["request_id"] == refused.header("x-request-id"))
    assert [line for line in gate.log if line["event"] == rejected and line["status"] == 404] == []


async def test_duplicate_credential_headers_are_cleaned(gate: RunningGate) -> None:
    received: list[bytes] = []

    async def keep(conversation: Exchange) -> None:
        while head := await conversation.head():
            received.append(head)
            await conversation.send(OK)

    lines = ("Cookie: theirs=1", "Cookie: _gate=STOLEN; b=2", "Authorization: Basic eDp5", "Authorization: Bearer gate-STOLEN")
    async with canary(gate, keep):
        await asyncio.to_thread(ask, gate, "/", *lines, host=CANARY)
    (head,) = received
    assert b"STOLEN" not in head
    assert b"theirs=1" in head


@pytest.mark.parametrize(("scheme", "logs_it"), [("Negotiate YIIabc", True), ("negotiate YIIabc", False), ("Odd abc", True)])
async def test_no_connection_that_an_upstream_knows_a_user_by_serves_another(scheme: str, logs_it: bool, gate: RunningGate) -> None:
    """An upstream that authenticates connections, as IIS does. An unknown scheme counts if the upstream sends `Persistent-Auth`."""

    async def mailbox(conversation: Exchange) -> None:
        owner = b"nobody"
        while head := await conversation.head():
            owner = b"alice" if b"\r\nauthorization:" in head.lower() else owner
            output = b"Persistent-Auth: true\r\n" if logs_it and owner == b"alice" else b""
            await conversation.send(b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n%b" % (output, len(owner), owner))

    async with canary(gate, mailbox):
        for _ in range(3):
            mine = await asyncio.to_thread(ask, gate, "/", f"Authorization: {scheme}", host=CANARY)
            others = [await asyncio.to_thread(ask, gate, "/", host=CANARY) for _ in range(3)]
            assert (mine.body, mine.header("persistent-auth")) == (b"alice", None)
            assert [each.body for each in others] == [b"nobody"] * 3


@pytest.mark.parametrize("lines", [("Authorization: NTLM TlRMTVNTUAABAAAA",), ("Authorization: Basic x", "Authorization: ntlm x")])
async def test_ntlm_is_refused_with_a_reason(lines: tuple[str, ...], gate: RunningGate) -> None:
    async with canary(gate) as running:
        refused = await asyncio.to_thread(ask, gate, "/ntlm", *lines, host=CANARY)
    assert (refused.status, b"NTLM" in refused.body, running.requests) == (403, True, [])
    assert "NTLM" in logged(gate, lambda entry: entry["path"] == "/ntlm")["problem"]


@pytest.mark.parametrize("text", ["Åsa", "Архангельск", "内", "😅"])
async def test_utf_8_passes_in_headers_and_cookies_both_ways(text: str, gate: RunningGate) -> None:
    output = f"X-City: {text}\r\nSet-Cookie: city={text}; Path=/\r\n".encode()
    async with canary(gate, answer=OK.replace(b"\r\n\r\n", b"\r\n" + output + b"\r\n", 1)) as running:
        sent = text.encode().decode("latin-1")
        answer = await asyncio.to_thread(ask, gate, "/", f"Cookie: a=1; city={sent}", f"X-City: {sent}", host=CANARY)
    assert answer.status == 200
    assert (answer.header("x-city"), answer.header("set-cookie")) == (sent, f"city={sent}; Path=/")
    received = {name.lower(): value for name, value in running.requests[0].headers}
    assert (received[b"cookie"], received[b"x-city"]) == (b"a=1; city=" + text.encode(), text.encode())


@pytest.mark.parametrize("value", [b"\x85", b"a\xc2\x85", b"\xc1\x85", b"\xe5\x85"])
async def test_no_cookie_comes_or_goes_that_is_no_text(value: bytes, gate: RunningGate) -> None:
    output = b"Set-Cookie: bad=" + value + b"\r\nSet-Cookie: kept=1\r\n"
    async with canary(gate, answer=OK.replace(b"\r\n\r\n", b"\r\n" + output + b"\r\n", 1)):
        answer = await asyncio.to_thread(ask, gate, "/", host=CANARY)
        refused = await asyncio.to_thread(ask, gate, "/", f"Cookie: bad={value.decode('latin-1')}", host=CANARY)
    assert [value for name, value in answer.headers if name.lower() == "set-cookie"] == ["kept=1"]
    assert (refused.status, b"Delete the cookies" in refused.body) == (400, True)


OUTPUT = b"X-Frame-Options: ALLOWALL\r\n" * 2
OUTPUT += b"Server: theirs\r\nX-Powered-By: one\r\nX-Powered-By: two\r\nSet-Cookie: theirs=1\r\nX-Kept: 1\r\n"
RULES = {
    "set_response_headers": {"X-Frame-Options": "DENY", "X-Odd": "a=b&c; %41 100% ü, +x", "Content-Security-Policy": "default-src 'none'"},
    "remove_response_headers": ["server", "X-Powered-By", "Strict-Transport-Security"],
}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
async def test_route_refusal_message(method: str, accept: str, gate: RunningGate) -> None:
    async with canary(gate, answer=OK.replace(b"\r\n\r\n", b"\r\n" + OUTPUT + b"\r\n", 1), **RULES):
        answer = await asyncio.to_thread(ask, gate, "/", f"Accept: {accept}", method=method, host=CANARY)
    assert answer.status == 200
    sent = [(name.lower(), value) for name, value in answer.headers]
    expected = {"x-frame-options": "DENY", "x-odd": "a=b&c; %41 100% ü, +x", "content-security-policy": "default-src 'none'"}
    expected |= {"set-cookie": "theirs=1", "x-kept": "1"}
    referenced_inputs = {*expected, "server", "x-powered-by", "strict-transport-security"}
    assert sorted(pair for pair in sent if pair[0] in referenced_inputs) == sorted(expected.items())


async def test_gates_own_answers_have_the_headers_of_all_routes(gate: RunningGate) -> None:
    policy = [route if DOWN not in route["from"] else {**route, **RULES} for route in gate.builder.policy]
    await asyncio.to_thread(reload, gate, policy=policy)
    answer = await asyncio.to_thread(ask, gate, "/", "Accept: text/html", host=DOWN)
    assert answer.status == 502
    assert answer.header("x-odd") is None
    assert answer.header("strict-transport-security")


async def test_a_trailer_is_no_header(gate: RunningGate) -> None:
    async def read_all(conversation: Exchange) -> None:
        head, rest = await conversation.head(), b""
        while not rest.endswith(b"\r\n0\r\n\r\n"):
            rest += await conversation.read(1)
        received.append(head + rest)
        await conversation.send(OK)

    received: list[bytes] = []
    body = b"2\r\nhi\r\n0\r\nX-Gate-Claim-Email: evil@example.com\r\n\r\n"
    async with canary(gate, read_all):
        answer = await asyncio.to_thread(ask, gate, "/", "Transfer-Encoding: chunked", host=CANARY, method="POST", body=body)
    assert answer.status == 200
    assert b"evil" not in received[0]


async def test_an_answer_that_takes_too_long_is_a_504(gate: RunningGate) -> None:
    async def silent(conversation: Exchange) -> None:
        await conversation.request()
        await conversation.ended()

    async with canary(gate, silent, timeout="300ms"):
        answer = await asyncio.to_thread(ask, gate, "/", "Accept: application/json", host=CANARY)
    assert (answer.status, json.loads(answer.body)["status"]) == (504, 504)


CHUNKED, LONG = ("Transfer-Encoding: chunked", b"2\r\n%b\r\n"), ("Content-Length: 100000", b"%b")


@pytest.mark.parametrize(("framing", "piece"), [CHUNKED, LONG])
async def test_bodies_stream_both_ways(framing: str, piece: bytes, gate: RunningGate) -> None:
    """An upload reaches its upstream, and the answer its client, before either has ended; a short one, which has said so, may wait."""

    async def mirror(conversation: Exchange) -> None:
        await conversation.head()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        for output in (b"ab", b"cd"):
            received = b""
            while output not in received:
                received += await conversation.read(1)
            await conversation.send(output)

    async with canary(gate, mirror):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", gate.port, ssl=gate.certificates.client_context(), server_hostname=CANARY
        )
        writer.write(f"POST / HTTP/1.1\r\nHost: {CANARY}:{gate.port}\r\n{framing}\r\n\r\n".encode() + piece % b"ab")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)).startswith(b"HTTP/1.1 200")
        assert await asyncio.wait_for(reader.readexactly(2), PATIENCE) == b"ab"
        writer.write(piece % b"cd")
        assert await asyncio.wait_for(reader.readexactly(2), PATIENCE) == b"cd"
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_large_response_arrives_complete(gate: RunningGate) -> None:
    async def flood(conversation: Exchange) -> None:
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2097152\r\n\r\n")
        for _ in range(32):
            await conversation.send(b"x" * 65536)
        await conversation.ended()

    async with canary(gate, flood):
        assert len((await asyncio.to_thread(ask, gate, "/", host=CANARY)).body) == 2097152


async def rest_of(chunks: AsyncIterator[bytes]) -> None:
    async for _ in chunks:
        pass


async def test_session_end_closes_its_streams(gate: RunningGate, upstream: SampleUpstream) -> None:
    """A download, and a websocket; and the next request is refused."""
    async with gate.client() as client:
        await sign_in(client, gate.url(APP), "alice")
        await follow(client, await client.get(gate.url(SOCKETS, "/not-here"), headers=HTML))
        cookie = client_cookies(client, SOCKETS)
        drip = await client.send(client.build_request("GET", gate.url(APP, "/drip")), stream=True)
        bytes_of_it = drip.aiter_raw()
        assert await asyncio.wait_for(anext(bytes_of_it), PATIENCE)
        with RawWebSocket(gate.port, tls=gate.certificates.client_context(), server_name=SOCKETS) as socket:
            lines = (f"Cookie: {cookie}", f"Origin: {gate.url(SOCKETS, '')}")
            opened = socket.open(f"{SOCKETS}:{gate.port}", "/polite", *lines)
            assert (opened.status, opened.header("x-of-route")) == (101, "1")
            socket.send_frame(TEXT, b"hello")
            assert (await asyncio.to_thread(socket.frame)).payload == b"hello"
            await sign_out(client, gate)
            closed = await asyncio.to_thread(socket.frame)
            assert (closed.opcode, closed.close_code) == (CLOSE, 1008)
        with pytest.raises(httpx.TransportError):
            await asyncio.wait_for(rest_of(bytes_of_it), PATIENCE)
        assert (await client.get(gate.url(APP), headers=HTML)).status_code == 302


async def test_websocket_close_arrives_at_once(gate: RunningGate) -> None:
    """RFC 6455 7.1.1: the server closes first, and a client waits for it."""
    cookie = await session(gate, host=SOCKETS)
    tls, lines = gate.certificates.client_context(), (f"Cookie: {cookie}", f"Origin: {gate.url(SOCKETS, '')}")

    def seconds() -> float:
        with RawWebSocket(gate.port, tls=tls, server_name=SOCKETS) as socket:
            opened = socket.open(f"{SOCKETS}:{gate.port}", "/polite", *lines)
            assert (opened.status, opened.header("x-of-route")) == (101, "1")
            socket.send_frame(CLOSE, b"\x03\xe8")
            assert socket.frame().close_code == 1000
            started_at = time.monotonic()
            assert socket.rest() == b""
            return time.monotonic() - started_at

    # Envoy by itself needs two seconds, each time.
    assert any([await asyncio.to_thread(seconds) < 1.5 for _ in range(3)])


HANDSHAKE = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified", b"200 OK", b"404 Not Found"])
async def test_an_application_may_decline_a_handshake(status: bytes, gate: RunningGate) -> None:
    """Envoy leaves out the body of a success; none of what it or gate says takes its place."""
    answer = OK.replace(b"200 OK", status, 1) if status[:3] in (b"200", b"404") else b"HTTP/1.1 %b\r\n\r\n" % status
    async with canary(gate, answer=answer, allow_websockets=True):
        declined = await asyncio.to_thread(ask, gate, "/", *HANDSHAKE, f"Origin: {gate.url(CANARY, '')}", host=CANARY)
    assert declined.status == int(status[:3])
    assert answer.endswith(b"\r\n\r\n" + declined.body) or declined.body == b""
    assert status != b"204 No Content" or declined.header("content-length") is None


async def test_a_websocket_from_a_strangers_page_is_refused(gate: RunningGate) -> None:
    cookie = await session(gate, host=SOCKETS)
    assert ask(gate, "/echo", *HANDSHAKE, "Origin: https://evil.example", host=SOCKETS, cookie=cookie).status == 403
    assert ask(gate, "/echo", *HANDSHAKE, host=SOCKETS).status == 401
    assert ask(gate, "/echo", *HANDSHAKE, host=APP, cookie=await session(gate)).status == 403  # this route carries none


async def test_no_request_fails_while_the_configuration_changes(gate: RunningGate) -> None:
    statuses: list[int] = []
    is_done = asyncio.Event()

    async def load() -> None:
        async with gate.client() as client:
            while not is_done.is_set():
                statuses.append((await client.get(gate.url(PUBLIC, "/open/x"))).status_code)

    loads = [asyncio.ensure_future(load()) for _ in range(4)]
    for number in range(2):
        policy = [{**route, "set_request_headers": {"X-Number": str(number)}} for route in gate.builder.policy]
        await asyncio.to_thread(reload, gate, policy=policy)
    await asyncio.to_thread(reload, gate, policy=gate.builder.policy)
    is_done.set()
    await asyncio.gather(*loads)
    assert len(statuses) > 20
    assert set(statuses) == {200}


async def test_a_method_that_could_be_mistaken_for_another_is_refused(gate: RunningGate, is_envoy: bool, upstream: SampleUpstream) -> None:
    before = upstream.hits
    odd = ("delete", "Get", "PoSt", "purge", "trace")
    preflight = ("Origin: https://other.example", "Access-Control-Request-Method: delete")
    assert [ask(gate, "/open/x", host=PUBLIC, method=method).status for method in odd] == [400] * len(odd)
    assert ask(gate, "/open/x", *preflight, host=PUBLIC, method="OPTIONS").status == 400
    if is_envoy:
        with RawHttp2Client(gate.port, gate.certificates.client_context(), PUBLIC) as client:
            assert [client.request(method, "/open/x", f"{PUBLIC}:{gate.port}").status for method in odd] == [400] * len(odd)
            assert client.request("GET", "/open/x", f"{PUBLIC}:{gate.port}").status == 200
    assert upstream.hits == before + is_envoy
    assert json.loads(ask(gate, "/open/x", host=PUBLIC, method="DELETE").body)["method"] == "DELETE"
    assert ask(gate, "/open/x", host=PUBLIC, method="PROPFIND").status == 501, "says the application"


async def test_unregistered_method_is_forwarded(gate: RunningGate) -> None:
    async with canary(gate) as upstream:
        for method in ("QUERY", "PURGE", "M-SEARCH", "FROBNICATE"):
            answer = await asyncio.to_thread(ask, gate, "/", "Content-Type: text/plain", host=CANARY, method=method)
            assert (answer.status, upstream.requests[-1].line.split(b" ")[0]) == (200, method.encode())


async def test_a_client_that_breaks_off_an_upload_is_no_error_of_anybodys(gate: RunningGate) -> None:
    """499 in the log and in the metrics, wherever it stopped."""

    async def reads_on(conversation: Exchange) -> None:
        await conversation.ended()

    head = f"POST /broken-off HTTP/1.1\r\nHost: {CANARY}:{gate.port}\r\n"
    framings = ("Content-Length: 100000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n")
    bodies = ("", "5\r\nab", "5\r\nabcde\r\n", "400\r\n" + "x" * 1024 + "\r\n")

    def break_off(upstream: RawUpstream, framing: str, body: str, *, with_reset: bool) -> None:
        incoming = upstream.connections
        with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=CANARY) as client:
            client.send(f"{head}{framing}{body}".encode())
            wait_until(lambda: upstream.connections > incoming, "the application receives the connection")
            if with_reset:
                client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def ended() -> list[dict[str, Any]]:
        return [entry for entry in gate.log if entry.get("event") == "request" and entry.get("path") == "/broken-off"]

    async with canary(gate, reads_on) as upstream:
        for framing, body, with_reset in itertools.product(framings, bodies, (False, True)):
            await asyncio.to_thread(break_off, upstream, framing, body, with_reset=with_reset)
        await asyncio.to_thread(wait_until, lambda: len(ended()) >= 2 * len(framings) * len(bodies), "their ends are logged")
    assert {(entry["status"], entry["ending"]) for entry in ended()} == {(499, "client_disconnected")}
    assert not [entry for entry in gate.log if entry.get("level") == "error"]


async def test_a_trailer_of_an_answer_passes_over_http2_alone(gate: RunningGate, is_envoy: bool) -> None:
    trailers = b"X-Sum: 5\r\nSet-Cookie: _gate=x\r\n"
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\n" + trailers + b"\r\n"

    def received_body() -> bytes:
        with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=CANARY) as client:
            client.send(f"GET / HTTP/1.1\r\nHost: {CANARY}:{gate.port}\r\nConnection: close\r\n\r\n".encode())
            return client.rest()

    def received_over_http2() -> dict[str, str]:
        with RawHttp2Client(gate.port, gate.certificates.client_context(), CANARY) as client:
            assert client.request("GET", "/", f"{CANARY}:{gate.port}").body == b"ok"
            return client.trailers

    async with canary(gate, answer=answer):
        received = (await asyncio.to_thread(received_body)).lower()
        assert not is_envoy or await asyncio.to_thread(received_over_http2) == {"x-sum": "5"}
    assert received.partition(b"\r\n\r\n")[2] == b"2\r\nok\r\n0\r\n\r\n", "no client need read one that it has not asked for"


async def test_a_request_that_has_two_readings_is_not_answered_as_if_it_had_one(gate: RunningGate, upstream: SampleUpstream) -> None:
    before = upstream.hits
    for lines in (
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Transfer-Encoding: x"],
    ):
        with contextlib.suppress(Broken):  # closed without a word
            assert ask(gate, "/open/x", *lines, host=PUBLIC, method="POST", body=b"2\r\nhi\r\n0\r\n\r\n").status in (400, 501)
    assert upstream.hits == before
