"""gate behind a trusted proxy, over both data planes: its application gets one client, scheme, host and port."""

import json
from collections.abc import Iterator

import pytest

from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient
from tests.support.upstream import SampleUpstream

APP = "app.localhost"
FORWARDING = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-real-ip", "forwarded")


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    with SampleUpstream() as application:
        builder = GateBuilder("https://unasked.localhost").setting(data_plane=request.param, trusted_proxies=["127.0.0.0/8"])
        builder.route(APP, to=application.url, allow_public_unauthenticated_access=True)
        with builder.start(tmp_path_factory.mktemp(request.param)) as running:
            yield running


def received(gate: RunningGate, *lines: str) -> list[str]:
    """The six forwarding headers as the application received them."""
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=APP) as client:
        answer = client.send("\r\n".join(["GET / HTTP/1.1", f"Host: {APP}:{gate.port}", *lines, "", ""]).encode()).response("GET")
    headers = [(name.lower(), value) for name, value in json.loads(answer.body)["headers"]]
    return [value for wanted in FORWARDING for name, value in headers if name == wanted]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: http"],
            ["203.0.113.9, 127.0.0.1", "http", "HOST:PORT", "PORT", "203.0.113.9", 'for=203.0.113.9;host="HOST:PORT";proto=http'],
        ),
        (
            ["X-Real-IP: 203.0.113.9", "X-Forwarded-Host: a.example", "X-Forwarded-Port: 8443", "Forwarded: for=6.6.6.6;proto=http"],
            ["203.0.113.9, 127.0.0.1", "https", "a.example", "8443", "203.0.113.9", 'for=203.0.113.9;host="a.example:8443";proto=https'],
        ),
        (
            ['Forwarded: for="[2001:db8::1]:1";proto=http;host=a.example'],
            ["2001:db8::1, 127.0.0.1", "http", "a.example", "80", "2001:db8::1", 'for="[2001:db8::1]";host="a.example";proto=http'],
        ),
    ],
)
def test_six_headers_name_one_client(gate: RunningGate, lines: list[str], expected: list[str]) -> None:
    assert received(gate, *lines) == [
        value.replace("HOST:PORT", f"{APP}:{gate.port}").replace("PORT", str(gate.port)) for value in expected
    ]


def test_a_malformed_address_is_logged(gate: RunningGate) -> None:
    received(gate, "X-Forwarded-For: 203.0.113.9:1:2")
    found = gate.wait_for_event("malformed forwarding header", lambda line: line["entry"] == "203.0.113.9:1:2")
    assert (found["header"], found["peer"]) == ("X-Forwarded-For", "127.0.0.1")
