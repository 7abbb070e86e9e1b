"""CORS of MCP endpoints: pages of MCP clients may use them with an access token, never with cookies."""

from collections.abc import Iterable
from typing import Any

from foundation.web.asgi_types import Headers, Send

_ALLOW_ORIGIN = b"access-control-allow-origin"
EXPOSED_TO_AGENTS = b"WWW-Authenticate, Mcp-Session-Id, Retry-After"
# Without credentials any origin may have these headers: what a response discloses depends on the token alone.
AGENT_CORS: Headers = [(_ALLOW_ORIGIN, b"*"), (b"access-control-expose-headers", EXPOSED_TO_AGENTS)]
_PREFLIGHT: Headers = [
    (_ALLOW_ORIGIN, b"*"),
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"Authorization, *"),  # the wildcard does not include Authorization (Fetch standard, 4.9)
    (b"access-control-max-age", b"7200"),
    (b"cache-control", b"no-store"),
]


async def send_preflight(send: Send) -> int:
    """Answer a CORS preflight request, and return the status."""
    await send({"type": "http.response.start", "status": 204, "headers": list(_PREFLIGHT)})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
    return 204


def add_agent_cors(send: Send) -> Send:
    """Return a `send` that lets the page of a client read the response of the MCP server, unless its headers are set already."""

    async def send_with_cors(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start" and not has_cors_headers(message["headers"]):
            message = {**message, "headers": [*message["headers"], *AGENT_CORS]}
        await send(message)

    return send_with_cors


def has_cors_headers(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    return any(name.lower() == _ALLOW_ORIGIN for name, _ in headers)
