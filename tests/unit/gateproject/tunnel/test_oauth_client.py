"""Metadata is used only of the resource and the server that were asked, and errors are named without control characters."""

from typing import Any

import pytest

from foundation.values import parse_url
from gateproject.tunnel.oauth_client import OAuthError, discover, printable
from gateproject.tunnel.tls_connection import TunnelError
from tests.support.fake_gate import RESOURCE_PATH, SERVER_PATH, TUNNEL, FakeGate

APP = "https://app.localhost"


@pytest.fixture
def gate(tmp_path):
    with FakeGate(tmp_path) as running:
        yield running


async def test_tunnel_is_found_by_its_port_and_pages_by_their_host(gate):
    for resource in (TUNNEL, parse_url(APP), parse_url(f"{APP}:{gate.url.port}")):
        server = await discover(gate.gate, resource)
        assert (server.issuer, server.resource) == (gate.issuer, str(resource))
    requests = [head.decode().split("\r\n")[:2] for head in gate.heads if RESOURCE_PATH.encode() in head]
    assert requests == [
        [f"GET {RESOURCE_PATH}?port=22 HTTP/1.1", f"Host: db.localhost:{gate.url.port}"],
        [f"GET {RESOURCE_PATH} HTTP/1.1", "Host: app.localhost"],
        [f"GET {RESOURCE_PATH} HTTP/1.1", f"Host: app.localhost:{gate.url.port}"],
    ]


async def test_older_gate_is_named(gate):
    gate.failing[RESOURCE_PATH] = "missing"
    with pytest.raises(TunnelError, match=r"no sign-in for tcp\+https://db.localhost:22: .* version is older"):
        await discover(gate.gate, TUNNEL)


@pytest.mark.parametrize(
    ("path", "changed", "message"),
    [
        (RESOURCE_PATH, {"resource": "tcp+https://other.localhost:22"}, "metadata of another resource"),
        (RESOURCE_PATH, {"resource": None}, "metadata of another resource"),
        (RESOURCE_PATH, {"authorization_servers": []}, "authorization server of .* is not valid"),
        (RESOURCE_PATH, {"authorization_servers": {"0": "a"}}, "authorization server of .* is not valid"),
        (RESOURCE_PATH, {"authorization_servers": [1]}, "authorization server of .* is not valid"),
        (RESOURCE_PATH, {"authorization_servers": "https://auth.localhost"}, "authorization server of .* is not valid"),
        (RESOURCE_PATH, {"authorization_servers": ["http://auth.localhost"]}, "must be https"),
        (SERVER_PATH, {"issuer": "https://evil.localhost"}, "another authorization server"),
        (SERVER_PATH, {"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
        (SERVER_PATH, {"code_challenge_methods_supported": None}, "does not support PKCE"),
    ],
)
async def test_metadata_of_others_is_refused(gate, path: str, changed: dict[str, Any], message: str):
    gate.changed[path] = changed
    with pytest.raises(TunnelError, match=message):
        await discover(gate.gate, TUNNEL)


@pytest.mark.parametrize("path", [RESOURCE_PATH, SERVER_PATH])
async def test_unavailable_metadata_is_an_error(gate, path: str):
    gate.failing[path] = "temporarily_unavailable"
    with pytest.raises(TunnelError, match="can't be read: 503"):
        await discover(gate.gate, TUNNEL)


@pytest.mark.parametrize("endpoint", ["javascript:alert(1)", "http://auth.localhost/a", "https://a b", "--help", None, 1])
async def test_endpoint_is_a_web_address(gate, endpoint: Any):
    gate.changed[SERVER_PATH] = dict.fromkeys(("authorization_endpoint", "token_endpoint"), endpoint)
    server = await discover(gate.gate, TUNNEL)
    with pytest.raises(TunnelError, match=f"authorization_endpoint of {gate.issuer} is not valid"):
        server.build_authorization_url()
    with pytest.raises(TunnelError, match=f"token_endpoint of {gate.issuer} is not valid"):
        await server.request_tokens("refresh_token", refresh_token="a")


async def test_authorization_url_keeps_the_query_of_its_endpoint(gate):
    url = (await discover(gate.gate, TUNNEL)).build_authorization_url(state="a b")
    assert url == (
        f"{gate.issuer}/authorize?a=b&response_type=code&client_id=gate&resource=tcp%2Bhttps%3A%2F%2Fdb.localhost%3A22&state=a+b"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"access_token": None},
        {"access_token": "a\r\nHost: evil"},
        {"access_token": ""},
        {"token_type": "DPoP"},
        {"token_type": None},
    ],
)
async def test_response_without_a_bearer_token_is_an_error(gate, changed: dict[str, Any]):
    gate.changed["/token"] = changed
    gate.device = "a"
    with pytest.raises(OAuthError, match="returned no token"):
        await (await discover(gate.gate, TUNNEL)).request_tokens("device", device_code="a")


@pytest.mark.parametrize("seconds", [None, -1, "3600", float("nan"), float("inf"), 10**400])
async def test_invalid_lifetime_is_no_lifetime(gate, seconds: Any):
    gate.changed["/token"] = {"expires_in": seconds}
    gate.device = "a"
    stored = await (await discover(gate.gate, TUNNEL)).request_tokens("device", device_code="a")
    assert stored.expires_at < 2**40
    assert "access-1" not in repr(stored)


async def test_device_without_a_code_is_an_error(gate):
    gate.changed["/device"] = {"user_code": "\x1b[2J"}
    with pytest.raises(TunnelError, match="returned no device code"):
        await (await discover(gate.gate, TUNNEL)).start_device()


async def test_error_is_named(gate):
    gate.failing["refresh_token"] = "invalid_grant"
    gate.failing["/revoke"] = "temporarily_unavailable"
    server = await discover(gate.gate, TUNNEL)
    with pytest.raises(OAuthError, match=f"{gate.issuer} refused: invalid_grant") as refused:
        await server.request_tokens("refresh_token", refresh_token="a")
    assert refused.value.code == "invalid_grant"
    with pytest.raises(OAuthError, match="refused: temporarily_unavailable"):
        await server.revoke("a")
    gate.changed["refresh_token"] = {"error_description": "Used\x1b twice"}
    with pytest.raises(OAuthError, match="refused: Used twice"):
        await server.request_tokens("refresh_token", refresh_token="a")


def test_text_of_a_server_controls_no_terminal():
    assert printable(" a\n b\x1b[2J\u202e ") == "a b[2J"
    assert len(printable("x" * 1000)) == 300
