"""ASGI types (asgi.readthedocs.io), and a function that sends a complete response."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

Header = tuple[bytes, bytes]
Headers = list[Header]
AsgiMessage = dict[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Application = Callable[[dict[str, Any], Receive, Send], Awaitable[None]]


async def respond(send: Send, status: int, headers: Iterable[Header], body: bytes, *, head_only: bool = False) -> None:
    """Send a response; `head_only` omits the body but keeps its Content-Length (HEAD)."""
    await send({"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": b"" if head_only else body})
