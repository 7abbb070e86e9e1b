"""B11: can anybody but the person themselves sign them out?"""

import json
from collections.abc import Iterator
from functools import partial
from itertools import product

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Answer, Browser, Headers
from tests.attack.identity_stage import ANYONE, Stage
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, expect, not_built
from tests.support.gate import AUTHENTICATE_HOST

PATHS = ("/.gate/signout/", "/.gate/signout", "/.gate/sign_out", "/.gate/sign_out/")
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH")
CARRIERS = ("query", "form", "header", "json", "multipart", "cookie")
# Where a valid token of the person's own works, and where not even that one does.
WORKING = {("GET", "query"), ("POST", "query"), ("POST", "form"), ("GET", "header"), ("POST", "header"), ("POST", "multipart")}
FOREIGN = (("Origin", "https://evil.example"), ("Referer", "https://evil.example/"), ("Sec-Fetch-Site", "cross-site"))
OVERRIDES = ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override")


@identity_attack("B11", "sign-out by another user", sample=100)
def sign_out(stage: Stage) -> Iterator[Attempt | Case]:
    user = User(stage)
    for token, method, carrier, path in product(_TOKENS, METHODS, CARRIERS, PATHS):
        yield f"{method} {path} with {token} in the {carrier}", partial(user.stays, token, method, carrier, path)
    for method, carrier, path in product(METHODS, CARRIERS, PATHS):
        if (method, carrier) not in WORKING:
            yield f"{method} {path} with the person's own token in the {carrier}", partial(user.stays, "own", method, carrier, path)
    for override, pretended, path in product(OVERRIDES, ("POST", "GET", "DELETE"), PATHS):
        for method in ("GET", "HEAD", "OPTIONS", "PUT"):
            yield (
                f"{method} {path} as {override}: {pretended}",
                partial(user.stays, "none", method, "query", path, ((override, pretended),)),
            )
    for method, path in product(METHODS, PATHS):
        yield f"{method} {path} at a route host", partial(user.stays_at_a_route, method, path)
    for method, carrier in sorted(WORKING):
        yield f"{method} with the person's own token in the {carrier} works", partial(_own_token_works, stage, method, carrier)
    yield not_built("a token older than twelve hours: no clock to turn from outside; tests/unit holds it")


class User:
    """Signed in, with other people's tokens around."""

    def __init__(self, stage: Stage):
        self._stage = stage
        self._browser = stage.browser()
        self._tokens: dict[str, str] = {}

    def stays(self, token: str, method: str, carrier: str, path: str, more: Headers = ()) -> Outcome:
        self._be_signed_in()
        copy = self._browser.fork()
        if token == "a token whose cookie is lost":
            copy.cookies[AUTHENTICATE_HOST].pop("__Host-_gate_csrf", None)
        if token == "a token beside its own planted cookie":
            # A sibling domain can plant the cookie that belongs to its token; both are bound to another session.
            copy.cookies[AUTHENTICATE_HOST]["__Host-_gate_csrf"] = self._tokens["planted cookie"]
        answer = send(copy, self._stage.url(AUTHENTICATE_HOST, path), method, carrier, self._tokens[token], (*FOREIGN, *more))
        return self._is_still_signed_in(answer)

    def stays_at_a_route(self, method: str, path: str) -> Outcome:
        self._be_signed_in()
        return self._is_still_signed_in(send(self._browser, self._stage.url(ANYONE, path), method, "query", self._tokens["own"], FOREIGN))

    def _is_still_signed_in(self, answer: Answer) -> Outcome:
        expect(answer.status < 500, f"answered with status {answer.status}")
        expect(not any(line.startswith("_gate=") for line in answer.set_cookies), "the session cookie was touched")
        for host in (ANYONE, AUTHENTICATE_HOST):
            if not self._stage.is_signed_in(self._browser, host):
                self._tokens.clear()
                expect(False, f"signed out at {host}")
        return REFUSED

    def _be_signed_in(self) -> None:
        if self._tokens:
            return
        stage = self._stage
        former, other, anonymous = stage.browser(), stage.browser(), stage.browser()
        stage.sign_in(former)
        stage.sign_in(other, "bob")
        stage.sign_in(self._browser)
        own = token_of(stage, self._browser)
        self._tokens = {
            "own": own,
            "none": "",
            "a made-up token": "A" * 86,
            "a shortened token": own[:-4],
            "a token with a bent end": own[:-1] + ("A" if own[-1] != "A" else "E"),
            "its two halves swapped": own[43:] + own[:43],
            "a token of zeros": "A" * 85 + "A",
            "another person's token": token_of(stage, other),
            "the token of a former session": token_of(stage, former),
            "a token of an ended session": token_of(stage, anonymous, "/.gate/signout/"),
            "a token whose cookie is lost": own,
            "a token beside its own planted cookie": token_of(stage, other),
            "planted cookie": other.cookies[AUTHENTICATE_HOST]["__Host-_gate_csrf"],
            "the cookie's own value": self._browser.cookies[AUTHENTICATE_HOST]["__Host-_gate_csrf"],
            "the session cookie's value": self._browser.cookies[AUTHENTICATE_HOST]["_gate"],
            "something that is no text": "%ff%fe%00",
        }


_TOKENS = (
    "none", "a made-up token", "a shortened token", "a token with a bent end", "its two halves swapped", "a token of zeros",
    "another person's token",
    "the token of a former session", "a token of an ended session", "a token whose cookie is lost", "a token beside its own planted cookie",
    "the cookie's own value", "the session cookie's value", "something that is no text",
)  # fmt: skip


def token_of(stage: Stage, browser: Browser, path: str = "/.gate/") -> str:
    page = browser.open(stage.url(AUTHENTICATE_HOST, path))
    return page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]


def send(browser: Browser, url: str, method: str, carrier: str, token: str, more: Headers = ()) -> Answer:
    headers, body = [*HTML, *more], ""
    if carrier == "query":
        url += f"?_gate_csrf={token}"
    elif carrier == "header":
        headers.append(("X-CSRF-Token", token))
    elif carrier == "cookie":
        headers.append(("Cookie", f"_gate_csrf_token={token}; csrftoken={token}; X-CSRF-Token={token}"))
    else:
        content_type, body = _body(carrier, token)
        headers.append(("Content-Type", content_type))
    return browser.open(url, method=method, headers=headers, body=body)


def _body(carrier: str, token: str) -> tuple[str, str]:
    if carrier == "form":
        return "application/x-www-form-urlencoded", f"_gate_csrf={token}"
    if carrier == "json":
        return "application/json", json.dumps({"_gate_csrf": token})
    field = f'--b\r\nContent-Disposition: form-data; name="_gate_csrf"\r\n\r\n{token}\r\n--b--\r\n'
    return "multipart/form-data; boundary=b", field


def _own_token_works(stage: Stage, method: str, carrier: str) -> Outcome:
    """Else every refusal above would mean nothing."""
    browser = stage.browser()
    stage.sign_in(browser)
    answer = send(browser, stage.url(AUTHENTICATE_HOST, "/.gate/signout/"), method, carrier, token_of(stage, browser))
    expect(answer.status in (200, 302), f"answered with status {answer.status}")
    expect(not any(stage.is_signed_in(browser, host) for host in (ANYONE, AUTHENTICATE_HOST)), "still signed in")
    return ACCEPTED
