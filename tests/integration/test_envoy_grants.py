"""What a real Envoy carries by grants, without asking gate: what it does alone, what it never does alone, and when that ends."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import pytest

from foundation.web.next_steps import next_step
from tests.integration.test_envoy import end_session, envoy_of
from tests.support.children import free_port, wait_until
from tests.support.cookies import of_client
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.raw_http import Broken, RawClient, RawResponse
from tests.support.raw_http2 import RawHttp2Client
from tests.support.reloading import reload
from tests.support.sample_upstream import SampleUpstream

pytestmark = pytest.mark.slow
NAMES = ("app", "team", "other", "paths", "methods", "tokens", "answered", "down", "late")
APP, TEAM, OTHER, PATHS, METHODS, TOKENS, ANSWERED, DOWN, LATE = (f"{name}.localhost" for name in NAMES)
DOWN_PORT = free_port()
SOON = 10.0


ANSWERS = {
    "/cookies": [b"Set-Cookie: a=1", b"Set-Cookie: _gate=evil", b"set-cookie: =_GATE=evil", b"Set-Cookie: __Host-_gate_x=1; Path=/"],
    "/hop": [b"Connection: x-hop, close", b"X-Hop: 1", b"Proxy-Authenticate: x", b"Trailer: x", b"X-Frame-Options: ALLOW"],
    "/control": [b"X-Bad: a\x01b"],
    "/cookie-names": [b"Set-Cookie: my_gate=1", b"Set-Cookie: _gatex=1; _gate=2", b"Set-Cookie:  = _gate = x; a=b"],
}


class Answering(socketserver.ThreadingTCPServer):
    """An application whose answers have the headers of ANSWERS, by path; at /late they come after three seconds."""

    allow_reuse_address, daemon_threads = True, True

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            target = self.rfile.readline().split(b" ")[1].decode()
            headers = b""
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                headers += line
            time.sleep(3 if target == "/late" else 0)
            body = headers.partition(b"x-request-id: ")[2].partition(b"\r\n")[0]
            lines = [*ANSWERS.get(target.partition("?")[0], ()), b"Content-Length: %d" % len(body)]
            self.wfile.write(b"\r\n".join([b"HTTP/1.1 200 OK", *lines, b"", body]))


@pytest.fixture(scope="module")
def answering() -> Iterator[str]:
    with Answering(("127.0.0.1", 0), Answering.Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def gate(
    provider: DevelopmentProvider, upstream: SampleUpstream, answering: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGate]:
    anybody = {"to": upstream.url, "allow_any_authenticated_user": True, "pass_identity_headers": True}
    builder = (
        GateBuilder(provider.url)
        .route(
            APP,
            **anybody,
            set_request_headers={"X-Set": "by the route"},
            remove_request_headers=["X-Unwanted"],
            identity_headers="oauth2-proxy",
        )
        .route(TEAM, to=upstream.url, allowed_groups=["engineering"])
        .route(OTHER, **anybody)
        .route(ANSWERED, to=answering, allow_any_authenticated_user=True)
        .route(DOWN, to=f"http://127.0.0.1:{DOWN_PORT}", allow_any_authenticated_user=True)
        .route(LATE, to=answering, allow_any_authenticated_user=True, timeout="500ms")
        .route(PATHS, prefix="/a", **anybody)
        .route(PATHS, **anybody)
        .route(METHODS, to=upstream.url, policy=[{"allow": {"and": [{"user": "oidc/alice"}, {"http_method": "GET"}]}}])
        .route(
            TOKENS,
            to=upstream.url,
            allow_any_authenticated_user=True,
            pass_provider_tokens=True,
            set_request_headers={"Authorization": "Bearer ${access_token}"},
        )
        .setting(data_plane="envoy", envoy_remembers=100, groups_claim="groups", jwt_claims_headers=["email"])
    )
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


async def session(gate: RunningGate, host: str = APP, person: str = "alice") -> str:
    async with gate.client() as client:
        await sign_in(client, gate.url(host, "/not-here"), person)
        return of_client(client, host)


def ask(gate: RunningGate, target: str, cookie: str, *lines: str, host: str = APP, method: str = "GET", body: bytes = b"") -> RawResponse:
    head = [f"{method} {target} HTTP/1.1", f"Host: {host}:{gate.port}", *([f"Cookie: {cookie}"] if cookie else []), *lines]
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=host) as client:
        return client.send("\r\n".join([*head, "", ""]).encode("latin-1") + body).response(method)


def heard(answer: RawResponse) -> dict[str, str]:
    said = json.loads(answer.body)
    return {**dict(said["headers"]), "target": said["target"]}


def is_alone(answer: RawResponse) -> bool:
    """Whether Envoy carried it without asking: its request ids end in a count."""
    return answer.status == 200 and answer.body.startswith(b"{") and heard(answer)["x-request-id"][18:24] == "000000"


def carried_alone(send: Callable[[], RawResponse], looks_alone: Callable[[RawResponse], bool] = is_alone) -> RawResponse:
    """First answer of a request that Envoy carried without asking: where gate got no processor for a second, Envoy asks."""
    answers: list[RawResponse] = []

    def is_carried() -> bool:
        answers.append(send())
        return looks_alone(answers[-1])

    wait_until(is_carried, "Envoy carries alone", SOON)
    return answers[-1]


def until_alone(gate: RunningGate, cookie: str, host: str = APP) -> None:
    carried_alone(lambda: ask(gate, "/x", cookie, host=host))


async def test_what_was_judged_once_is_carried_alone_and_looks_the_same(gate: RunningGate) -> None:
    cookie = await session(gate)
    first = heard(ask(gate, "/x?a=1&b=%20", f"a=1; {cookie}; b=2", "X-Unwanted: 1", "X-Set: mine"))
    again = carried_alone(lambda: ask(gate, "/x?a=1&b=%20", f"a=1; {cookie}; b=2", "X-Unwanted: 1", "X-Set: mine"))
    assert heard(again) | {"x-request-id": ""} == first | {"x-request-id": ""}
    assert heard(again)["cookie"] == "a=1; b=2"


ODD_TARGETS = [
    *("//x", "/x//y", "/./x", "/../x", "/a/.b", "/%2e%2e/x", "/x;y", "/%41", "/x%2Fy", "/ping/x", "/robots.txt", "/Ping/"),
    *("/x?", "/x?gate_session=1", "/x?g%61te_session=1", "/x?GATE=1", "/x?%61=1", "/x?a=1&%62=2", '/x?a="', "/" + "x" * 2100),
]
ODD_LINES = [
    ("Authorization: Basic YTpi",),
    ("Authorization: Bearer x",),
    ("Proxy-Authorization: x",),
    ("Connection: upgrade", "Upgrade: websocket"),
    ("X-Never-Seen-Before: 1",),
    ("X_Underscore: 1",),
    ("Accept: text/event-stream",),
    ("Accept-Language: a", "Accept-Language: b"),
    ("User-Agent: a\tb",),
    ("Content-Type: application/grpc",),
    ("TE: trailers", "Content-Length: 0"),
]


async def test_what_is_in_any_doubt_is_judged(gate: RunningGate) -> None:
    cookie = await session(gate)
    until_alone(gate, cookie)
    for target in ODD_TARGETS:
        answer = ask(gate, target, cookie)
        assert not is_alone(answer), target
    for lines in ODD_LINES:
        assert not is_alone(ask(gate, "/x", cookie, *lines)), lines
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert not is_alone(ask(gate, "/x", cookie, method=method)), method
    assert not is_alone(ask(gate, "/x", cookie, "Content-Length: 2", body=b"hi"))
    assert not is_alone(ask(gate, "/x", cookie, "Transfer-Encoding: chunked", body=b"2\r\nhi\r\n0\r\n\r\n"))
    until_alone(gate, cookie)


async def test_cookies_that_are_not_exactly_those_that_were_judged_are_judged(gate: RunningGate) -> None:
    cookie, other = await session(gate), await session(gate, OTHER)
    until_alone(gate, cookie)
    mine, companion = cookie.split("; ")
    flipped = mine[:-1] + ("A" if mine[-1] != "A" else "B")
    wrong = [f"{flipped}; {companion}", f"{mine}; {companion[:-1]}", mine, companion, mine[:-8], other, f"{mine}; {other.split('; ')[1]}"]
    for each in wrong:
        assert ask(gate, "/x", each, "Accept: text/html").status == 302, each
    doubled = [
        f"{cookie}; {cookie}",
        f"{cookie}; {flipped}",
        f"{cookie}; _GATE=1",
        f"{cookie}; my_gate=1",
        f"{cookie};a=1",
        f"{cookie}; ",
    ]
    for each in doubled:
        answer = ask(gate, "/x", each)
        assert not is_alone(answer), each
    two_lines = ask(gate, "/x", cookie, "Cookie: a=1")
    assert not is_alone(two_lines)
    # Of another host, and from another address, nothing was judged yet.
    assert ask(gate, "/x", cookie, "Accept: text/html", host=OTHER).status == 302


async def test_nobody_marks_a_request_as_judged(gate: RunningGate) -> None:
    for name in ("X-Gate-Edge-Carried", "x-gate-edge-carried", "X-Gate-Edge-Cluster", "X-Gate-Edge-Ticket"):
        for value in ("1", "", "gate"):
            assert ask(gate, "/x", "", f"{name}: {value}", "Accept: text/html").status == 302
    cookie = await session(gate)
    until_alone(gate, cookie)
    forged = ("X-Gate-Edge-Carried: 1", "X-Gate-Claim-Email: evil@example.com", "X-Gate-Jwt-Assertion: evil", "X-Request-Id: mine")
    for _ in range(3):
        answer = heard(ask(gate, "/x", cookie, *forged, "X-Forwarded-For: 192.0.2.1", "X_Gate_Claim_Email: evil@example.com"))
        assert answer["x-gate-claim-email"] == "alice@example.com"
        assert answer["x-forwarded-for"] == "127.0.0.1"
        assert "evil" not in str(answer)
        assert "x-gate-edge" not in str(answer)
        assert answer["x-request-id"] != "mine"


@pytest.mark.parametrize("host", [PATHS, METHODS, TOKENS])
async def test_what_depends_on_more_than_the_person_is_judged_each_time(gate: RunningGate, host: str) -> None:
    cookie = await session(gate, host)
    for _ in range(6):
        answer = ask(gate, "/x", cookie, host=host)
        assert not is_alone(answer)
        if host == TOKENS:
            assert heard(answer)["authorization"].startswith("Bearer ")
        await asyncio.sleep(0.1)


async def test_a_session_that_ends_is_asked_about_at_once(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url(APP, "/not-here"), "alice")
        cookie = of_client(client, APP)
        until_alone(gate, cookie)
        await end_session(client, gate)
        began = time.monotonic()
        while ask(gate, "/x", cookie, "Accept: text/html").status == 200:
            assert time.monotonic() - began < 1.0
    assert ask(gate, "/x", cookie, "Accept: text/html").status == 302


def stream_of(gate: RunningGate, cookie: str) -> RawClient:
    """A download that never ends by itself, carried by Envoy alone; its first bytes are read."""
    client = RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP)
    client.send(f"GET /drip HTTP/1.1\r\nHost: {APP}:{gate.port}\r\nCookie: {cookie}\r\n\r\n".encode())
    client.exactly(20)
    return client


async def test_a_download_that_envoy_carries_alone_is_cut_with_its_session(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url(APP, "/not-here"), "alice")
        cookie = of_client(client, APP)
        until_alone(gate, cookie)
        with stream_of(gate, cookie) as stream:
            await end_session(client, gate)
            began = time.monotonic()
            with contextlib.suppress(OSError):
                while stream.socket.recv(65536):
                    assert time.monotonic() - began < 1.0


async def test_a_download_goes_on_while_something_else_of_the_person_changes(gate: RunningGate) -> None:
    cookie = await session(gate)
    until_alone(gate, cookie)
    with stream_of(gate, cookie) as stream:
        reload(gate, headers={"X-Frame-Options": "DENY"})
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            assert stream.socket.recv(65536)
    until_alone(gate, cookie)
    assert ask(gate, "/x", cookie).header("x-frame-options") == "DENY"


async def test_a_policy_that_no_longer_lets_them_in_ends_what_envoy_carries_alone(gate: RunningGate) -> None:
    cookie = await session(gate)
    until_alone(gate, cookie)
    closed = [
        {**route, "allow_any_authenticated_user": None, "allowed_users": ["nobody@example.com"]} if APP in route["from"] else route
        for route in gate.builder.policy
    ]
    closed = [{key: value for key, value in route.items() if value is not None} for route in closed]
    with stream_of(gate, cookie) as stream:
        reload(gate, policy=closed)
        assert ask(gate, "/x", cookie).status == 403
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while stream.socket.recv(65536):
                assert time.monotonic() - began < 1.0
    reload(gate, policy=gate.builder.policy)


async def test_a_gate_that_stands_still_lets_nobody_pass_for_longer_than_the_lease(gate: RunningGate) -> None:
    cookie = await session(gate)
    until_alone(gate, cookie)
    os.kill(gate.child.process.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(1.2)
        with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP) as client:
            client.send(f"GET /x HTTP/1.1\r\nHost: {APP}:{gate.port}\r\nCookie: {cookie}\r\n\r\n".encode())
            client.socket.settimeout(1.0)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
    finally:
        os.kill(gate.child.process.pid, signal.SIGCONT)
    until_alone(gate, cookie)


async def test_an_envoy_that_was_killed_starts_with_what_gate_says_now(gate: RunningGate) -> None:
    cookie = await session(gate)
    until_alone(gate, cookie)
    os.kill(envoy_of(gate), signal.SIGKILL)
    wait_until(lambda: status(gate, cookie) == 200, "it is back", SOON)
    until_alone(gate, cookie)


def status(gate: RunningGate, cookie: str) -> int:
    try:
        return ask(gate, "/x", cookie).status
    except (OSError, Broken):
        return 0


async def test_every_request_that_envoy_carries_alone_is_the_one_that_gate_would_have_sent(gate: RunningGate) -> None:
    """The same request with a header that gate leaves out is judged: two heads, one for each way, are the same but for their ids."""
    cookie = await session(gate)
    until_alone(gate, cookie)
    chosen = Random(7)
    names = [
        "Accept",
        "Accept-Language",
        "User-Agent",
        "Referer",
        "If-None-Match",
        "Range",
        "X-Requested-With",
        "X-Unwanted",
        "x-set",
        "DNT",
    ]
    names += ["X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "X-Real-IP", "X-Gate-Claim-Email", "TE", "Keep-Alive", "X-HTTP-Method"]
    ask(gate, "/x", cookie, *(f"{name}: 1" for name in names))
    await asyncio.sleep(0.5)  # the names of headers are told to Envoy with the next lease
    alone = 0
    for _ in range(150):
        lines = [f"{name}: {chosen.choice(['a', 'b=1; c', '*/*', 'trailers', 'x, y', '127.0.0.9'])}" for name in chosen.sample(names, 4)]
        others = chosen.sample(
            ["a=1", "_gate_x=1; __Host-_gate_y=_gate", "b=2 3", "c", "=d", "e=f=g", "long=" + "x" * 50], chosen.randint(0, 3)
        )
        both = cookie.split("; ")
        pairs = [*both, *others]
        chosen.shuffle(pairs)
        target = chosen.choice(["/", "/x", "/a/b.html", "/~u/_/-", "/x?q=1", "/x?q=%20a&b", "/x?a=b&c=d:e"])
        judged = ask(gate, target, "; ".join(pairs), *lines, "X_Ignored: 1")
        again = ask(gate, target, "; ".join(pairs), *lines)
        alone += is_alone(again)
        assert not is_alone(judged)
        one, other = (sorted(map(tuple, json.loads(each.body)["headers"])) for each in (judged, again))
        assert [pair for pair in one if pair[0] != "x-request-id"] == [pair for pair in other if pair[0] != "x-request-id"]
        assert heard(judged)["target"] == heard(again)["target"]
    assert alone > 75


async def test_every_worker_of_envoy_carries_alone(gate: RunningGate) -> None:
    """A connection stays with one of them."""
    cookie = await session(gate)
    head = f"GET /x HTTP/1.1\r\nHost: {APP}:{gate.port}\r\nCookie: {cookie}\r\n\r\n".encode()
    with contextlib.ExitStack() as stack:
        for _ in range(4 * (os.cpu_count() or 1)):
            client = stack.enter_context(RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP))
            carried_alone(partial(answered_on, client, head))


def answered_on(client: RawClient, head: bytes) -> RawResponse:
    return client.send(head).response()


def told(answer: RawResponse) -> list[tuple[str, str]]:
    return sorted((name.lower(), value) for name, value in answer.headers if name.lower() not in ("content-length", "date"))


def alone_by_id(answer: RawResponse) -> bool:
    return answer.body[18:24] == b"000000"


@pytest.mark.parametrize("path", ANSWERS)
async def test_answers_are_cleaned_as_where_gate_is_asked(gate: RunningGate, path: str) -> None:
    cookie = await session(gate, ANSWERED)
    wait_until(lambda: alone_by_id(ask(gate, "/x", cookie, host=ANSWERED)), "Envoy carries alone", SOON)
    judged = ask(gate, path, cookie, "X_Ignored: 1", host=ANSWERED)
    again = ask(gate, path, cookie, host=ANSWERED)
    if again.status == 200 and not alone_by_id(again):  # the record of a session may change when it is used
        again = ask(gate, path, cookie, host=ANSWERED)
    assert judged.status == again.status
    if again.status == 200:
        assert (alone_by_id(judged), alone_by_id(again)) == (False, True)
        assert told(judged) == told(again)
        assert "evil" not in str(again.headers)


async def test_an_application_that_does_not_answer_is_told_of_with_the_request_id(gate: RunningGate) -> None:
    with Answering(("127.0.0.1", DOWN_PORT), Answering.Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cookie = await session(gate, DOWN)
        carried_alone(lambda: ask(gate, "/x", cookie, host=DOWN), alone_by_id)
        server.shutdown()
    answer = carried_alone(lambda: ask(gate, "/x", cookie, host=DOWN), lambda answer: answer.body.startswith(b"502:"))
    judged = ask(gate, "/x", cookie, "X_Ignored: 1", host=DOWN)
    assert (answer.status, judged.status) == (502, 502)
    assert b"be reached" in judged.body
    told = f"502: the application does not answer. {next_step(502)} Request id: "
    assert re.fullmatch(re.escape(told) + "[0-9a-f]{32}\n", answer.body.decode())


async def test_an_application_has_as_long_as_its_route_says_and_no_longer(gate: RunningGate) -> None:
    late, patient = await session(gate, LATE), await session(gate, ANSWERED)
    for cookie, host in ((late, LATE), (patient, ANSWERED)):
        carried_alone(partial(ask, gate, "/x", cookie, host=host), alone_by_id)
    answer = carried_alone(lambda: ask(gate, "/late", late, host=LATE), lambda answer: answer.body.startswith(b"504:"))
    assert answer.status == 504
    assert carried_alone(lambda: ask(gate, "/late", patient, host=ANSWERED), alone_by_id).status == 200


async def test_what_envoy_carried_alone_is_told_of_as_all_is(gate: RunningGate) -> None:
    cookie = await session(gate)
    until_alone(gate, cookie)
    answer = carried_alone(lambda: ask(gate, "/of-the-log?secret=1", cookie))
    line = gate.wait_for_event("request", lambda entry: entry["request_id"] == heard(answer)["x-request-id"])
    judged = gate.wait_for_event(
        "request", lambda entry: entry["host"] == line["host"] and entry.get("user_id") == "oidc/alice" and not entry.get("remembered")
    )
    assert (line["path"], line["status"], line["method"], line["client"]) == ("/of-the-log", 200, "GET", "127.0.0.1")
    assert (line["remembered"], line["outcome"], line["bytes_sent"]) == (True, "allowed", len(answer.body))
    assert {key: line[key] for key in ("user_id", "reason", "host")} == {key: judged[key] for key in ("user_id", "reason", "host")}
    assert set(judged) - set(line) <= {"decision_ms", "data_version"}
    assert "secret" not in str(line)


@pytest.mark.parametrize(("body", "trailers"), [(b"hi", ()), (b"", ()), (None, (("x-trailer", "1"),)), (b"hi", (("x-trailer", "1"),))])
async def test_over_http_2_a_request_with_more_than_a_head_is_judged(
    gate: RunningGate, body: bytes | None, trailers: tuple[tuple[str, str], ...]
) -> None:
    """Nothing in its head says that a body follows."""
    cookie = await session(gate)
    until_alone(gate, cookie)
    with RawHttp2Client(gate.port, gate.certificates.client_context(), APP) as client:
        carried_alone(lambda: client.ask("GET", "/x", f"{APP}:{gate.port}", ("cookie", cookie)))
        more = client.ask("GET", "/x", f"{APP}:{gate.port}", ("cookie", cookie), body=body, trailers=trailers)
        assert not is_alone(more)
        carried_alone(lambda: client.ask("GET", "/x", f"{APP}:{gate.port}", ("cookie", cookie)))
