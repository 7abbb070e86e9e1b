"""Policy requests built from bytes."""

from dataclasses import fields, replace

import pytest

from authorize.policy.mcp_message import McpMessage
from authorize.policy.policy_request import ClientCertificate, parse_request
from foundation.errors import BadRequest
from tests.unit.authorize.builders import request

HTTPS = frozenset({443})
PLAIN = frozenset({80, 443})


@pytest.mark.parametrize(
    ("host", "default_ports", "host_port"),
    [
        (b"app.example.com", HTTPS, "app.example.com"),
        (b"APP.example.com.:443", HTTPS, "app.example.com"),
        (b"app.example.com:80", HTTPS, "app.example.com:80"),
        (b"app.example.com:80", PLAIN, "app.example.com"),
        (b"app.example.com:8443", HTTPS, "app.example.com:8443"),
        (b"[::1]:8443", HTTPS, "[::1]:8443"),
    ],
)
def test_a_default_port_is_no_port(host: bytes, default_ports: frozenset[int], host_port: str) -> None:
    assert parse_request("GET", host, b"/", b"", default_ports).host_port == host_port


def test_request_with_a_message_has_all_other_fields() -> None:
    certificate = ClientCertificate("f", "s", "cn")
    values = {"origin": b"https://o", "access_control_request_method": b"PUT", "source_ip": "192.0.2.1", "headers": ((b"a", b"b"),)}
    original = request("/a?b", host="app.example.com:8443", method="OPTIONS", client_certificate=certificate, **values)
    original, message = replace(original, stream_session_id="s"), McpMessage("tools/list")
    assert original.with_message(message) == replace(original, mcp=message)
    assert {name for name in (field.name for field in fields(original)) if not getattr(original.with_message(message), name)} == set()


def test_query_is_preserved() -> None:
    query = b"x=/.gate/&y=%2e%2e/../\xc3\xa4&&=;|\\"
    assert parse_request("GET", b"h", b"/", query, HTTPS).query.encode("latin-1") == query


@pytest.mark.parametrize("query", [b"a b", b"a\r\nX: y", b"a\x00", b"a#b", b"\x7f", b"\t"])
def test_a_query_that_could_end_a_line_is_refused(query: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_request("GET", b"h", b"/", query, HTTPS)


def test_preflight_headers_are_preserved() -> None:
    found = parse_request("OPTIONS", b"h", b"/", b"", HTTPS, origin=b"https://a", access_control_request_method=b"PUT")
    assert (found.method, found.origin, found.access_control_request_method) == ("OPTIONS", "https://a", "PUT")


@pytest.mark.parametrize(
    "method", ["delete", "Get", "PoSt", "gET", "connect", "trace", "purge", "Foo", "GET ", "GET\x00", "GÉT", "DELETE\n", "G" * 33]
)
def test_a_method_that_could_be_mistaken_for_another_is_refused(method: str) -> None:
    with pytest.raises(BadRequest, match="upper-case"):
        parse_request(method, b"h", b"/", b"", HTTPS)
    asks = {"origin": b"https://a", "access_control_request_method": method.encode()}
    with pytest.raises(BadRequest, match="upper-case"):
        parse_request("OPTIONS", b"h", b"/", b"", HTTPS, **asks)
    assert parse_request("GET", b"h", b"/", b"", HTTPS, **asks).method == "GET", "only a preflight asks for a method"


@pytest.mark.parametrize("method", ["GET", "DELETE", "QUERY", "PROPFIND", "M-SEARCH", "VERSION-CONTROL", "FOO", "X_Y", "A" * 32, ""])
def test_other_methods_are_accepted_unchanged(method: str) -> None:
    assert parse_request(method, b"h", b"/", b"", HTTPS).method == method


def test_tunnel_requires_and_preserves_port() -> None:
    tunnel = parse_request("CONNECT", b"DB.example.com:443", b"/", b"", HTTPS)
    assert (tunnel.is_tunnel, tunnel.host_port) == (True, "db.example.com:443")
    with pytest.raises(BadRequest, match="a port"):
        parse_request("CONNECT", b"db.example.com", b"/", b"", HTTPS)
