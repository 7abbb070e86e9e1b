"""Internal listener for what Envoy does not carry itself: a Unix socket, each request with the mark that Envoy has of gate alone."""

import hmac
from collections.abc import Callable, Iterable
from typing import Any

from authorize.policy.policy_request import CONNECT
from foundation.errors import BadRequest
from foundation.web.asgi_types import Application, Header, Headers, Receive, Send
from foundation.web.message import Message
from proxy.envoy.envoy_request_head import connection_extensions, is_set_by_envoy
from proxy.envoy.envoy_tunnel_transport import Cut, EnvoyTunnelEnd
from proxy.envoy.resources.internal_headers import JUDGED, EdgeFacts, is_between_us
from proxy.envoy.shared_connection import is_misdirected
from proxy.forwarding.tunnel import TunnelSide
from proxy.incoming_request import IncomingRequest
from proxy.listener.http1.exchange import TUNNEL_EXTENSION
from proxy.observe.request_recorder import PageLog
from proxy.responses.renderer import send_denial
from proxy.service import ProxyService
from proxy.verdict import Deny

_JUDGED = JUDGED.encode()


class NoMark(BadRequest):
    """Refusal of a request without gate's mark: whoever this is, it is not our Envoy."""


# enforcement-point: Requests: Requests from Envoy's internal listener
class InternalListener:
    """ASGI middleware of the internal listener, which reads what Envoy says of the client that it has seen.

    Connections that Envoy has handed on unread are TLS; nobody says anything of them but their client.
    """

    def __init__(self, application: Application, service: Callable[[], ProxyService], mark: str, scheme: str, cut: Cut):
        self._application = application
        self._service = service
        self._cut = cut
        self._mark = mark.encode()
        self._scheme = scheme

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["scheme"] == "http":
            facts = self._checked_facts(scope["headers"])
            scope, ends = self._as_client_sent(scope, facts)
            service = self._service()
            if is_misdirected(service, incoming := service.receive(scope), facts):
                await _refuse_misdirected(incoming, send)
                return
            await self._application(scope, receive, send)
            for end in ends:  # gate's own connection ends with the application
                await end.settled()
        else:
            await self._application(scope, receive, send)

    def _checked_facts(self, headers: Headers) -> EdgeFacts:
        """Facts of a request that has gate's mark.  NoMark for any other."""
        marks = [value for name, value in headers if name == _JUDGED]
        if len(marks) != 1 or not hmac.compare_digest(marks[0], self._mark):
            raise NoMark("a request without gate's mark")
        return EdgeFacts.of(dict(headers))

    def _as_client_sent(self, scope: dict[str, Any], facts: EdgeFacts) -> tuple[dict[str, Any], list[EnvoyTunnelEnd]]:
        """The request as our listener read it, from the client that Envoy saw; and where to find its tunnel, once it has one."""
        ends: list[EnvoyTunnelEnd] = []
        headers: Headers = scope["headers"]
        kept = [pair for pair in headers if not (is_between_us(pair[0]) or is_set_by_envoy(pair[0]))]
        if facts.proto:
            kept.append((b"x-forwarded-proto", facts.proto))
        seen = {**scope["extensions"], **connection_extensions(self._scheme, facts, headers)}
        if TUNNEL_EXTENSION in seen and facts.coding:  # which Envoy takes out of a handshake
            kept.append((b"transfer-encoding", facts.coding))
        if scope["method"] == CONNECT and TUNNEL_EXTENSION in seen:
            seen |= self._tunnel(seen.pop(TUNNEL_EXTENSION), facts, ends)
        sent = {
            **scope,
            "scheme": self._scheme,
            "client": list(facts.client) if facts.client else None,
            "headers": kept,
            "extensions": seen,
        }
        return sent, ends

    def _tunnel(self, offered: dict[str, Any], facts: EdgeFacts, ends: list[EnvoyTunnelEnd]) -> dict[str, Any]:
        """Tunnel that Envoy (1.40) can carry: neither end may end before the other.  None over HTTP/2, where it drops what the client has
        not taken yet when the upstream ends.
        """
        if facts.is_http2 or (client := facts.peer) is None:
            return {}

        def take_over(headers: Iterable[Header], protocol: TunnelSide, upgrade: bytes = b"") -> tuple[EnvoyTunnelEnd, bytes]:
            end, sent_ahead = offered["take_over"](headers, protocol)
            ends.append(EnvoyTunnelEnd(end, client, self._cut))
            return ends[-1], sent_ahead

        return {TUNNEL_EXTENSION: {"take_over": take_over, "half_closes": False}}


async def _refuse_misdirected(incoming: IncomingRequest, send: Send) -> None:
    """Browsers send the request again, over a connection of its own, and show none of this."""
    page = PageLog(incoming, send)
    await send_denial(incoming, Deny(421, Message("This connection was opened for another host.")), page.send)
    page.emit()
