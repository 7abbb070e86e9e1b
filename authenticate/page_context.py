"""Page context as the pages of the authenticate host see it."""

from typing import Any, Protocol

from authenticate.service import AuthenticateService
from authorize.page_context import AuthorizePageContext


class AuthenticatePageContext(AuthorizePageContext, Protocol):
    """Page context with the authenticate service."""

    @property
    def authenticate(self) -> AuthenticateService:
        """RuntimeError in a process without it, which serves none of its pages."""
        ...


def page_context(request: Any) -> AuthenticatePageContext:
    """Page context of a Django request; KeyError where gateproject/asgi.py has not made it."""
    context: AuthenticatePageContext = request.scope["gate"]
    return context
