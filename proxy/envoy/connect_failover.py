"""Requests whose upstream Envoy could not connect to: nothing was sent, so gate goes on with them as it does with its own, and asks another
upstream of the route.

Envoy sends them over a Unix socket of their own, with the head that gate wrote for the upstream.  The request's id says which one it is:
gate made it, and who knows it otherwise, an upstream that was reached for instance, has no way to the socket.
"""

from typing import Any

from foundation.web.asgi_types import Receive, Send
from proxy.envoy.proxied.active_requests import CarriedRequests
from proxy.responses.renderer import send_response

ID = b"x-request-id"


# enforcement-point: Requests: Requests that Envoy could not connect upstream
class UnconnectedRequests:
    """ASGI application of the socket."""

    def __init__(self, carried: CarriedRequests):
        self._carried = carried

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        ids = [value for name, value in scope["headers"] if name == ID]
        carried = self._carried.unconnected(ids[0]) if len(ids) == 1 else None
        if carried is None:
            await send_response(send, 503, [], b"")
        else:
            await carried.carry_elsewhere(receive, send)
