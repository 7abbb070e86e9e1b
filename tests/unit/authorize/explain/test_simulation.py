"""A described person passes for what a sign-in would have made of them, and a described URL for what a browser would send."""

from pathlib import Path

import pytest

from authorize.explain.simulation import SimulatedUser, add_client, simulate_identity, simulate_message, simulate_request
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.route_settings import default_ports
from tests.support.options import make_options

PORTS = frozenset({443})


def test_a_user_is_an_address_an_id_or_a_bare_subject(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    by_email = simulate_identity(SimulatedUser("Ann@Example.com", ["g"], {"team": "x"}), options)
    by_id = simulate_identity(SimulatedUser("other/7"), options)
    bare = simulate_identity(SimulatedUser("7"), options)
    assert by_email is not None
    assert by_id is not None
    assert bare is not None
    assert by_email.user_id == "", "the id is unknown"
    assert (by_email.verified_email, by_email.group_ids, by_email.claims["team"]) == ("ann@example.com", {"g"}, ("x",))
    assert (by_id.user_id, by_id.provider, by_id.unqualified_subject, by_id.verified_email) == ("other/7", "", "", ""), (
        "no configured provider has this id"
    )
    assert (bare.user_id, bare.claims["sub"]) == ("oidc/7", ("7",))
    assert simulate_identity(SimulatedUser(), options) is None


def test_an_address_that_is_not_verified_does_not_count(tmp_path: Path) -> None:
    identity = simulate_identity(SimulatedUser("ann@example.com", claims={"email_verified": False}), make_options(tmp_path))
    assert identity is not None
    assert identity.verified_email == ""


def test_client_acts_for_a_user(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    identity = simulate_identity(SimulatedUser("7", client="build-agent", scopes=["read"]), options)
    assert identity is not None
    assert (identity.user_id, identity.client_id, identity.scopes, identity.has_oauth_token) == ("oidc/7", "build-agent", {"read"}, True)
    account = simulate_identity(SimulatedUser("service_account/ci", client="build-agent"), options)
    assert account is not None
    assert (account.user_id, account.client_id) == ("service_account/ci", "build-agent")
    browser = add_client(identity, "")
    assert browser is not None
    assert (browser.client_id, browser.scopes, browser.sources) == ("", frozenset(), identity.sources)
    assert add_client(None, "") is None
    for user in (SimulatedUser("7", scopes=["read"]), SimulatedUser(client="build-agent"), SimulatedUser(scopes=["read"])):
        with pytest.raises(ValueError, match="need"):
            simulate_identity(user, options)


def test_request_matches_that_of_a_browser() -> None:
    request = simulate_request("https://App.example.com/a b?c=d", "POST", PORTS)
    assert (request.method, request.host, request.port, request.path, request.query) == ("POST", "app.example.com", None, "/a%20b", "c=d")
    assert simulate_request("http://app.example.com/", "GET", PORTS).port == 80


def test_message_of_a_request_without_a_body_is_known() -> None:
    search = McpMessage("tools/call", tool="search")
    for method, message in (("GET", NO_MESSAGE), ("DELETE", NO_MESSAGE), ("POST", None), ("PUT", None)):
        assert simulate_request("https://app.example.com/", method, PORTS).mcp == message
    for method in ("POST", "GET"):
        request = simulate_request("https://app.example.com/", method, PORTS, mcp=search)
        assert (request.method, request.mcp) == ("POST", search)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, None),
        ({"method": "tools/list"}, McpMessage("tools/list")),
        ({"tool": "a"}, McpMessage("tools/call", tool="a")),
        ({"prompt": "a"}, McpMessage("prompts/get", prompt="a")),
        ({"method": "completion/complete", "prompt": "a"}, McpMessage("completion/complete", prompt="a")),
        ({"resource": "a:b"}, McpMessage("resources/read", resources=("a:b",))),
    ],
)
def test_message_is_described_by_what_it_uses(values: dict[str, str], message: McpMessage | None) -> None:
    assert simulate_message(**values) == message


@pytest.mark.parametrize(
    "values", [{"tool": "a", "prompt": "b"}, {"method": "tools/list", "tool": "a"}, {"method": "ping", "resource": "a:b"}]
)
def test_message_with_contradictory_values_is_an_error(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"tool|resource"):
        simulate_message(**values)


@pytest.mark.parametrize("url", ["app.example.com", "ftp://a/", "https://a@b/", "https://a\x00/", "https://a:99999/", "https://a/%zz", ""])
def test_invalid_request_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="invalid URL"):
        simulate_request(url, "GET", PORTS)


@pytest.mark.parametrize("method", ["delete", "Get", "GET ", "A" * 33])
def test_invalid_method_is_rejected(method: str) -> None:
    with pytest.raises(ValueError, match="upper-case"):
        simulate_request("https://app.example.com/", method, PORTS)


def test_without_tls_port_80_is_a_default_too(tmp_path: Path) -> None:
    assert default_ports(make_options(tmp_path)) == {80, 443}


def test_a_tunnel_is_described_by_its_url() -> None:
    tunnel = simulate_request("tcp+https://db.example.com:443", "GET", PORTS)
    assert (tunnel.method, tunnel.host_port, tunnel.path) == ("CONNECT", "db.example.com:443", "/")
    for url, method, expected in (
        ("tcp+https://db.example.com", "GET", "a port"),
        ("tcp+https://db.example.com:22/x", "GET", "no path"),
        ("https://db.example.com:22", "connect", "CONNECT is for"),
    ):
        with pytest.raises(ValueError, match=expected):
            simulate_request(url, method, PORTS)
