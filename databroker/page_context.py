"""Page context as the admin's pages of records see it."""

from typing import Any, Protocol

from config.options import Options
from databroker.client import BrokerClient
from foundation.web.page_context import PageContext


class BrokerPageContext(PageContext, Protocol):
    """Page context with the configuration in force and the data broker."""

    @property
    def options(self) -> Options: ...
    @property
    def broker(self) -> BrokerClient: ...


def page_context(request: Any) -> BrokerPageContext:
    """Page context of a Django request; KeyError where gateproject/asgi.py has not made it."""
    context: BrokerPageContext = request.scope["gate"]
    return context
