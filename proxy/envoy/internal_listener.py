"""Internal listener for what Envoy does not carry itself: a Unix socket, each request with the ticket that the processor gave it."""

import secrets
from typing import Any

from foundation.errors import BadRequest
from proxy.envoy.head import Told
from proxy.envoy.listener import CLUSTER, MAY_STREAM, TICKET, TOLD_CONNECTION, TOLD_PROTO
from proxy.incoming import Receive, Send
from proxy.listener.context import Application

_TICKET = TICKET.encode()
_BETWEEN_US = frozenset(name.encode() for name in (CLUSTER, MAY_STREAM, TICKET, TOLD_CONNECTION, TOLD_PROTO))


class NoTicket(BadRequest):
    """Refusal of a request without a ticket: whoever this is, it is not our Envoy with a request that was judged."""


class Doorway:
    """ASGI middleware of the internal listener.  A ticket counts once, and only while its request is under way."""

    def __init__(self, application: Application, scheme: str):
        self._application = application
        self._scheme = scheme
        self._admitted: dict[bytes, Told] = {}

    def __repr__(self) -> str:
        return f"<Doorway {len(self._admitted)} on their way>"

    def admit(self, told: Told) -> bytes:
        ticket = secrets.token_hex(16).encode()
        self._admitted[ticket] = told
        return ticket

    def forget(self, ticket: bytes) -> None:
        self._admitted.pop(ticket, None)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = self._as_told(scope)
        await self._application(scope, receive, send)

    def _as_told(self, scope: dict[str, Any]) -> dict[str, Any]:
        """The request as our listener read it, from the client that Envoy saw."""
        tickets = [value for name, value in scope["headers"] if name == _TICKET]
        told = self._admitted.pop(tickets[0], None) if len(tickets) == 1 else None
        if told is None:
            raise NoTicket("a request without a ticket")
        return {
            **scope,
            "scheme": self._scheme,
            "client": list(told.client) if told.client else None,
            "headers": _of_client(scope["headers"], told),
            "extensions": {**scope["extensions"], **told.extensions(self._scheme)},
        }


def _of_client(headers: list[tuple[bytes, bytes]], told: Told) -> list[tuple[bytes, bytes]]:
    kept = [
        pair
        for pair in headers
        if pair[0] not in _BETWEEN_US
        and not pair[0].startswith(b"x-envoy-")
        and pair[0] not in (b"x-forwarded-proto", b"x-forwarded-client-cert")
    ]
    if proto := told.last.get(TOLD_PROTO.encode()):
        kept.append((b"x-forwarded-proto", proto))
    return kept
