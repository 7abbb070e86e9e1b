"""Page context as pages that ask for decisions see it."""

from collections.abc import Callable
from typing import Any, Protocol

from authorize.client import Authorizer
from databroker.page_context import BrokerPageContext
from foundation.readiness import ReadinessReport


class AuthorizePageContext(BrokerPageContext, Protocol):
    """Page context with the authorizer.  `configuration` is the status of what is in force, gateproject's ConfigurationStatus, `in_force`
    is what is known of it, gateproject's InForce.
    """

    @property
    def authorize(self) -> Authorizer: ...
    @property
    def configuration(self) -> Any: ...
    @property
    def in_force(self) -> Any: ...
    @property
    def readiness(self) -> Callable[[], ReadinessReport]: ...


def page_context(request: Any) -> AuthorizePageContext:
    """Page context of a Django request; KeyError where gateproject/asgi.py has not made it."""
    context: AuthorizePageContext = request.scope["gate"]
    return context
