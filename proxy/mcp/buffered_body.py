"""Buffered request body: read completely before a decision, and forwarded in the same bytes."""

from typing import Any

from foundation.web.asgi_types import Receive


class BodyTooLong(Exception):
    """The body is longer than its reader accepts."""


async def read_body(receive: Receive, max_bytes: int, first: dict[str, Any]) -> bytes:
    """Return the complete body, which begins with the message `first`.  Raises BodyTooLong, and ConnectionError if the client left."""
    body, message = bytearray(), first
    while True:
        if message["type"] != "http.request":
            raise ConnectionResetError("the client left before the end of its request")
        body += message.get("body", b"")
        if len(body) > max_bytes:
            raise BodyTooLong
        if not message.get("more_body", False):
            return bytes(body)
        message = await receive()


def replay_body(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI `receive` that has the body in one piece, then all later messages."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> dict[str, Any]:
        return messages.pop() if messages else await receive()

    return receive_again
