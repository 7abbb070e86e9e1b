"""gate's HTML pages, rendered identically in Django and in the data plane; most have only the script that rewrites times."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from foundation.web.brand import NO_BRAND, Brand, Links, csp_hash
from foundation.web.languages import ENGLISH, catalog, format_number, preferred_media_type, translate
from foundation.web.message import Message
from foundation.web.plain_text import sanitize_text
from foundation.web.problem_details import PROBLEM, default_advice, problem_document, reason_phrase

TEMPLATES = Path(__file__).parents[1] / "templates"
STATIC = Path(__file__).parents[1] / "static"
HTML = "text/html; charset=utf-8"
TIMES_SCRIPT = (STATIC / "times.js").read_text()

_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    extensions=["jinja2.ext.i18n"],
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals.update(brand=NO_BRAND, times_script=TIMES_SCRIPT, shows_times=False)
# Markup is passed through, because only gate creates it.
_environment.filters["plain"] = lambda text: text if hasattr(text, "__html__") else sanitize_text(text)


@jinja2.pass_context
def _gettext(context: jinja2.runtime.Context, text: str) -> str:
    return catalog(context["language"]).gettext(text)


@jinja2.pass_context
def _ngettext(context: jinja2.runtime.Context, one: str, many: str, number: int) -> str:
    return catalog(context["language"]).ngettext(one, many, number)


@jinja2.pass_context
def _translated(context: jinja2.runtime.Context, text: str) -> str:
    """Translate a message into the page's language. Templates must use this filter, because it escapes the message's parameters."""
    return translate(text, context["language"])


@jinja2.pass_context
def _number(context: jinja2.runtime.Context, number: int) -> str:
    return format_number(context["language"], number)


# Text of templates is markup and translated as such; values in it are escaped.
_environment.install_gettext_callables(_gettext, _ngettext, newstyle=True)  # type: ignore[attr-defined]
_environment.filters.update(translate=_translated, number=_number)
# Policies vary by framing origins, assets and brand, and a reload may change the brand.
MAX_POLICIES = 128
# Path of the folder STATIC, which Django serves on the authenticate host only.
STATIC_PATH = "/.gate/static/foundation/"

# Titles for users who do not know HTTP status codes.
ERROR_TITLES = {
    400: Message("Request can't be processed"),
    401: Message("Please sign in"),
    403: Message("You don't have access"),
    404: Message("Page not found"),
    405: Message("Not supported"),
    410: Message("No longer available"),
    426: Message("Newer client required"),
    495: Message("Client certificate required"),
    502: Message("The application can't be reached"),
    503: Message("Temporarily unavailable"),
    504: Message("The application took too long"),
}


def render(template: str, language: str = ENGLISH, **context: Any) -> bytes:
    """Render a template as HTML. Raise jinja2.UndefinedError if `context` lacks a name that it uses."""
    return _environment.get_template(template).render(language=language, **context).encode()


def render_fragment(template: str, language: str = ENGLISH, **context: Any) -> Markup:
    """Render a part of a page."""
    fragment = _environment.get_template(template).render(language=language, **context)
    return Markup(fragment)


@cache
def static_path(name: str) -> str:
    """Return the path of a file in STATIC with a content hash, so that browsers may cache it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]
    return f"{STATIC_PATH}{name}?v={digest}"


def vary_header(content_type: str) -> str:
    """Return the Vary header of an `error_response`; only HTML is translated."""
    return "Accept, Accept-Language" if content_type == HTML else "Accept"


@dataclass(frozen=True, slots=True)
class PageAssets:
    """Full URLs of the files that a page loads; the CSP source 'self' would also allow files of an application on this host.

    `icons` is the folder of its images, `target` the URL that its script may send data to.
    """

    script: str = ""
    style: str = ""
    icons: str = ""
    target: str = ""


NO_ASSETS = PageAssets()


# enforcement-point: Pages: Content Security Policy and other page headers
@lru_cache(maxsize=MAX_POLICIES)
def security_headers(
    form_targets: str = "'self'",
    framed_by: str = "",
    shows_times: bool = False,
    files: PageAssets = NO_ASSETS,
    style: str = NO_BRAND.style,
) -> tuple[tuple[str, str], ...]:
    """Return the security headers of a page. The brand's inline style is allowed by its hash.

    `form_targets` is the CSP form-action. Browsers also apply it to redirects after a form, so a page whose form may lead to the identity
    provider passes "", which omits it. `framed_by` are the origins that may embed the page in a frame. `shows_times` allows times.js by
    its hash, because on a route host 'self' would allow every script of the application.
    """
    sources = {
        "default-src": ["'none'"],
        "style-src": [style, files.style],
        "img-src": ["data:", files.icons],
        "base-uri": ["'none'"],
        "frame-ancestors": [framed_by or "'none'"],
        "script-src": [csp_hash(TIMES_SCRIPT) if shows_times else "", files.script],
        "connect-src": [files.target],
    }
    policy = "; ".join(" ".join((name, *filter(None, values))) for name, values in sources.items() if any(values))
    if form_targets:
        policy += f"; form-action {form_targets}"
    # X-Frame-Options cannot express a list of origins, so only the policy applies.
    frame_options = () if framed_by else (("X-Frame-Options", "DENY"),)
    return (
        ("Content-Security-Policy", policy),
        ("X-Content-Type-Options", "nosniff"),
        *frame_options,
        ("Referrer-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    )


def error_response(
    status: int,
    reason: str,
    request_id: str,
    accept: str,
    *,
    language: str = ENGLISH,
    advice: str = "",
    links: Links = (),
    help_links: Links = (),
    brand: Brand = NO_BRAND,
) -> tuple[str, bytes]:
    """Return (content type, body) of an error in the media type that the client prefers; only HTML uses `language`.

    `advice` is the next step, by default one for the status if there are no `links`. `help_links` are appended to `links`, but do not
    replace the default advice.
    """
    advice, links = advice or ("" if links else default_advice(status)), (*links, *help_links)
    match preferred_media_type(accept):
        case "json" if PROBLEM in accept.lower():
            return PROBLEM, problem_document(status, reason, request_id)
        case "json":
            return "application/json", json.dumps(
                {"status": status, "error": reason_phrase(status), "reason": reason, "request_id": request_id}, ensure_ascii=True
            ).encode() + b"\n"
        case "html":
            title = ERROR_TITLES.get(status, reason_phrase(status))
            texts = {"title": title, "reason": reason, "advice": advice, "links": links}
            return HTML, render("error.html", language, status=status, request_id=request_id, brand=brand, **texts)
        case _:
            lines = [
                f"{status} {reason_phrase(status)}",
                reason,
                advice,
                *(f"{text}: {url}" for text, url in links),
                f"request id: {request_id}",
            ]
            return "text/plain; charset=utf-8", "\n".join(line for line in lines if line).encode() + b"\n"
