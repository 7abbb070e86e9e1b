"""HTML pages of ours, rendered the same inside Django and in the data plane; most have no script but the one that rewrites times."""

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from foundation.web.next_steps import next_step
from foundation.web.plain_text import plain_text
from foundation.web.problems import PROBLEM, phrase, problem_document
from foundation.web.site_facts import Links

TEMPLATES = Path(__file__).parents[1] / "templates"
STATIC = Path(__file__).parents[1] / "static"
STYLESHEET = (TEMPLATES / "gate.css").read_text()
TIMES_SCRIPT = (STATIC / "times.js").read_text()

_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_environment.globals.update(stylesheet=STYLESHEET, times_script=TIMES_SCRIPT, shows_times=False)
# What is markup already was made by us.
_environment.filters["plain"] = lambda text: text if hasattr(text, "__html__") else plain_text(text)
# Where Django serves the folder STATIC, at the authenticate host alone.
STATIC_PATH = "/.gate/static/foundation/"

# The title says what happened to a person who has never heard of status codes.
TITLES = {
    400: "This request can't be answered",
    401: "Please sign in",
    403: "You don't have access",
    404: "Nothing is here",
    405: "Not possible here",
    410: "This is no longer here",
    426: "Please use a newer client",
    495: "A client certificate is needed",
    502: "The application can't be reached",
    503: "Not available right now",
    504: "The application took too long",
}


def render(template: str, **context: Any) -> bytes:
    """The template as HTML; a name that the template uses and `context` lacks is an error, never an empty place."""
    return _environment.get_template(template).render(**context).encode()


def fragment(template: str, **context: Any) -> Markup:
    """Part of a page, as `render`."""
    return Markup(_environment.get_template(template).render(**context))


@cache
def static_path(name: str) -> str:
    """Path of a file in STATIC, another one after each change of it: browsers may keep it."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:16]
    return f"{STATIC_PATH}{name}?v={digest}"


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


@cache
def headers(
    form_targets: str = "'self'", framed_by: str = "", shows_times: bool = False, files: PageFiles = NO_FILES
) -> tuple[tuple[str, str], ...]:
    """Response headers of every page of ours.  The one inline style is allowed by its hash.

    `form_targets` is the CSP form-action.  Browsers apply it to the redirects that follow a form, too, so a page whose form may
    end at the identity provider passes "" and has none.  `framed_by` are the origins whose pages may show this one in a frame.
    `shows_times` allows times.js by its hash: 'self' would at a route's host allow every script of the application.
    """
    sources = {
        "default-src": ["'none'"],
        "style-src": [_hash(STYLESHEET), files.style],
        "img-src": ["data:", files.icons],
        "base-uri": ["'none'"],
        "frame-ancestors": [framed_by or "'none'"],
        "script-src": [_hash(TIMES_SCRIPT) if shows_times else "", files.script],
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


def _hash(inline: str) -> str:
    """CSP source (CSP 3, 2.3.1) of what stands in a page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


def preferred_type(accept: str) -> str:
    """ "html", "json" or "text": the media type that this client would rather read (RFC 9110 12.5.1, the most wanted of the three)."""
    best, best_weight = "text", 0.0
    for item in accept.lower().split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        kind = {"text/html": "html", "application/xhtml+xml": "html", "application/json": "json"}.get(media_type)
        if kind is None and media_type.startswith("application/") and media_type.endswith("+json"):
            kind = "json"
        weight = _weight(parameters)
        if kind and weight > best_weight:
            best, best_weight = kind, weight
    return best


def _weight(parameters: list[str]) -> float:
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return float(parameter[2:])
            except ValueError:
                return 0.0
    return 1.0


def error_response(
    status: int, reason: str, request_id: str, accept: str, *, advice: str = "", links: Links = (), help_links: Links = ()
) -> tuple[str, bytes]:
    """(content type, body) of an error in the form the client reads best.

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
            body = render("error.html", status=status, title=title, reason=reason, advice=advice, links=links, request_id=request_id)
            return "text/html; charset=utf-8", body
        case _:
            lines = [f"{status} {phrase(status)}", reason, advice, *(f"{text}: {url}" for text, url in links), f"request id: {request_id}"]
            return "text/plain; charset=utf-8", "\n".join(line for line in lines if line).encode() + b"\n"
