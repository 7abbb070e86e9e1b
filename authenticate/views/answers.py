"""How every page of the authenticate service answers: our headers, our words, HTML or JSON as the client prefers."""

import functools
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect

from gateproject import pages
from gateproject.errors import BadRequest, BrokerError

log = structlog.get_logger(__name__)

View = Callable[..., Awaitable[HttpResponse]]
SIGN_IN_AGAIN = ("Sign in again", "/.gate/")


def cookie_headers(request: HttpRequest) -> list[bytes]:
    """The raw Cookie headers: Django's own dictionary keeps only one of several cookies with the same name."""
    return [value for name, value in request.scope["headers"] if name == b"cookie"]


def wants_json(request: HttpRequest) -> bool:
    return pages.preferred_type(request.headers.get("Accept", "")) == "json"


def page(template: str, *, status: int = 200, form_targets: str = "'self'", **context: Any) -> HttpResponse:
    content = pages.render(template, **context)
    return HttpResponse(content, status=status, headers=dict(pages.headers(form_targets)))


def json_answer(document: dict[str, Any], *, status: int = 200) -> HttpResponse:
    content = json.dumps(document, ensure_ascii=True).encode() + b"\n"
    return HttpResponse(content, status=status, content_type="application/json", headers=dict(pages.headers()))


def redirect(url: str, cookies: Iterable[str] = ()) -> HttpResponse:
    response = HttpResponseRedirect(url, headers={"Cache-Control": "no-store", "Referrer-Policy": "same-origin"})
    return with_cookies(response, cookies)


def with_cookies(response: HttpResponse, cookies: Iterable[str]) -> HttpResponse:
    for cookie in cookies:
        response.cookies.load(cookie)
    return response


def problem(request: HttpRequest, status: int, reason: str, *, advice: str = "", links: tuple[tuple[str, str], ...] = ()) -> HttpResponse:
    content_type, body = pages.error_response(
        status, reason, request.scope["gate"].request_id, request.headers.get("Accept", ""), advice=advice, links=links
    )
    return HttpResponse(body, status=status, content_type=content_type, headers=dict(pages.headers()))


def provider_trouble(request: HttpRequest, error: Exception, retry_url: str) -> HttpResponse:
    log.error("sign-in failed at the identity provider", error=str(error), request_id=request.scope["gate"].request_id)
    response = problem(
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
            return problem(request, 400, f"{reason[:1].upper()}{reason[1:]}.", advice="Please start again.", links=(SIGN_IN_AGAIN,))
        except BrokerError as error:
            log.error("data broker does not answer", error=str(error), request_id=request.scope["gate"].request_id)
            return problem(request, 503, "We can't look up your session at the moment.", advice="Please try again in a minute.")

    return answer
