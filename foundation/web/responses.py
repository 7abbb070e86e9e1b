"""Django responses as all our pages give them: our headers, our cookies, errors in the form the client reads."""

import json
from collections.abc import Callable, Iterable
from http.cookies import SimpleCookie

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import get_language

from foundation.web import pages
from foundation.web.brand import NO_BRAND, Brand, Links
from foundation.web.languages import ENGLISH, LANGUAGES
from foundation.web.message import Message
from foundation.web.page_context import PageContext, request_context
from foundation.web.problem_details import PROBLEM, is_api

page_context: Callable[[HttpRequest], PageContext] = request_context


def page(
    request: HttpRequest,
    template: str,
    /,
    *,
    status: int = 200,
    form_targets: str = "'self'",
    framed_by: str = "",
    shows_times: bool = False,
    files: pages.PageFiles = pages.NO_FILES,
    **context: object,
) -> HttpResponse:
    """Page of a template, which may show `help_links`."""
    brand = page_context(request).incoming.site.brand
    body = pages.render(template, language(), shows_times=shows_times, help_links=_help_links(request), brand=brand, **context)
    response = HttpResponse(body, status=status, content_type=pages.HTML, headers={"Vary": "Accept-Language"})
    return _with_headers(response, pages.headers(form_targets, framed_by, shows_times, files, brand.style))


def error_page(
    request: HttpRequest, status: int, reason: str, *, advice: str = "", links: Links = (), set_cookies: Iterable[str] = ()
) -> HttpResponse:
    incoming = page_context(request).incoming
    incoming.response_reason, request_id = reason, incoming.request_id
    accept = PROBLEM if is_api(request.path) else request.headers.get("Accept", "")
    brand, help_links = incoming.site.brand, _help_links(request)
    content_type, body = pages.error_response(
        status, reason, request_id, accept, language=language(), advice=advice, links=links, help_links=help_links, brand=brand
    )
    headers = {"X-Request-Id": request_id, "Vary": pages.vary(content_type)}
    return finished(HttpResponse(body, status=status, content_type=content_type, headers=headers), set_cookies, brand)


def language() -> str:
    """Language of the page that is made at this moment, which gateproject's LanguageMiddleware has found."""
    found = get_language()
    return found if found in LANGUAGES else ENGLISH


def _help_links(request: HttpRequest) -> Links:
    incoming = page_context(request).incoming
    return incoming.site.help_links(incoming.request.host_port, incoming.request_id)


def json_page(document: dict[str, object], *, status: int = 200) -> HttpResponse:
    content = json.dumps(document, ensure_ascii=True).encode() + b"\n"
    return finished(HttpResponse(content, status=status, content_type="application/json"))


def redirect(location: str, set_cookies: Iterable[str] = ()) -> HttpResponse:
    return finished(HttpResponseRedirect(location), set_cookies)


def _handler(status: int, reason: str) -> Callable[..., HttpResponse]:
    def answer(request: HttpRequest, exception: Exception | None = None, **_: object) -> HttpResponse:
        return error_page(request, status, reason, links=((Message("Your applications"), "/.gate/"),))

    return answer


# What Django itself refuses, and what fails: by these names it finds them in the modules of URLs and in the settings.
handler400 = _handler(400, Message("This request is not valid."))
handler403 = _handler(403, Message("You are not allowed to do this."))
handler404 = _handler(404, Message("This page does not exist."))
handler500 = _handler(500, Message("An internal error occurred. The log has details under the request id."))
csrf_failure = _handler(403, Message("This form has expired. Open the page again."))


def finished(response: HttpResponse, set_cookies: Iterable[str] = (), brand: Brand = NO_BRAND) -> HttpResponse:
    """`set_cookies` are Set-Cookie values as foundation.crypto makes them; `brand` is that of a page."""
    return with_cookies(_with_headers(response, pages.headers(style=brand.style)), set_cookies)


def _with_headers(response: HttpResponse, headers: Iterable[tuple[str, str]]) -> HttpResponse:
    for name, value in headers:
        response.headers.setdefault(name, value)
    return response


def with_cookies(response: HttpResponse, set_cookies: Iterable[str]) -> HttpResponse:
    """Each of them, in order: Django would keep the last of a name, and one of another path or domain is another cookie."""
    for cookie in set_cookies:
        for morsel in SimpleCookie(cookie).values():
            place = morsel.key, morsel["domain"], morsel["path"]
            dict.__setitem__(response.cookies, place[0] if place[0] not in response.cookies else repr(place), morsel)
    return response
