"""B13 and B37: for any response of the provider, no user is signed in by mistake, and existing sessions continue."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_replay import refused
from tests.attack.identity_stage import ANYONE, Stage, Stages
from tests.attack.identity_tokens import ISSUERS
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.children import wait_until
from tests.support.fake_idp import ABSENT, EC_KEY, OTHER_RSA_KEY, RSA_KEY, Answer, public_jwk, signed
from tests.support.gate import AUTHENTICATE_HOST

DISCOVERY, JWKS = "/.well-known/openid-configuration", "/jwks"
FLOOD = 60
FETCH_INTERVAL = 10.0  # seconds between two fetches of the keys that unknown ones may cause
PATIENCE = 20.0  # seconds; gate asks a provider that failed again after two, and waits for one that is slow for ten
# gate remembers a failure for two seconds: several gates with separate providers wait together.
TOGETHER = 4
_UNDISCOVERED, _UNSEEN = Stages("never discovered", TOGETHER), Stages("no keys seen", TOGETHER)
UNSAFE = (
    "http://evil.example/x", "http://127.0.0.1.evil.example/x", "http://127.0.0.1@evil.example/x", "https://a:b@evil.example/x",
    "file:///etc/passwd",
    "javascript:alert(1)", "//evil.example/x", "/x", "x", "", "https://", "https:///x", "https://evil.example/x#y",
    "https://evil.example/\r\nX: y",
    "https://evil.example/é", "gopher://127.0.0.1/x", "http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", None, 1, True, [], {},
    ["https://evil.example/"],
)  # fmt: skip


@identity_attack("B13", "discovery documents that must not be believed", sample=2, together=TOGETHER, minutes=1.5)
def discovery(stage: Stage) -> Iterator[Attempt]:
    """On a separate gate that has never received a valid one."""
    documents = [(f"issuer {label}", {"issuer": bend}) for label, bend in ISSUERS.items()]
    documents += [(f"{name} {url!r}", {name: url}) for name in ("jwks_uri", "token_endpoint", "authorization_endpoint") for url in UNSAFE]
    documents += [
        (f"algorithms {value!r}", {"id_token_signing_alg_values_supported": value})
        for value in ([], ["none"], ["HS256"], "RS256", None, {})
    ]
    for label, members in documents:
        yield label, partial(_discovered, partial(_bent_document, members))
    for label, answer in _answers():
        yield f"discovery answers {label}", partial(_discovered, partial(_bent_answer, DISCOVERY, answer))


@identity_attack("B13", "keys that must not be believed", sample=2, together=TOGETHER, minutes=2)
def key_sets(stage: Stage) -> Iterator[Attempt]:
    """On a separate gate that has never received valid ones."""
    for label, keys in _key_sets():
        yield f"keys: {label}", partial(_with_keys, Answer.json({"keys": keys}))
    for label, answer in _answers():
        yield f"jwks_uri answers {label}", partial(_with_keys, answer)


@identity_attack("B13", "unknown keys and changed keys", sample=0, minutes=1)
def rotation(stage: Stage) -> Iterator[Attempt]:
    yield f"{FLOOD} unknown kids", partial(_flood, stage)
    yield "a changed key is found", partial(_key_changes, stage)


@identity_attack("B37", "a provider in trouble", sample=30)
def trouble(stage: Stage) -> Iterator[Attempt]:
    for path in ("/token", "/userinfo"):
        for label, answer in _answers(slow=False):
            yield f"{path} answers {label}", partial(_troubled, stage, path, answer)
    for label, tokens in _TOKENS:
        yield f"tokens: {label}", partial(_bent_tokens, stage, tokens)
    for label, userinfo in _USERINFO:
        yield f"userinfo: {label}", partial(_bent_userinfo, stage, userinfo)
    for label, answer in _answers(slow=False):
        yield f"sign-out while everything answers {label}", partial(_sign_out_in_trouble, stage, answer)


@identity_attack("B37", "a slow provider", sample=0)
def slowness(stage: Stage) -> Iterator[Attempt]:
    for path in ("/token", "/userinfo"):
        yield f"{path} takes eleven seconds", partial(_troubled, stage, path, Answer(delay=11.0))


def _answers(*, slow: bool = True) -> Iterator[tuple[str, Answer]]:
    for status in (204, 301, 302, 400, 401, 404, 429, 500, 503):
        yield str(status), Answer(status, b"{}", headers={"Location": "/x"})
    for label, body in (
        ("nothing", b""), ("no JSON", b"<html>"), ("a list", b"[]"), ("null", b"null"), ("text", b'"x"'), ("an empty object", b"{}"),
        ("NaN", b'{"keys": NaN}'),
        ("UTF-16", '{"keys": []}'.encode("utf-16")), ("a deep nest", b"[" * 100_000),
        ("two mebibytes", b'{"x": "' + b"A" * (2 << 20) + b'"}'),
        ("a key twice", b'{"keys": [], "keys": []}'), ("no UTF-8", b'{"x": "\xff"}'),
    ):  # fmt: skip
        yield label, Answer(200, body)
    yield "gzip", Answer(200, b"\x1f\x8b" + b"\x00" * 100, headers={"Content-Encoding": "gzip"})
    if slow:
        yield "after eleven seconds", Answer(200, b"{}", delay=11.0)


def _bent_document(members: dict[str, Any], stage: Stage) -> None:
    stage.bend.discovery = {name: value(stage.idp.issuer) if callable(value) else value for name, value in members.items()}


def _bent_answer(path: str, answer: Answer, stage: Stage) -> None:
    stage.bend.answers = {path: answer}


def _discovered(bend: Callable[[Stage], None]) -> Outcome:
    with _UNDISCOVERED.one() as stage:
        return _discovered_at(stage, bend)


def _discovered_at(stage: Stage, bend: Callable[[Stage], None]) -> Outcome:
    bend(stage)
    before, browser = stage.idp.count(DISCOVERY), stage.browser()
    signed_url = browser.open(stage.url(ANYONE)).location
    try:
        answer = browser.open(signed_url)
        _until(lambda: stage.idp.count(DISCOVERY) > before, lambda: browser.open(signed_url))
        answer = browser.open(signed_url)
    finally:
        stage.provider.straighten()
    expect(answer.status == 503 and not answer.location, f"answered with status {answer.status}, {answer.location!r}")
    return REFUSED


def _with_keys(answer: Answer) -> Outcome:
    with _UNSEEN.one() as stage:
        return _with_keys_at(stage, answer)


def _with_keys_at(stage: Stage, answer: Answer) -> Outcome:
    stage.bend.answers = {JWKS: answer}
    before = stage.idp.count(JWKS)

    def attempt() -> None:
        browser = stage.browser()
        refused(stage, browser, stage.picked(browser))

    try:
        attempt()
        _until(lambda: stage.idp.count(JWKS) > before, attempt)
    finally:
        stage.provider.straighten()
    return REFUSED


def _until(condition: Callable[[], bool], attempt: Callable[[], object]) -> None:
    """Once more and once more: gate remembers a failure for two seconds."""

    def tried() -> bool:
        if condition():
            return True
        attempt()
        return condition()

    wait_until(tried, "a fetch from the provider", PATIENCE)


def _key_sets() -> Iterator[tuple[str, Any]]:
    valid, other = public_jwk(RSA_KEY, "RS256", "key-1"), public_jwk(OTHER_RSA_KEY, "RS256", "key-1")
    small = public_jwk(rsa.generate_private_key(public_exponent=65537, key_size=1024), "RS256", "key-1")
    yield from (
        ("none", []),
        ("null", None),
        ("an object", {"key-1": valid}),
        ("text", "key-1"),
        ("a number", 1),
        ("101 of them", [valid] * 101),
    )
    yield from (
        ("another's", [other]),
        ("two with this id", [valid, other]),
        ("texts", ["key-1"]),
        ("lists", [[valid]]),
    )
    yield from (
        ("another id", [{**valid, "kid": "key-2"}]),
        ("an id that is a number", [{**valid, "kid": 1}]),
        ("an id list", [{**valid, "kid": ["key-1"]}]),
    )
    yield from (
        ("for encryption", [{**valid, "use": "enc"}]),
        ("for another algorithm", [{**valid, "alg": "RS512"}]),
        ("for HMAC", [{**valid, "alg": "HS256"}]),
    )
    yield from (
        ("only to sign", [{**valid, "key_ops": ["sign"]}]),
        ("of 1,024 bits", [small]),
        ("an EC key", [public_jwk(EC_KEY, "ES256", "key-1")]),
    )
    yield from (
        ("a secret", [{"kty": "oct", "k": "AAAA", "kid": "key-1"}]),
        ("no type", [{**valid, "kty": None}]),
        ("a modulus of 1", [{**valid, "n": "AQ"}]),
    )
    yield from (
        ("a modulus that is a number", [{**valid, "n": 5}]),
        ("an exponent of 1", [{**other, "e": "AQ"}]),
        ("no exponent", [{"kty": "RSA", "n": valid["n"]}]),
    )


def _flood(stage: Stage) -> Outcome:
    fetched, started = stage.idp.count(JWKS), time.monotonic()
    for number in range(FLOOD):
        browser = stage.browser()
        url = stage.picked(browser)
        stage.bend.header = {"kid": f"unknown-{number}"}
        refused(stage, browser, url)
    stage.provider.straighten()
    expect(stage.sign_in(stage.browser()).status == 200, "a straight sign-in was refused after the flood")
    fetches, maximum = stage.idp.count(JWKS) - fetched, 2 + (time.monotonic() - started) / FETCH_INTERVAL
    expect(fetches <= maximum, f"{fetches} fetches of the keys")
    return REFUSED


def _key_changes(stage: Stage) -> Outcome:
    """The tokens of a key that is no longer published are refused once the new key was seen."""
    idp = stage.idp
    try:
        idp.signing_key, idp.kid = OTHER_RSA_KEY, "key-2"
        wait_until(lambda: stage.sign_in(stage.browser()).status == 200, "a sign-in with the new key", PATIENCE)
        browser = stage.browser()
        url = stage.picked(browser)
        stage.bend.token = lambda header, claims: signed({**header, "kid": "key-1"}, claims, RSA_KEY, "RS256")
        refused(stage, browser, url)
    finally:
        stage.provider.straighten()
        idp.signing_key, idp.kid = RSA_KEY, "key-1"
        wait_until(lambda: stage.sign_in(stage.browser()).status == 200, "a sign-in with the old key", PATIENCE)
    return ACCEPTED


def _troubled(stage: Stage, path: str, answer: Answer) -> Outcome:
    """No new session, and existing sessions continue."""
    user, browser = stage.browser(), stage.browser()
    stage.sign_in(user)
    url = stage.picked(browser)
    stage.bend.answers = {path: answer}
    try:
        refused(stage, browser, url)
        expect(stage.is_signed_in(user, ANYONE) and stage.is_signed_in(user), "a running session ended")
    finally:
        stage.provider.straighten()
    return REFUSED


def _bent_tokens(stage: Stage, tokens: dict[str, Any]) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser)
    stage.bend.tokens = tokens
    try:
        return refused(stage, browser, url)
    finally:
        stage.provider.straighten()


def _bent_userinfo(stage: Stage, userinfo: dict[str, Any]) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser)
    stage.bend.userinfo = userinfo
    try:
        return refused(stage, browser, url)
    finally:
        stage.provider.straighten()


def _sign_out_in_trouble(stage: Stage, answer: Answer) -> Outcome:
    browser = stage.browser()
    stage.sign_in(browser)
    copy = browser.fork()
    token = browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/")).text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    stage.bend.answers = dict.fromkeys((DISCOVERY, JWKS, "/token", "/userinfo", "/revoke"), answer)
    try:
        signed_out = browser.open(stage.url(AUTHENTICATE_HOST, f"/.gate/signout/?_gate_csrf={token}"))
        expect(signed_out.status in (200, 302), f"answered with status {signed_out.status}")
        expect(not any(stage.is_signed_in(copy, host) for host in (ANYONE, AUTHENTICATE_HOST)), "still signed in")
    finally:
        stage.provider.straighten()
    return REFUSED


_TOKENS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("no ID token", {"id_token": ABSENT}), ("an empty ID token", {"id_token": ""}), ("a null ID token", {"id_token": None}),
    ("an ID token list", {"id_token": ["x"]}),
    ("no access token", {"access_token": ABSENT}), ("an empty access token", {"access_token": ""}),
    ("an access token number", {"access_token": 1}),
    ("another type", {"token_type": "mac"}), ("no type", {"token_type": ABSENT}), ("a type list", {"token_type": ["Bearer"]}),
    ("an access token that does not fit", {"access_token": "another"}), ("an access token with a newline", {"access_token": "a\r\nX: y"}),
    ("an error beside a made-up token", {"error": "invalid_grant", "id_token": json.dumps({})}),
)  # fmt: skip
_USERINFO: tuple[tuple[str, dict[str, Any]], ...] = (
    ("another person", {"sub": "bob"}), ("no person", {"sub": ABSENT}), ("a null person", {"sub": None}),
    ("a person list", {"sub": ["alice"]}),
    ("a person in upper case", {"sub": "ALICE"}), ("a person with a space", {"sub": "alice "}), ("a true person", {"sub": True}),
)  # fmt: skip
