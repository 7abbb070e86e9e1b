"""B28, B29 and B30: our pages and our log, fed with markup, line ends and secrets through everything that a person or provider can say."""

import json
import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from itertools import product
from typing import Any
from urllib.parse import quote

from foundation.web.pages import TIMES_SCRIPT
from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, JSON, Answer, Browser, Headers
from tests.attack.identity_handoff import sign_out
from tests.attack.identity_stage import ANN, ANYONE, MOVED, OTHER, PUBLIC, Stage, new_user
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.children import wait_until
from tests.support.fake_idp import CLIENT_SECRET
from tests.support.gate import AUTHENTICATE_HOST

MARKUP = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"><svg onload=alert(1)>", "' onmouseover='alert(1)",
    "</title><script>alert(1)</script>",
    "</style><script>alert(1)</script>", "javascript:alert(1)", "{{7*7}}", "{% raw %}", "${7*7}", "<!--", "]]>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "\u2028<script>alert(1)</script>", "\u202egnp.exe", "＜script＞alert(1)＜/script＞", "<a href=//evil.example>x</a>",
    "<form action=//evil.example>", "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>", "\x1b[31m\x07", "a\r\nSet-Cookie: evil=1", "\U000e0001", "<" * 3000,
)  # fmt: skip
CLAIMS = ("name", "email", "given_name", "preferred_username", "groups", "picture", "the name of a claim")
LOG_TEXTS = (
    "\n{\"event\": \"forged\"}", "\r\n{\"event\": \"forged\"}", "\u2028{\"event\": \"forged\"}", "\u0085forged", "\x1b[2J",
    '", "outcome": "allowed', "\\", "\x00", "\U0001f600",
    "\ufeff", "%0a%0d", "\x7f", "\t", "'\"`", "{}{}", "%s%d%n", "\x0b\x0c", "A" * 3000,
)  # fmt: skip
_TAGS = frozenset(
    {"html", "head", "meta", "title", "link", "style", "body", "header", "svg", "path", "main", "section", "span", "h1", "h2", "p", "a",
     "div", "form", "input", "button", "table", "tr", "th", "td", "code", "ul", "li", "footer", "time",
     "b", "bdi", "br", "details", "em", "h3", "i", "kbd", "label", "nav", "small", "strong", "summary"}
)  # fmt: skip
# gate's script: a complete URL without foreign parts.
_OWN_SCRIPT = re.compile(r"/\.gate/static/foundation/portal\.js\?v=[0-9a-f]{16}")


@identity_attack("B30", "markup in claims and links", sample=60)
def markup(stage: Stage) -> Iterator[Attempt]:
    for claim, text in product(CLAIMS, MARKUP):
        yield f"{claim} {text[:40]!r}", partial(_markup_in_claim, stage, claim, text)
    for (label, host, path), text in product(_ECHOES, MARKUP):
        yield f"{label} {text[:40]!r}", partial(_markup_in_link, stage, host, path, text)
    for header, text in product(("Host", "Referer", "User-Agent", "Origin", "X-Request-Id", "Accept", "Accept-Language"), MARKUP):
        yield f"{header} {text[:40]!r}", partial(_markup_in_header, stage, header, text)


@identity_attack("B29", "answers that a cache must not keep", sample=150)
def caching(stage: Stage) -> Iterator[Attempt]:
    people: dict[str, Browser] = {}
    for user_name, host, path, accept in product(("nobody", "somebody"), (AUTHENTICATE_HOST, ANYONE, ANN, OTHER), _PATHS, (HTML, JSON)):
        yield f"{user_name}, {accept[0][1]}, {host}{path}", partial(_not_cacheable, stage, people, user_name, host, path, accept)


@identity_attack("B28", "the log", sample=40)
def logs(stage: Stage) -> Iterator[Attempt]:
    for place, text in product(("path", "query", "User-Agent", "Referer", "Host", "claim", "state", "error", "Cookie"), LOG_TEXTS):
        yield f"{place} {text[:30]!r}", partial(_logged, stage, place, text)
    for number in range(10):
        yield f"no secret of sign-in {number}", partial(_no_secret, stage)


_ECHOES = (
    ("an unknown path", AUTHENTICATE_HOST, "/.gate/{}"), ("a path of a route's pages", ANYONE, "/.gate/{}"), ("a path", ANYONE, "/{}"),
    ("an error", AUTHENTICATE_HOST, "/oauth2/callback?state=x&error={}&error_description={}&error_uri={}"),
    ("a state", AUTHENTICATE_HOST, "/oauth2/callback?state={}"),
    ("a sign-in link", AUTHENTICATE_HOST, "/.gate/sign_in?gate_redirect_uri={}&gate_signature={}"),
    ("a target after sign-out", AUTHENTICATE_HOST, "/.gate/signout/?gate_redirect_uri={}"),
    ("an admin's target", AUTHENTICATE_HOST, "/.gate/admin/login/?next=/.gate/admin/{}"),
    ("a handoff", ANYONE, "/.gate/callback/?gate_session={}"), ("a moved path", MOVED, "/{}"),
)  # fmt: skip


def _markup_in_claim(stage: Stage, claim: str, text: str) -> Outcome:
    claims: dict[str, Any] = {text: "x"} if claim == "the name of a claim" else {claim: [text] if claim == "groups" else text}
    sub = new_user(**{"email": "eve@evil.example", **claims})
    browser = stage.browser()
    stage.sign_in(browser, sub)
    for url in (
        stage.url(AUTHENTICATE_HOST, "/.gate/"),
        stage.url(AUTHENTICATE_HOST, "/.gate/admin/login/"),
        stage.url(ANN),
        stage.url(ANYONE, "/.gate/nothing"),
    ):
        answer = browser.open(url)
        for _ in range(3):
            answer = browser.open(answer.location) if answer.location else answer
        _harmless(answer)
    return REFUSED


def _markup_in_link(stage: Stage, host: str, path: str, text: str) -> Outcome:
    _harmless(stage.browser().open(stage.url(host, path.replace("{}", quote(text, safe="")))))
    return REFUSED


def _markup_in_header(stage: Stage, header: str, text: str) -> Outcome:
    value = re.sub(r"[\r\n\x00]", "", text)
    for host, path in ((ANYONE, "/"), (AUTHENTICATE_HOST, "/.gate/signout/"), (ANYONE, "/.gate/nothing")):
        headers = HTML if header == "Host" else (*HTML, (header, value))
        _harmless(stage.browser().open(stage.url(host, path), headers=headers, host=value if header == "Host" else None))
    return REFUSED


def _harmless(answer: Answer) -> None:
    expect(answer.status < 500, f"answered with status {answer.status} at {answer.url[:200]}")
    expect(not any("evil=1" in line for line in answer.set_cookies), "a header was injected")
    if not answer.header("content-type").startswith("text/html"):
        return
    policy = answer.header("content-security-policy")
    expect(
        "default-src" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy,
        f"policy {policy!r} at {answer.url[:200]}",
    )
    expect(answer.header("x-content-type-options") == "nosniff" and answer.header("referrer-policy"), f"headers {answer.raw.headers}")
    page = _Page()
    page.feed(answer.text.replace(f"<script>{TIMES_SCRIPT}</script>", ""))
    expect(not page.strange, f"markup in the page at {answer.url[:200]}: {page.strange[:5]}")


# Targets of gate's buttons other than their form's.
_BUTTONS = ("/.gate/refresh", "/.gate/signout/", "/.gate/portal")


class _Page(HTMLParser):
    """`strange` is what our own templates never write."""

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = {name: value or "" for name, value in attributes}
        is_own_script = tag == "script" and _OWN_SCRIPT.fullmatch(names.get("src", "")) is not None
        if not (tag in _TAGS or is_own_script) or any(name.startswith("on") or name in ("style", "srcdoc", "http-equiv") for name in names):
            self.strange.append(self.get_starttag_text() or tag)
        if names.get("formaction", _BUTTONS[0]) not in _BUTTONS:
            self.strange.append(f"formaction={names['formaction']}")
        for name in ("href", "action", "src"):
            url = names.get(name, "/")
            if not re.match(r"(https://[a-z]+\.localhost:[0-9]+)?(/(?![/\\\\])|$)|data:image/svg", url):
                self.strange.append(f"{name}={url}")

    def handle_comment(self, data: str) -> None:
        self.strange.append(f"<!--{data}")


_PATHS = (
    "/", "/.gate/", "/.gate", "/.gate/x.css", "/.gate/signout/", "/.gate/sign_out", "/.gate/sign_in", "/.gate/jwt", "/.gate/jwt/x.js",
    "/.gate/callback/", "/.gate/callback/x.png",
    "/.gate/admin/", "/.gate/admin/login/", "/.gate/admin/login/x.css", "/oauth2/callback", "/oauth2/callback/x.css",
    "/oauth2/callback?state=x&code=y", "/.gate/?x.css", "/.gate/%2e/x.css",
    "/.gate/;x.css", "/.gate/nothing.ico", "/private.css",
)  # fmt: skip


def _not_cacheable(stage: Stage, people: dict[str, Browser], user_name: str, host: str, path: str, accept: Headers) -> Outcome:
    if user_name == "somebody" and user_name not in people:
        people[user_name] = stage.browser()
        stage.sign_in(people[user_name], "alice", ANYONE)
    browser = people[user_name] if user_name == "somebody" else stage.browser()
    hits = stage.upstream.hits
    answer = browser.open(stage.url(host, path), headers=accept)
    if stage.upstream.hits > hits:
        expect("public" not in answer.header("cache-control"), "an application's answer was made cacheable")
        return ACCEPTED
    control = answer.header("cache-control")
    is_about_people = answer.status in range(200, 404)
    expect(not is_about_people or "no-store" in control or "private" in control, f"status {answer.status} with Cache-Control {control!r}")
    expect("public" not in control, f"Cache-Control {control!r}")
    return REFUSED


def _logged(stage: Stage, place: str, text: str) -> Outcome:
    """For any input, each line of the log is one JSON object, and a request to a route has exactly one."""
    before = len(stage.gate.child.lines)
    browser, plain = stage.browser(), re.sub(r"[\r\n\x00]", " ", text)
    encoded = quote(text, safe="", errors="surrogatepass")
    if place in ("path", "query"):
        browser.open(stage.url(PUBLIC, f"/{encoded}" if place == "path" else f"/?{encoded}"))
    elif place == "claim":
        stage.sign_in(browser, new_user(name=text, email=f"{text}@evil.example", groups=[text]))
    elif place in ("state", "error"):
        browser.open(stage.url(AUTHENTICATE_HOST, f"/oauth2/callback?{place}={encoded}&code={encoded}"))
    else:
        headers = HTML if place == "Host" else (*HTML, (place, plain))
        browser.open(stage.url(PUBLIC), headers=headers, host=plain if place == "Host" else None)
    answer = browser.open(stage.url(PUBLIC, "/the-end"))
    request_id = answer.header("x-request-id")
    if request_id:
        wait_until(lambda: any(request_id in line for line in stage.gate.child.lines[before:]), "the last line of the log")
    for line in stage.gate.child.lines[before:]:
        entry = _parsed(line)
        expect(entry is not None and entry.get("event") != "forged", f"the log has the line {line[:300]!r}")
    return REFUSED


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _no_secret(stage: Stage) -> Outcome:
    before = len(stage.gate.child.lines)
    browser = stage.browser()
    url = stage.picked(browser, "alice", ANYONE, "/?password=hunter2-secret")
    answer = browser.open(url)
    secrets = [url.partition("code=")[2].partition("&")[0], answer.location.partition("gate_session=")[2], "hunter2-secret", CLIENT_SECRET]
    browser.open(browser.open(answer.location).location)
    secrets += [value for jar in browser.cookies.values() for value in jar.values() if len(value) > 30]
    forms = [request.form for request in stage.idp.requests[-6:]]
    secrets += [form["code_verifier"] for form in forms if "code_verifier" in form]
    secrets += [
        request.headers["authorization"].partition(" ")[2] for request in stage.idp.requests[-6:] if "authorization" in request.headers
    ]
    secrets += [str(stage.gate.builder.settings[name]) for name in ("cookie_secret", "shared_secret")]
    sign_out(stage, browser)
    expect(len(secrets) > 8, "the attack knows too few secrets")
    log = "\n".join(stage.gate.child.lines[before:])
    expect(log, "nothing was logged")
    expect(not [secret for secret in secrets if secret in log], "a secret is in the log")
    return REFUSED
