"""Responses of third-party MCP servers, which authenticate the user by a token that gate adds."""

from typing import Any

from authorize.upstream.upstream_oauth_tokens import token_hash
from foundation.errors import UpstreamError
from foundation.web.asgi_types import Send
from proxy.upstreams.outgoing_request import OutgoingRequest


class TokenRejected(UpstreamError):
    """The server rejected the user's token.  Nothing was sent to the client."""


# enforcement-point: Upstream requests: Challenges of third-party MCP servers
class TokenResponseFilter:
    """ASGI `send` that removes the challenges of the server: they are for gate, and a client would request a token for itself.

    Raises TokenRejected in place of a 401.
    """

    def __init__(self, send: Send):
        self._send = send

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            if message["status"] == 401:
                raise TokenRejected("the server rejected the user's token")
            message = {**message, "headers": [pair for pair in message["headers"] if pair[0] != b"www-authenticate"]}
        await self._send(message)


def sent_token_hash(outgoing: OutgoingRequest) -> str:
    """Return the hash of the token in a request to the server."""
    return token_hash(next((value for name, value in outgoing.headers if name == b"authorization"), b""))
