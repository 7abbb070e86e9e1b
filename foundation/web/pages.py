"""HTML pages of ours, rendered the same inside Django and in the data plane; most have no script but the one that rewrites times."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from foundation.web.brand import NO_BRAND, Brand, Links, hash_source
from foundation.web.languages import ENGLISH, catalogue, in_language, number_in, preferred_type
from foundation.web.message import Message
from foundation.web.plain_text import plain_text
from foundation.web.problem_details import PROBLEM, next_step, phrase, problem_document

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
# What is markup already was made by us.
_environment.filters["plain"] = lambda text: text if hasattr(text, "__html__") else plain_text(text)


@jinja2.pass_context
def _gettext(context: jinja2.runtime.Context, text: str) -> str:
    return catalogue(context["language"]).gettext(text)


@jinja2.pass_context
def _ngettext(context: jinja2.runtime.Context, one: str, many: str, number: int) -> str:
    return catalogue(context["language"]).ngettext(one, many, number)


@jinja2.pass_context
def _words(context: jinja2.runtime.Context, said: str) -> str:
    """Message in the page's language.  What a message holds is no markup, so nothing else of a template's may show one."""
    return in_language(said, context["language"])


@jinja2.pass_context
def _number(context: jinja2.runtime.Context, number: int) -> str:
    return number_in(context["language"], number)


# What a template says itself is markup and translated as such; values in it are escaped.
_environment.install_gettext_callables(_gettext, _ngettext, newstyle=True)  # type: ignore[attr-defined]
_environment.filters.update(words=_words, number=_number)
# Of pages, by who frames them, what they load and whose brand they have; a reload may bring another.
MOST_POLICIES = 128
# Where Django serves the folder STATIC, at the authenticate host alone.
STATIC_PATH = "/.gate/static/foundation/"

# The title says what happened to a person who has never heard of status codes.
TITLES = {
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
    """The template as HTML; a name that the template uses and `context` lacks is an error, never an empty place."""
    return _environment.get_template(template).render(language=language, **context).encode()


def fragment(template: str, language: str = ENGLISH, **context: Any) -> Markup:
    """Part of a page, as `render`."""
    return Markup(_environment.get_template(template).render(language=language, **context))


@cache
def static_path(name: str) -> str:
    """Path of a file in STATIC, another one after each change of it: browsers may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]
    return f"{STATIC_PATH}{name}?v={digest}"


def vary(content_type: str) -> str:
    """Vary of an answer that `error_response` made: only pages are in a language."""
    return "Accept, Accept-Language" if content_type == HTML else "Accept"


@dataclass(frozen=True, slots=True)
class PageFiles:
    """Files that a page loads, each by its whole URL: 'self' would let in whatever an application on this host serves.

    `icons` is the folder of its pictures, `target` where its script may send what it has to say.
    """

    script: str = ""
    style: str = ""
    icons: str = ""
    target: str = ""


NO_FILES = PageFiles()


# enforcement-point: Pages: Content Security Policy and other page headers
@lru_cache(maxsize=MOST_POLICIES)
def headers(
    form_targets: str = "'self'",
    framed_by: str = "",
    shows_times: bool = False,
    files: PageFiles = NO_FILES,
    style: str = NO_BRAND.style,
) -> tuple[tuple[str, str], ...]:
    """Response headers of every page of ours.  The one inline style, its brand's, is allowed by its hash.

    `form_targets` is the CSP form-action.  Browsers apply it to the redirects that follow a form, too, so a page whose form may
    end at the identity provider passes "" and has none.  `framed_by` are the origins whose pages may show this one in a frame.
    `shows_times` allows times.js by its hash: 'self' would at a route's host allow every script of the application.
    """
    sources = {
        "default-src": ["'none'"],
        "style-src": [style, files.style],
        "img-src": ["data:", files.icons],
        "base-uri": ["'none'"],
        "frame-ancestors": [framed_by or "'none'"],
        "script-src": [hash_source(TIMES_SCRIPT) if shows_times else "", files.script],
        "connect-src": [files.target],
    }
    policy = "; ".join(" ".join((name, *filter(None, said))) for name, said in sources.items() if any(said))
    if form_targets:
        policy += f"; form-action {form_targets}"
    # X-Frame-Options knows no list; where both are there, browsers go by the policy.
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
    """(content type, body) of an error in the form the client reads best; only a page for people is in their `language`.

    `reason` says why in plain words, `advice` what to do next, `links` are (text, URL) for people; `help_links` come last, and are no
    way on by themselves.
    """
    advice, links = advice or ("" if links else next_step(status)), (*links, *help_links)
    match preferred_type(accept):
        case "json" if PROBLEM in accept.lower():
            return PROBLEM, problem_document(status, reason, request_id)
        case "json":
            return "application/json", json.dumps(
                {"status": status, "error": phrase(status), "reason": reason, "request_id": request_id}, ensure_ascii=True
            ).encode() + b"\n"
        case "html":
            title = TITLES.get(status, phrase(status))
            said = {"title": title, "reason": reason, "advice": advice, "links": links}
            return HTML, render("error.html", language, status=status, request_id=request_id, brand=brand, **said)
        case _:
            lines = [f"{status} {phrase(status)}", reason, advice, *(f"{text}: {url}" for text, url in links), f"request id: {request_id}"]
            return "text/plain; charset=utf-8", "\n".join(line for line in lines if line).encode() + b"\n"
