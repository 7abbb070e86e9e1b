"""Check requests are parsed as strictly as by gate's listener, and clients cannot spoof Envoy's headers."""

from typing import Any
from urllib.parse import quote

import pytest

from foundation.errors import BadRequest
from proxy.envoy.envoy_request_head import HEADERS_TO_REMOVE, EnvoyRequestHead, header_mutations
from proxy.envoy.resources.internal_headers import AUTHORIZED, CLIENT_CONNECTION, CLIENT_PROTO
from proxy.incoming_request import TLS_EXTENSION
from tests.support.client_certificates import authority
from tests.unit.proxy.envoy.conftest import MakeRequest


def build_scope(question: bytes) -> dict[str, Any]:
    return EnvoyRequestHead.parse(question).scope("https")


def test_scope_equals_that_of_the_listener(send_request: MakeRequest) -> None:
    scope = build_scope(send_request("/a%20b?x=1", ("accept", "*/*"), ("cookie", "a=1"), method="POST", has_body=True))
    assert (scope["method"], scope["raw_path"], scope["query_string"], scope["path"]) == ("POST", b"/a%20b", b"x=1", "/a b")
    assert scope["headers"] == [
        (b"host", b"app.example.com"),
        (b"accept", b"*/*"),
        (b"cookie", b"a=1"),
        (b"transfer-encoding", b"chunked"),
    ]
    assert (scope["client"], scope["scheme"]) == (["192.0.2.7", 5000], "https")
    assert scope["extensions"] == {TLS_EXTENSION: {"server_name": "app.example.com", "chain": ()}}
    assert "gate.bare_query" in build_scope(send_request("/a?"))


@pytest.mark.parametrize(
    ("peer", "client"),
    [("[2001:db8::1]:443", ["2001:db8::1", 443]), ("[::ffff:192.0.2.1]:9", ["192.0.2.1", 9]), ("-", None), ("/a/unix/socket", None)],
)
def test_client_is_the_peer(peer: str, client: list[object] | None, send_request: MakeRequest) -> None:
    assert build_scope(send_request(peer=peer))["client"] == client


@pytest.mark.parametrize(
    "message",
    [
        {"method": "TRACE"},
        {"method": "CONNECT"},
        {"path": "*"},
        {"path": "/" + "a" * 9000},
        {"path": "/a b"},
        {"path": "/\xff"},
        {"host": ""},
        {"host": "app.example.com,evil.example"},
        {"host": "app.example.com/"},
        {"host": "user@app.example.com"},
    ],
    ids=str,
)
def test_refuses_what_the_listener_refuses(message: dict[str, str], send_request: MakeRequest) -> None:
    with pytest.raises(BadRequest):
        build_scope(send_request(**message))


@pytest.mark.parametrize("headers", [[("x-a", "a" * 17000)], [(f"x-{number}", "1") for number in range(101)], [("expect", "else")]])
def test_refuses_heads_beyond_the_limits(headers: list[tuple[str, str]], send_request: MakeRequest) -> None:
    with pytest.raises(BadRequest):
        build_scope(send_request("/", *headers))


def test_removes_headers_added_by_envoy(send_request: MakeRequest) -> None:
    added = [("x-forwarded-proto", "https"), ("x-envoy-external-address", "192.0.2.7"), (AUTHORIZED, "forged"), (CLIENT_PROTO, "http")]
    headers = build_scope(send_request("/", *added, (CLIENT_CONNECTION, "x-hop"), ("x-hop", "1"), ("x_under", "1")))["headers"]
    assert headers == [(b"host", b"app.example.com"), (b"x-hop", b"1"), (b"x-forwarded-proto", b"http"), (b"connection", b"x-hop")]


def test_client_certificates_come_from_envoy(send_request: MakeRequest) -> None:
    issuer = authority()
    leaf = issuer.issue("ann")
    chain = quote((leaf.pem + issuer.pem).decode())
    scope = build_scope(send_request("/", ("x-forwarded-client-cert", f'Hash=ab;Cert="{quote(leaf.pem.decode())}";Chain="{chain}"')))
    assert scope["extensions"][TLS_EXTENSION]["chain"] == (leaf.der, issuer.der)
    assert b"x-forwarded-client-cert" not in dict(scope["headers"])
    assert build_scope(send_request("/", ("x-forwarded-client-cert", 'Chain="nonsense"')))["extensions"][TLS_EXTENSION]["chain"] == ()


def test_missing_server_name_is_none(send_request: MakeRequest) -> None:
    assert build_scope(send_request(server_name=""))["extensions"][TLS_EXTENSION]["server_name"] is None
    assert EnvoyRequestHead.parse(send_request()).scope("http")["extensions"] == {}


def reported(head: EnvoyRequestHead, after: list[tuple[bytes, bytes]]) -> tuple[list[tuple[bytes, bytes]], set[bytes]]:
    headers = header_mutations(head, after)
    removed = dict(headers).get(HEADERS_TO_REMOVE, b"")
    return [pair for pair in headers if pair[0] != HEADERS_TO_REMOVE], set(removed.split(b",")) - {b""}


def test_mutations_set_differences_and_remove_the_rest(send_request: MakeRequest) -> None:
    head = EnvoyRequestHead.parse(
        send_request("/", ("accept", "*/*"), ("x_gate_claim_email", "evil"), ("x-a", "1,2"), ("x-c", "3"), ("x-d", "4,5"))
    )
    sets, removed = reported(head, [(b"accept", b"*/*"), (b"X-A", b"1"), (b"x-b", b"1"), (b"x-d", b"4,5"), (b"content-length", b"3")])
    assert sets == [(b"x-a", b"1"), (b"x-b", b"1"), (b"x-d", b"4,5")], (
        "a header that may have several lines is written as it was authorized"
    )
    assert removed == {b"x_gate_claim_email", b"x-c"}


@pytest.mark.parametrize(("protocol", "is_http2", "is_set"), [("HTTP/2", True, True), ("HTTP/2", False, False), ("HTTP/1.1", True, False)])
def test_http2_to_http2_sets_each_authorized_header(protocol: str, is_http2: bool, is_set: bool, send_request: MakeRequest) -> None:
    """Envoy may have blanks around a value, which an upstream with HTTP/2 does not accept and its question does not show."""
    head = EnvoyRequestHead.parse(send_request("/", ("x-a", "1"), protocol=protocol))
    assert header_mutations(head, [(b"x-a", b"1")], is_http2=is_http2) == ([(b"x-a", b"1")] if is_set else [])


def test_several_cookie_headers_become_one(send_request: MakeRequest) -> None:
    head = EnvoyRequestHead.parse(send_request("/", ("cookie", "a=1; _gate=x; b=2")))
    assert reported(head, [(b"cookie", b"a=1"), (b"cookie", b"b=2")]) == ([(b"cookie", b"a=1; b=2")], set())
    with pytest.raises(ValueError, match="several values"):
        header_mutations(head, [(b"x-a", b"1"), (b"x-a", b"2")])


@pytest.mark.parametrize(
    ("reported_events", "has_body"),
    [
        ({"has_body": True}, True),
        ({}, False),
        ({"method": "POST"}, False),
        ({"protocol": "HTTP/2"}, False),
        ({"protocol": "HTTP/2", "method": "POST"}, True),
    ],
)
def test_body_follows_from_head_and_may_be_undeclared_over_http2(reported_events: Any, has_body: bool, send_request: MakeRequest) -> None:
    head = EnvoyRequestHead.parse(send_request(**reported_events))
    assert head.has_body is has_body
    assert head.is_body_undeclared is (reported_events.get("protocol") == "HTTP/2")
