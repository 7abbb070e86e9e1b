"""Internal listener on a Unix socket for requests that Envoy sends to gate. Each has a secret that only Envoy and gate know."""

import hmac
from collections.abc import Callable, Iterable
from typing import Any

from authorize.policy.policy_request import CONNECT
from foundation.errors import BadRequest
from foundation.web.asgi_types import Application, Header, Headers, Receive, Send
from foundation.web.message import Message
from proxy.envoy.envoy_request_head import connection_extensions, is_set_by_envoy
from proxy.envoy.envoy_tunnel_transport import EnvoyTunnelTransport, ResetConnections
from proxy.envoy.resources.internal_headers import AUTHORIZED, DownstreamInfo, is_internal
from proxy.envoy.shared_connection import is_misdirected
from proxy.forwarding.tunnel import TunnelSide
from proxy.incoming_request import IncomingRequest
from proxy.listener.http1.exchange import TUNNEL_EXTENSION
from proxy.observe.request_recorder import PageLog
from proxy.responses.renderer import send_denial
from proxy.service import ProxyService
from proxy.verdict import Deny

_AUTHORIZED = AUTHORIZED.encode()


class MissingSecret(BadRequest):
    """The request does not have the secret, so it is not from gate's Envoy."""


# enforcement-point: Requests: Requests from Envoy's internal listener
class InternalListener:
    """ASGI middleware of the internal listener that restores the client's request from Envoy's internal headers.

    Connections that Envoy tunnels unparsed are TLS, and have no internal headers.
    """

    def __init__(
        self, application: Application, service: Callable[[], ProxyService], secret: str, scheme: str, reset_connections: ResetConnections
    ):
        self._application = application
        self._service = service
        self._reset_connections = reset_connections
        self._secret = secret.encode()
        self._scheme = scheme

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["scheme"] == "http":
            downstream = self._require_secret(scope["headers"])
            scope, tunnels = self._restore_client_request(scope, downstream)
            service = self._service()
            if is_misdirected(service, incoming := service.build_incoming(scope), downstream):
                await _send_misdirected(incoming, send)
                return
            await self._application(scope, receive, send)
            for tunnel in tunnels:  # the connection to gate closes with the application
                await tunnel.wait_reset()
        else:
            await self._application(scope, receive, send)

    def _require_secret(self, headers: Headers) -> DownstreamInfo:
        """Return the downstream information of a request with the secret. Raises MissingSecret for any other."""
        secrets = [value for name, value in headers if name == _AUTHORIZED]
        if len(secrets) != 1 or not hmac.compare_digest(secrets[0], self._secret):
            raise MissingSecret("a request without gate's secret")
        return DownstreamInfo.parse(dict(headers))

    def _restore_client_request(
        self, scope: dict[str, Any], downstream: DownstreamInfo
    ) -> tuple[dict[str, Any], list[EnvoyTunnelTransport]]:
        """Return the scope of the client's request, and a list that receives its tunnel."""
        tunnels: list[EnvoyTunnelTransport] = []
        headers: Headers = scope["headers"]
        client_headers = [pair for pair in headers if not (is_internal(pair[0]) or is_set_by_envoy(pair[0]))]
        if downstream.proto:
            client_headers.append((b"x-forwarded-proto", downstream.proto))
        extensions = {**scope["extensions"], **connection_extensions(self._scheme, downstream, headers)}
        if TUNNEL_EXTENSION in extensions and downstream.coding:  # which Envoy removes from a handshake
            client_headers.append((b"transfer-encoding", downstream.coding))
        if scope["method"] == CONNECT and TUNNEL_EXTENSION in extensions:
            extensions |= self._tunnel(extensions.pop(TUNNEL_EXTENSION), downstream, tunnels)
        restored = {
            **scope,
            "scheme": self._scheme,
            "client": list(downstream.client) if downstream.client else None,
            "headers": client_headers,
            "extensions": extensions,
        }
        return restored, tunnels

    def _tunnel(self, takeover: dict[str, Any], downstream: DownstreamInfo, tunnels: list[EnvoyTunnelTransport]) -> dict[str, Any]:
        """Return the tunnel extension without half-close, which Envoy (1.40) does not support.

        There is none over HTTP/2, where Envoy drops data that the client has not received when the upstream closes.
        """
        if downstream.is_http2 or (client := downstream.peer) is None:
            return {}

        def take_over(headers: Iterable[Header], protocol: TunnelSide, upgrade: bytes = b"") -> tuple[EnvoyTunnelTransport, bytes]:
            tunnel, client_prefix = takeover["take_over"](headers, protocol)
            tunnels.append(EnvoyTunnelTransport(tunnel, client, self._reset_connections))
            return tunnels[-1], client_prefix

        return {TUNNEL_EXTENSION: {"take_over": take_over, "half_closes": False}}


async def _send_misdirected(incoming: IncomingRequest, send: Send) -> None:
    """Send 421. Browsers repeat the request on another connection, without showing the page."""
    page = PageLog(incoming, send)
    await send_denial(incoming, Deny(421, Message("This connection was opened for another host.")), page.send)
    page.emit()
