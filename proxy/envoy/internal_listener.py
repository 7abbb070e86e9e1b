"""Internal listener for what Envoy does not carry itself: a Unix socket, each request with the handoff token that the processor gave it."""

import secrets
from typing import Any

from foundation.errors import BadRequest
from proxy.envoy.head import BETWEEN_US, EnvoyRequestHead
from proxy.envoy.listener import CLIENT_PROTO, HANDOFF_TOKEN
from proxy.incoming import Receive, Send
from proxy.listener.context import Application

_HANDOFF_TOKEN = HANDOFF_TOKEN.encode()


class NoHandoffToken(BadRequest):
    """Refusal of a request without a handoff token: whoever this is, it is not our Envoy with a request that was judged."""


class InternalListener:
    """ASGI middleware of the internal listener.  A handoff token counts once, and only while its request is under way."""

    def __init__(self, application: Application, scheme: str):
        self._application = application
        self._scheme = scheme
        self._admitted: dict[bytes, EnvoyRequestHead] = {}

    def __repr__(self) -> str:
        return f"<InternalListener {len(self._admitted)} on their way>"

    def admit(self, head: EnvoyRequestHead) -> bytes:
        token = secrets.token_hex(16).encode()
        self._admitted[token] = head
        return token

    def forget(self, token: bytes) -> None:
        self._admitted.pop(token, None)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = self._as_client_sent(scope)
        await self._application(scope, receive, send)

    def _as_client_sent(self, scope: dict[str, Any]) -> dict[str, Any]:
        """The request as our listener read it, from the client that Envoy saw."""
        tokens = [value for name, value in scope["headers"] if name == _HANDOFF_TOKEN]
        head = self._admitted.pop(tokens[0], None) if len(tokens) == 1 else None
        if head is None:
            raise NoHandoffToken("a request without a handoff token")
        return {
            **scope,
            "scheme": self._scheme,
            "client": list(head.client) if head.client else None,
            "headers": _of_client(scope["headers"], head),
            "extensions": {**scope["extensions"], **head.extensions(self._scheme)},
        }


def _of_client(headers: list[tuple[bytes, bytes]], head: EnvoyRequestHead) -> list[tuple[bytes, bytes]]:
    kept = [
        pair
        for pair in headers
        if pair[0] not in BETWEEN_US
        and not pair[0].startswith(b"x-envoy-")
        and pair[0] not in (b"x-forwarded-proto", b"x-forwarded-client-cert")
    ]
    if proto := head.last.get(CLIENT_PROTO.encode()):
        kept.append((b"x-forwarded-proto", proto))
    return kept
