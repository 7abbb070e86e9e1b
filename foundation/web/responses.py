"""Django responses of gate's pages: security headers, cookies, and errors in the media type that the client prefers."""

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
from foundation.web.problem_details import PROBLEM, is_api_path

page_context: Callable[[HttpRequest], PageContext] = request_context


def render_page(
    request: HttpRequest,
    template: str,
    /,
    *,
    status: int = 200,
    form_targets: str = "'self'",
    framed_by: str = "",
    shows_times: bool = False,
    files: pages.PageAssets = pages.NO_ASSETS,
    **context: object,
) -> HttpResponse:
    """Render a template as a page. The template may use `help_links`."""
    brand = page_context(request).incoming.site.brand
    body = pages.render(template, current_language(), shows_times=shows_times, help_links=_help_links(request), brand=brand, **context)
    response = HttpResponse(body, status=status, content_type=pages.HTML, headers={"Vary": "Accept-Language"})
    return _with_headers(response, pages.security_headers(form_targets, framed_by, shows_times, files, brand.style))


def render_error(
    request: HttpRequest, status: int, reason: str, *, advice: str = "", links: Links = (), set_cookies: Iterable[str] = ()
) -> HttpResponse:
    incoming = page_context(request).incoming
    incoming.response_reason, request_id = reason, incoming.request_id
    accept = PROBLEM if is_api_path(request.path) else request.headers.get("Accept", "")
    brand, help_links = incoming.site.brand, _help_links(request)
    content_type, body = pages.error_response(
        status, reason, request_id, accept, language=current_language(), advice=advice, links=links, help_links=help_links, brand=brand
    )
    headers = {"X-Request-Id": request_id, "Vary": pages.vary_header(content_type)}
    return finalize(HttpResponse(body, status=status, content_type=content_type, headers=headers), set_cookies, brand)


def current_language() -> str:
    """Return the language that gateproject's LanguageMiddleware has activated for this request."""
    active = get_language()
    return active if active in LANGUAGES else ENGLISH


def _help_links(request: HttpRequest) -> Links:
    incoming = page_context(request).incoming
    return incoming.site.help_links(incoming.request.host_port, incoming.request_id)


def json_response(document: dict[str, object], *, status: int = 200) -> HttpResponse:
    content = json.dumps(document, ensure_ascii=True).encode() + b"\n"
    return finalize(HttpResponse(content, status=status, content_type="application/json"))


def redirect(location: str, set_cookies: Iterable[str] = ()) -> HttpResponse:
    return finalize(HttpResponseRedirect(location), set_cookies)


def _handler(status: int, reason: str) -> Callable[..., HttpResponse]:
    def answer(request: HttpRequest, exception: Exception | None = None, **_: object) -> HttpResponse:
        return render_error(request, status, reason, links=((Message("Your applications"), "/.gate/"),))

    return answer


# Handlers of Django's own errors; Django looks up these names in URL modules and settings.
handler400 = _handler(400, Message("This request is not valid."))
handler403 = _handler(403, Message("You are not allowed to do this."))
handler404 = _handler(404, Message("This page does not exist."))
handler500 = _handler(500, Message("An internal error occurred. The log has details under the request id."))
csrf_failure = _handler(403, Message("This form has expired. Open the page again."))


def finalize(response: HttpResponse, set_cookies: Iterable[str] = (), brand: Brand = NO_BRAND) -> HttpResponse:
    """Add the security headers and cookies; `set_cookies` are Set-Cookie values, as foundation.crypto returns them."""
    return with_cookies(_with_headers(response, pages.security_headers(style=brand.style)), set_cookies)


def _with_headers(response: HttpResponse, headers: Iterable[tuple[str, str]]) -> HttpResponse:
    for name, value in headers:
        response.headers.setdefault(name, value)
    return response


def with_cookies(response: HttpResponse, set_cookies: Iterable[str]) -> HttpResponse:
    """Add all Set-Cookie values in order. Django would keep only the last of a name, although path and domain distinguish cookies."""
    for cookie in set_cookies:
        for morsel in SimpleCookie(cookie).values():
            key = morsel.key, morsel["domain"], morsel["path"]
            dict.__setitem__(response.cookies, key[0] if key[0] not in response.cookies else repr(key), morsel)
    return response
