"""Which pages may use an MCP server."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from authorize.policy.identity import Identity
from proxy.mcp.mcp_errors import McpRejected
from proxy.mcp.mcp_origin import client_origins, is_preflight, require_access_token, require_allowed_origin
from tests.support.asgi import incoming_from
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route, user

OTHER_ROUTE = "https://portal.example.com"
CLIENT = "https://playground.example.com"


def check(origins: list[str], **keys: Any) -> bool:
    """Return whether the page needs a token."""
    incoming = incoming_from("https://app.example.com/mcp")
    incoming.scope["headers"] += [(b"origin", origin.encode()) for origin in origins]
    require_allowed_origin(incoming, make_route(mcp={}, **keys), lambda origin: origin == OTHER_ROUTE, {CLIENT})
    return incoming.needs_token


@pytest.mark.parametrize("origins", [[], ["https://app.example.com"], [OTHER_ROUTE]])
def test_programmatic_clients_and_route_pages_are_allowed(origins: list[str]) -> None:
    assert not check(origins)


@pytest.mark.parametrize("origin", [CLIENT, "http://localhost", "http://localhost:6274", "https://127.0.0.1:8443", "http://[::1]:1"])
def test_pages_of_clients_need_a_token(origin: str) -> None:
    assert check([origin])


@pytest.mark.parametrize(
    ("identity", "is_allowed"),
    [
        (None, False),
        (user(), False),
        (user(client_id="agent"), True),
        (user(session_id="bearer/1"), True),
        (user(provider="service_account"), True),
    ],
)
def test_token_is_what_identifies_the_caller(identity: Identity | None, is_allowed: bool) -> None:
    incoming = incoming_from("https://app.example.com/mcp")
    require_access_token(incoming, identity)
    incoming.needs_token = True
    with nullcontext() if is_allowed else pytest.raises(McpRejected, match="access token"):
        require_access_token(incoming, identity)


def test_origins_of_clients_are_those_of_their_redirect_uris(tmp_path: Path) -> None:
    clients = [{"id": "a", "name": "A", "redirect_uris": [f"{CLIENT}/callback", f"{CLIENT}:8443/cb", "http://127.0.0.1/cb"]}]
    assert client_origins(make_options(tmp_path, oauth_clients=clients)) == {CLIENT, f"{CLIENT}:8443", "http://127.0.0.1"}


@pytest.mark.parametrize(
    "origins",
    [
        ["https://evil.example"],
        ["null"],
        [""],
        ["http://app.example.com"],
        ["https://app.example.com:8443"],
        ["https://app.example.com", "https://evil.example"],
        ["https://app.example.com", "https://app.example.com"],
        ["http://localhost:6274", "http://localhost:6274"],
        ["http://localhost.evil.example"],
        ["http://localhost:6274.evil.example"],
        ["http://sub.localhost:6274"],
        ["http://127.0.0.2"],
        [f"{CLIENT}:8443"],
        [f"{CLIENT}.evil.example"],
    ],
)
def test_other_pages_may_not(origins: list[str]) -> None:
    with pytest.raises(McpRejected) as refused:
        check(origins)
    assert refused.value.status == 403


@pytest.mark.parametrize(
    ("method", "names", "expected"),
    [
        ("OPTIONS", ("origin", "access-control-request-method"), True),
        ("OPTIONS", ("origin",), False),
        ("OPTIONS", ("access-control-request-method",), False),
        ("POST", ("origin", "access-control-request-method"), False),
    ],
)
def test_preflight_has_a_method_and_two_headers(method: str, names: tuple[str, ...], expected: bool) -> None:
    headers = {name: {"origin": CLIENT, "access-control-request-method": "POST"}[name] for name in names}
    assert is_preflight(incoming_from("https://app.example.com/mcp", method=method, headers=headers)) is expected


def test_route_that_answers_preflight_requests_decides_itself() -> None:
    check(["https://inspector.example"], cors_allow_preflight=True)
    with pytest.raises(McpRejected):
        check(["https://inspector.example", "https://evil.example"], cors_allow_preflight=True)
