"""Failover of requests whose upstream Envoy could not connect to. Nothing was sent, so gate forwards them to another upstream.

Envoy sends them over a separate Unix socket, with the head that gate built for the upstream. gate finds the request by its id.
Upstreams know request ids too, but cannot reach the socket.
"""

from typing import Any

from foundation.web.asgi_types import Receive, Send
from proxy.envoy.proxied.active_requests import ActiveRequests
from proxy.responses.renderer import send_response

ID = b"x-request-id"


# enforcement-point: Requests: Requests that Envoy could not connect upstream
class ConnectFailover:
    """ASGI application of the failover socket."""

    def __init__(self, active_requests: ActiveRequests):
        self._active_requests = active_requests

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        ids = [value for name, value in scope["headers"] if name == ID]
        request = self._active_requests.take_for_failover(ids[0]) if len(ids) == 1 else None
        if request is None:
            await send_response(send, 503, [], b"")
        else:
            await request.fail_over(receive, send)
