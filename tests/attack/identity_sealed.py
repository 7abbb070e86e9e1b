"""B46 and B15: our own cookies and tokens, with any bit flipped, cut, spelled otherwise, or used for another purpose."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations, product

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Browser
from tests.attack.identity_replay import refused
from tests.attack.identity_stage import ANYONE, CORP, OTHER, Stage
from tests.attack.run import ACCEPTED, REFUSED, SEED, Outcome, expect
from tests.support.cookies import BINDING, SESSION
from tests.support.gate import AUTHENTICATE_HOST

HOSTS = (ANYONE, OTHER, CORP, AUTHENTICATE_HOST)
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LIVE_TOKENS = 20  # of other links each case costs a sign-in, so not every position


@identity_attack("B46", "bent session cookies", sample=300)
def session_cookies(stage: Stage) -> Iterator[Attempt]:
    cookie = Cookie(stage)
    for host in (ANYONE, AUTHENTICATE_HOST):
        value = cookie.value(host)
        for label, bent in spellings(value):
            yield f"{host}: {label}", partial(cookie.refused, host, bent)
    for name in ("_GATE", "_gate_0", "_gate_1", "__Host-_gate", "__Secure-_gate", "_gat%65", '"_gate"', "_gate_admin", "_gate_csrf"):
        yield f"under the name {name}", partial(cookie.refused, ANYONE, cookie.value(ANYONE), name)
    for owner, place in permutations(HOSTS, 2):
        yield f"the cookie of {owner} at {place}", partial(cookie.refused, place, cookie.value(owner))
    for purpose, place in product(_PURPOSES, HOSTS):
        yield f"{purpose} as a session at {place}", partial(cookie.refused_other, place, purpose)
    for scheme, host in product(("Gate ", "Bearer Gate-", "Bearer ", "gate ", "Basic "), (ANYONE, OTHER)):
        yield f"the cookie of {AUTHENTICATE_HOST} as '{scheme}' at {host}", partial(cookie.refused_bearer, host, scheme)
    for host in HOSTS:
        yield f"the cookie of {host} itself", partial(cookie.accepted, host)


@identity_attack("B46", "bent links and attempts", sample=40)
def links(stage: Stage) -> Iterator[Attempt]:
    """The signed sign-in link, the provider's attempt, the route's attempt and the handoff; each case is a new sign-in."""
    chance = random.Random(SEED)
    for place in (_sign_in_link, _provider_attempt, _route_attempt, _handoff, _csrf_cookie):
        for number in range(LIVE_TOKENS):
            yield f"{place.__name__.strip('_')} bent, {number}", partial(place, stage, partial(_one_bit, chance.random()))
        for label, bend in _CUTS:
            yield f"{place.__name__.strip('_')} {label}", partial(place, stage, bend)


class Cookie:
    """One person's session, signed in at every host."""

    def __init__(self, stage: Stage):
        self._stage = stage
        self._browser = stage.browser()
        self._answered = 0
        for host in HOSTS[:-1]:
            stage.sign_in(self._browser, "alice", host) if host == ANYONE else self._go_to(host)
        stage.is_signed_in(self._browser)
        self._other = _values_of_other_purposes(stage)

    def value(self, host: str) -> str:
        return self._browser.cookies[host][SESSION]

    def refused(self, host: str, value: str, name: str = "_gate") -> Outcome:
        browser = self._stage.browser()
        # Its binding cookie is right, so that nothing but the value is wrong.
        browser.cookies[host] = {BINDING: self._browser.cookies[host][BINDING], name: value}
        return self._refused(browser, host)

    def refused_other(self, host: str, purpose: str) -> Outcome:
        return self.refused(host, self._other[purpose])

    def refused_bearer(self, host: str, scheme: str) -> Outcome:
        credentials = ("Authorization", scheme + self.value(AUTHENTICATE_HOST))
        return self._refused(self._stage.browser(), host, credentials)

    def accepted(self, host: str) -> Outcome:
        browser = self._stage.browser()
        browser.cookies[host] = {name: self._browser.cookies[host][name] for name in (SESSION, BINDING)}
        expect(self._stage.is_signed_in(browser, host), "refused")
        return ACCEPTED

    def _refused(self, browser: Browser, host: str, *more: tuple[str, str]) -> Outcome:
        hits = self._stage.upstream.hits
        path = "/.gate/" if host == AUTHENTICATE_HOST else "/"
        answer = browser.open(self._stage.url(host, path), headers=(*HTML, *more))
        expect(answer.status in (302, 400, 401), f"answered with status {answer.status}")
        expect(self._stage.upstream.hits == hits, "an upstream was asked")
        return REFUSED

    def _go_to(self, host: str) -> None:
        answer = self._browser.open(self._stage.url(host))
        while answer.location:
            answer = self._browser.open(answer.location)


_PURPOSES = ("csrf cookie", "provider attempt", "route attempt", "handoff", "csrf token", "signature", "state", "code")


def _values_of_other_purposes(stage: Stage) -> dict[str, str]:
    browser = stage.browser()
    signed_url = browser.open(stage.url(ANYONE)).location
    route_attempt = _attempt(browser, ANYONE)[1]
    callback_url = stage.idp.pick(browser.open(signed_url).location, "alice")
    provider_attempt = _attempt(browser, AUTHENTICATE_HOST)[1]
    handoff = browser.open(callback_url).location.partition("gate_session=")[2]
    page = browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/"))
    return {
        "csrf cookie": browser.cookies[AUTHENTICATE_HOST]["__Host-_gate_csrf"],
        "provider attempt": provider_attempt,
        "route attempt": route_attempt,
        "handoff": handoff,
        "csrf token": page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0],
        "signature": signed_url.partition("gate_signature=")[2],
        "state": callback_url.partition("state=")[2].partition("&")[0],
        "code": callback_url.partition("code=")[2].partition("&")[0],
    }


def spellings(value: str) -> Iterator[tuple[str, str]]:
    """Every bit of the sealed bytes flipped, every length cut, and the same bytes spelled in other ways."""
    sealed = _bytes(value)
    for position, bit in product(range(len(sealed)), range(8)):
        bent = bytearray(sealed)
        bent[position] ^= 1 << bit
        yield f"bit {bit} of byte {position}", _text(bytes(bent))
    for length in range(len(sealed)):
        yield f"the first {length} bytes", _text(sealed[:length])
        yield f"without the first {length + 1} bytes", _text(sealed[length + 1 :])
    for length in range(16):
        yield f"a tag of {length} bytes", _text(sealed[:-16] + sealed[-16:][:length])
        yield f"a tag of {length} bytes and zeros", _text(sealed[:-16] + sealed[-16:][:length].ljust(16, b"\0"))
    for position in range(len(value)):
        yield f"a letter less at {position}", value[:position] + value[position + 1 :]
        yield f"a letter more at {position}", f"{value[:position]}A{value[position:]}"
    yield from _same_bytes(value)
    yield from (
        ("JSON", json.dumps({"sid": "x"})),
        ("a JWT", "eyJhbGciOiJub25lIn0.e30."),
        ("zeros", _text(bytes(len(sealed)))),
        ("8 KiB", "A" * 8192),
        ("twice", value * 2),
    )


def _same_bytes(value: str) -> Iterator[tuple[str, str]]:
    last = ALPHABET.index(value[-1])
    if len(value) % 4:  # the last letter has bits that no byte uses
        for unused in (1, 2, 3):
            yield f"with unused bits {unused}", value[:-1] + ALPHABET[last ^ unused]
    yield "padded", value + "=" * (-len(value) % 4 or 4)
    yield "with a newline escaped", value + "%0A"
    yield "percent-encoded", "".join(f"%{ord(letter):02X}" for letter in value)
    yield "in quotes", f'"{value}"'
    yield "in upper case", value.upper()
    yield "in standard base64", base64.b64encode(_bytes(value) + b"\xff\xff\xff").decode()


def _one_bit(where: float, value: str) -> str:
    sealed = bytearray(_bytes(value))
    position = int(where * len(sealed))
    sealed[position] ^= 1 << int(where * 1e6) % 8
    return _text(bytes(sealed))


_CUTS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("empty", lambda value: ""),
    ("halved", lambda value: value[: len(value) // 2]),
    ("one letter short", lambda value: value[:-1]),
    ("one letter long", lambda value: value + "A"),
    ("without its tag", lambda value: _text(_bytes(value)[:-16])),
    ("with a tag of zeros", lambda value: _text(_bytes(value)[:-16] + bytes(16))),
    ("reversed", lambda value: value[::-1]),
    ("twice", lambda value: value * 2),
)


def _sign_in_link(stage: Stage, bend: Callable[[str], str]) -> Outcome:
    browser = stage.browser()
    base, _, signature = browser.open(stage.url(ANYONE)).location.partition("gate_signature=")
    answer = browser.open(f"{base}gate_signature={bend(signature)}")
    expect(answer.status == 400 and not answer.location, f"answered with status {answer.status}")
    return REFUSED


def _provider_attempt(stage: Stage, bend: Callable[[str], str]) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser)
    name, value = _attempt(browser, AUTHENTICATE_HOST)
    browser.cookies[AUTHENTICATE_HOST][name] = bend(value)
    return refused(stage, browser, url)


def _route_attempt(stage: Stage, bend: Callable[[str], str]) -> Outcome:
    browser = stage.browser()
    url = browser.open(stage.picked(browser)).location
    name, value = _attempt(browser, ANYONE)
    browser.cookies[ANYONE][name] = bend(value)
    return _no_handoff(stage, browser, url)


def _handoff(stage: Stage, bend: Callable[[str], str]) -> Outcome:
    browser = stage.browser()
    base, _, token = browser.open(stage.picked(browser)).location.partition("gate_session=")
    return _no_handoff(stage, browser, f"{base}gate_session={bend(token)}")


def _no_handoff(stage: Stage, browser: Browser, url: str) -> Outcome:
    answer = browser.open(url)
    expect(answer.status == 400, f"answered with status {answer.status}")
    expect(browser.open(stage.url(ANYONE)).status == 302, "signed in")
    return REFUSED


def _csrf_cookie(stage: Stage, bend: Callable[[str], str]) -> Outcome:
    browser = stage.browser()
    stage.sign_in(browser)
    page = browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/"))
    token = page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    jar = browser.cookies[AUTHENTICATE_HOST]
    jar["__Host-_gate_csrf"] = bend(jar["__Host-_gate_csrf"])
    answer = browser.open(stage.url(AUTHENTICATE_HOST, f"/.gate/signout/?_gate_csrf={token}"))
    expect(answer.status == 400 and stage.is_signed_in(browser, ANYONE), f"answered with status {answer.status}")
    return REFUSED


def _attempt(browser: Browser, host: str) -> tuple[str, str]:
    return next((name, value) for name, value in browser.cookies[host].items() if name.startswith("__Host-_gate_signin_"))


def _bytes(value: str) -> bytes:
    return base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))


def _text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()
