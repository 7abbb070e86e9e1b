"""Page context as the pages on the hosts of routes see it."""

from typing import Any, Protocol

from authorize.page_context import AuthorizePageContext
from proxy.incoming import IncomingRequest
from proxy.service import ProxyService


class ProxyPageContext(AuthorizePageContext, Protocol):
    """Page context with the proxy."""

    @property
    def incoming(self) -> IncomingRequest: ...
    @property
    def proxy(self) -> ProxyService: ...


def page_context(request: Any) -> ProxyPageContext:
    """Page context of a Django request; KeyError where gateproject/asgi.py has not made it."""
    context: ProxyPageContext = request.scope["gate"]
    return context
