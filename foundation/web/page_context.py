"""Page context: what a Django view of ours knows of its request, and which parts of gate it may ask.

There is one, made by gateproject/asgi.py.  Each layer describes as much of it as that layer may import, beside the service that it adds,
and gives `request_context` that type.
"""

from typing import Any, Protocol


class PageContext(Protocol):
    """Page context as far as every floor knows it.  `incoming` is the request as gate read it, proxy's IncomingRequest."""

    @property
    def incoming(self) -> Any: ...
    @property
    def request_id(self) -> str: ...
    @property
    def client_address(self) -> str:
        """Address of the client, behind trusted proxies theirs."""
        ...

    @property
    def at_authenticate_host(self) -> bool: ...


def request_context(request: Any) -> Any:
    """Return the page context of a Django request that came in by gateproject/asgi.py.  Raise KeyError for any other."""
    return request.scope["gate"]
