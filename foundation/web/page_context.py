"""Page context: the request and the services that a Django view of gate uses.

gateproject/asgi.py creates it. Each package declares a protocol with the attributes that it may import, and annotates
`request_context` with it.
"""

from typing import Any, Protocol


class PageContext(Protocol):
    """Attributes of the page context that are available in every package. `incoming` is proxy's `IncomingRequest`."""

    @property
    def incoming(self) -> Any: ...
    @property
    def request_id(self) -> str: ...
    @property
    def client_address(self) -> str:
        """Address of the client, as forwarded by trusted proxies."""
        ...

    @property
    def is_authenticate_host(self) -> bool: ...


def request_context(request: Any) -> Any:
    """Return the page context of a Django request. Raise KeyError if gateproject/asgi.py did not set one."""
    return request.scope["gate"]
