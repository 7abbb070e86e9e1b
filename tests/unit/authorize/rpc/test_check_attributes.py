"""A request survives the conversion to Envoy's attributes, and external Envoys are parsed like gate's listener."""

from urllib.parse import quote

import pytest
from envoy.service.auth.v3 import external_auth_pb2 as pb

from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.rpc.check_attributes import (
    MCP,
    MCP_CALLS,
    from_check_request,
    mcp_calls_extension,
    mcp_extension,
    parse_mcp_calls,
    parse_mcp_extension,
    to_check_request,
    to_latin1_bytes,
)
from foundation.errors import BadRequest
from tests.support.client_certificates import authority
from tests.unit.authorize.builders import HTTPS, request

COOKIES = [b"a=b", b"_gate=x; c=\xfc"]


@pytest.mark.parametrize(
    "original",
    [
        request("/"),
        request("/a%2Fb/?x=%20&y", method="POST", source_ip="192.0.2.1"),
        request("/", host="app.example.com:8443"),
        request("/", origin=b"https://o.example", access_control_request_method=b"PUT", method="OPTIONS"),
        request("/", headers=[(b"x-a", b"1"), (b"x-a", b"2"), (b"x-b", b"\xff")]),
    ],
)
def test_a_request_comes_back_the_same(original):
    check_request = pb.CheckRequest.FromString(to_check_request(original, COOKIES, {"gate_route": "x"}).SerializeToString())
    back, cookies = from_check_request(check_request, HTTPS)
    assert cookies == COOKIES
    assert (back.method, back.host_port, back.path, back.query) == (original.method, original.host_port, original.path, original.query)
    assert (back.origin, back.access_control_request_method) == (original.origin, original.access_control_request_method)
    assert back.source_ip == original.source_ip
    assert [pair for pair in back.headers if pair[0].startswith(b"x-")] == list(original.headers)


@pytest.mark.parametrize(
    "message", [None, NO_MESSAGE, McpMessage("tools/call", tool='sü"rch'), McpMessage("resources/read", resources=("a:b", "a:c"))]
)
def test_an_mcp_message_comes_back_the_same(message: McpMessage | None) -> None:
    check_request = to_check_request(request("/"), [], mcp_extension(message))
    assert parse_mcp_extension(check_request.attributes.context_extensions) == message


def test_mcp_calls_come_back_in_their_order() -> None:
    calls = [McpMessage("tools/call", tool="a"), McpMessage("resources/read", resources=("a:b",)), NO_MESSAGE]
    assert parse_mcp_calls(mcp_calls_extension(calls)) == calls
    for written in ({}, {MCP_CALLS: "x"}, {MCP_CALLS: "[1]"}, {MCP_CALLS: "1"}):
        with pytest.raises(BadRequest):
            parse_mcp_calls(written)


@pytest.mark.parametrize("written", ["", "x", "[]", '{"resources": 1}'])
def test_malformed_mcp_message_is_an_error(written: str) -> None:
    with pytest.raises(BadRequest):
        parse_mcp_extension({MCP: written})


def envoy_request(**http: object) -> pb.CheckRequest:
    check_request = pb.CheckRequest()
    request = check_request.attributes.request.http
    headers = http.pop("headers", {})
    for name, value in {"method": "GET", "host": "app.example.com", "path": "/", **http}.items():
        setattr(request, name, value)
    request.headers.update(headers)
    return check_request


def test_envoy_request_is_canonicalized():
    check_request = envoy_request(host="APP.example.com.:443", path="/a/../b?x=1", headers={":path": "/other", "cookie": "a=b; _gate=y"})
    back, cookies = from_check_request(check_request, HTTPS)
    assert (back.host_port, back.path, back.query) == ("app.example.com", "/b", "x=1")
    assert cookies == [b"a=b; _gate=y"]


@pytest.mark.parametrize(
    "http", [{"path": "/%00"}, {"path": "/a\\b"}, {"path": "/%"}, {"path": "/a#b"}, {"host": ""}, {"host": "a b"}, {"path": "/?a b"}]
)
def test_path_without_interpretation_is_refused(http):
    with pytest.raises(BadRequest):
        from_check_request(envoy_request(**http), HTTPS)


def test_a_certificate_that_can_not_be_read_is_none():
    check_request = envoy_request()
    for certificate in ("garbage", "-----BEGIN%20CERTIFICATE-----%0AAAAA%0A-----END%20CERTIFICATE-----", "%ff"):
        check_request.attributes.source.certificate = certificate
        assert from_check_request(check_request, HTTPS)[0].client_certificate is None


def test_certificate_for_other_server_name_is_ignored():
    check_request = envoy_request()
    check_request.attributes.source.certificate = quote(authority().issue("ann").pem.decode())
    for server_name, counts in (("", True), ("APP.example.com", True), ("other.example.com", False), ("example.com", False)):
        check_request.attributes.tls_session.sni = server_name
        assert (from_check_request(check_request, HTTPS)[0].client_certificate is not None) is counts


def test_text_beyond_latin_1_is_decoded_as_utf_8():
    assert to_latin1_bytes("\xfc") == b"\xfc"
    assert to_latin1_bytes("\u20ac") == "\u20ac".encode()
