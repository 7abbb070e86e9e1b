"""The second opinions themselves: a judge that forgives would let everything pass."""

import pytest

from tests.attack.http_canary import Canary, CanaryServer, Ledger
from tests.attack.http_paths import _dots_removed, _predicted, _readings
from tests.attack.http_responses import Garbled, split_responses
from tests.attack.http_strict import strict_requests
from tests.attack.run import ACCEPTED, REFUSED, Attack, Case, Failed, Outcome, check_sample, load_attacks
from tests.attack.target import Target, new_marker
from tests.support.children import ROOT
from tests.support.raw_http import RawClient

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.mark.parametrize(
    ("data", "bodies"),
    [
        (b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n" * 3, [b"", b"", b""]),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nokGET /", [b"ok"]),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-T: 1\r\n\r\n", [b"ok"]),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", []),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok", []),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\nok\n0\n\n", []),
        (b"GET / HTTP/1.1\nHost: x\n\n", []),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", []),
        (b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", [b""]),
    ],
)
def test_the_strict_reader_stops_at_the_first_doubt(data: bytes, bodies: list[bytes]) -> None:
    assert [request.body for request in strict_requests(data)] == bodies


@pytest.mark.parametrize(
    "raw", [OK[:-1], OK + b"x", b"HTTP/1.1 200 OK\r\n\r\nok", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", b"HTTP/1.1 200 OK\r\nA\r\n\r\n"]
)
def test_bytes_that_are_no_whole_answers_are_noticed(raw: bytes) -> None:
    with pytest.raises(Garbled):
        split_responses(raw, is_closed=False)


def test_answers_are_split_where_they_end() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    found = split_responses(OK + head + b"HTTP/1.1 100 Continue\r\n\r\n" + chunked, (b"GET", b"HEAD"), is_closed=False)
    assert [response.body for response in found] == [b"ok", b"", b"hi"]


@pytest.mark.parametrize(
    ("path", "form"),
    [
        (b"/a/./b/../c", b"/a/c"),
        (b"/%61%2e%2E/x", b"/a../x"),
        (b"/../..", b"/"),
        (b"//a", b"//a"),
        (b"/a%2fb", b"/a%2Fb"),
        (b"/a%00", None),
        (b"/a\\b", None),
        (b"/%c0%ae", None),
    ],
)
def test_the_predicted_path_is_that_of_the_decisions(path: bytes, form: bytes | None) -> None:
    assert _predicted(path) == form


def test_an_application_s_readings_include_the_careless_ones() -> None:
    assert {b"/admin", b"/x/"} <= _readings(b"/x/..;a/admin") | _readings(b"/%2Fadmin") | _readings(b"/x/%2e")
    assert _dots_removed(b"/a/b/..") == b"/a/"


def test_a_canary_objects_to_what_a_strict_upstream_would_not_take() -> None:
    ledger = Ledger()
    server = CanaryServer([canary := Canary("one", ledger)])
    server.start()
    try:
        for data in (b"GET / HTTP/1.1\r\nA : b\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"):
            with RawClient(canary.port) as client:
                client.send(data).rest()
        marker = new_marker()
        with RawClient(canary.port) as client:
            assert client.send(b"POST /%b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi" % marker).response().body == b"/" + marker
    finally:
        server.stop()
    assert len(ledger.violations) == 2
    assert bytes(ledger.hits(marker)[0].body) == b"hi"


def test_failing_case_is_reported_with_its_bytes(target: Target) -> None:
    async def valid(target: Target) -> Outcome:
        return ACCEPTED

    async def bad(target: Target) -> Outcome:
        raise Failed("it got in", b"GET /\r\n")

    check_sample(target, Attack("B0", "good", lambda target: [Case("good", valid)]))
    with pytest.raises(AssertionError, match=r"(?s)it got in.*b'GET /\\r\\n'"):
        check_sample(target, Attack("B0", "bad", lambda target: [Case("bad", bad)]))


async def test_without_a_session_nothing_protected_answers_and_with_one_it_does(target: Target) -> None:
    """The canaries are alive: an attack that reaches no canary proves nothing."""
    for user, reached in ((None, 0), ("carol", 0), ("alice", 1)):
        marker = new_marker()
        answer = await target.send(target.request(b"GET", b"/", "group", user=user, marker=marker))
        assert (len(target.ledger.hits(marker)), answer.statuses) == (reached, {None: [302], "carol": [403], "alice": [200]}[user])
        assert (REFUSED, ACCEPTED)[reached] in ("refused", "accepted")


def test_the_documented_table_is_that_of_the_attacks() -> None:
    lines = (ROOT / "docs" / "security" / "attack-suite.md").read_text().splitlines()
    documented = [line for line in lines if line.startswith("| B")]
    modules = [attack.cases.__module__.rpartition(".")[2] for attack in load_attacks()]
    assert documented == [
        f"| {attack.name} | {attack.title} | `{module}.py` | {attack.sample} |"
        for attack, module in zip(load_attacks(), modules, strict=True)
    ]
