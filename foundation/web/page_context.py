"""Page context: what a Django view of ours knows of its request, and which parts of gate it may ask.

There is one, made by gateproject/asgi.py; each floor has a `page_context` of its own that shows of it what that floor may import.
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


def page_context(request: Any) -> PageContext:
    """Page context of a Django request that came in by gateproject/asgi.py; KeyError for any other."""
    context: PageContext = request.scope["gate"]
    return context
