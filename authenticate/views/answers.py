"""What the pages of the authenticate host share: the raw cookies, and expected errors in plain words."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse

from gateproject import pages
from gateproject.errors import BadRequest
from gateproject.responses import error_page

log = structlog.get_logger(__name__)

View = Callable[..., Awaitable[HttpResponse]]
SIGN_IN_AGAIN = ("Sign in again", "/.gate/")


def cookie_headers(request: HttpRequest) -> list[bytes]:
    """The raw Cookie headers: Django's own dictionary keeps only one of several cookies with the same name."""
    return [value for name, value in request.scope["headers"] if name == b"cookie"]


def wants_json(request: HttpRequest) -> bool:
    return pages.preferred_type(request.headers.get("Accept", "")) == "json"


def provider_trouble(request: HttpRequest, error: Exception, retry_url: str) -> HttpResponse:
    log.error("sign-in failed at the identity provider", error=str(error), request_id=request.scope["gate"].request_id)
    response = error_page(
        request,
        503,
        "The sign-in service does not answer as it should, so we can't sign you in at the moment.",
        advice="If you are signed in already, nothing changes for you. Otherwise please try again in a minute.",
        links=(("Try again", retry_url),),
    )
    response.headers["Retry-After"] = "30"
    return response


def in_plain_words(view: View) -> View:
    """A view whose expected errors become pages."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return await view(request, *args, **kwargs)
        except BadRequest as error:
            reason = str(error)
            return error_page(request, 400, f"{reason[:1].upper()}{reason[1:]}.", advice="Please start again.", links=(SIGN_IN_AGAIN,))

    return answer
