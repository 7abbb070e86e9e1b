"""Which pages may use an MCP server."""

from typing import Any

import pytest

from proxy.mcp.mcp_errors import McpRejected
from proxy.mcp.mcp_origin import require_allowed_origin
from tests.support.asgi import incoming_from
from tests.unit.authorize.builders import make_route

OTHER_ROUTE = "https://portal.example.com"


def check(origins: list[str], **keys: Any) -> None:
    incoming = incoming_from("https://app.example.com/mcp")
    incoming.scope["headers"] += [(b"origin", origin.encode()) for origin in origins]
    require_allowed_origin(incoming, make_route(mcp={}, **keys), lambda origin: origin == OTHER_ROUTE)


@pytest.mark.parametrize("origins", [[], ["https://app.example.com"], [OTHER_ROUTE]])
def test_programmatic_clients_and_route_pages_are_allowed(origins: list[str]) -> None:
    check(origins)


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
    ],
)
def test_other_pages_may_not(origins: list[str]) -> None:
    with pytest.raises(McpRejected) as refused:
        check(origins)
    assert refused.value.status == 403


def test_route_that_answers_preflight_requests_decides_itself() -> None:
    check(["https://inspector.example"], cors_allow_preflight=True)
    with pytest.raises(McpRejected):
        check(["https://inspector.example", "https://evil.example"], cors_allow_preflight=True)
