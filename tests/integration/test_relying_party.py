"""A provider that misbehaves, in each way that the tests of OpenID relying parties and RFC 9700 name: no user is signed in by mistake.

Every refusal is explained on a page, and in the log under the request id of that page; the next straight sign-in works.
"""

import asyncio
import itertools
import json
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.attack.identity_browser import HTML, Browser
from tests.attack.identity_browser import Answer as Page
from tests.attack.identity_stage import ANYONE, Stage, staged
from tests.support.children import wait_until
from tests.support.fake_idp import (
    ABSENT,
    CLIENT_SECRET,
    DISCOVERY,
    EC_KEY,
    ED_KEY,
    OTHER_RSA_KEY,
    RSA_KEY,
    Answer,
    Overrides,
    encoded,
    public_jwk,
    signed,
)
from tests.support.gate import AUTHENTICATE_HOST
from tests.support.raw_http import RawResponse
from tests.support.reloading import RELOADED, rewrite, wait_for_event

TROUBLE = "sign-in failed at the identity provider"
REFUSED = "sign-in refused"
NOW = 4_000_000_000  # far in the future
LARGE = b'{"x": "' + b"A" * (10 << 20) + b'"}'
# Invalid responses of any of the four endpoints.
TROUBLES = {
    "500": Answer(500, b"oops"),
    "garbage": Answer(200, b"<html>\\xff"),
    "10 MB": Answer(200, LARGE),
    "a redirect loop": Answer(302, b"", headers={"Location": "/token"}),
    "no content": Answer(204, b""),
    "a deep nest": Answer(200, b"[" * 100_000),
}


@dataclass
class Misbehaviour:
    """`bend` is what the provider does at the token endpoint or after; `query` what the browser brings back otherwise."""

    status: int
    page: str
    log: str
    bend: Overrides = field(default_factory=Overrides)
    query: Callable[[dict[str, str]], list[tuple[str, str]]] | None = None
    event: str = TROUBLE


def token_trouble(log: str, **bend: Any) -> Misbehaviour:
    return Misbehaviour(503, "is not responding", log, Overrides(**bend))


def bad_answer(page: str, log: str, query: Callable[[dict[str, str]], list[tuple[str, str]]]) -> Misbehaviour:
    return Misbehaviour(400, page, log, query=query, event=REFUSED)


def with_(**changed: str) -> Callable[[dict[str, str]], list[tuple[str, str]]]:
    return lambda params: list({**params, **changed}.items())


def without(name: str) -> Callable[[dict[str, str]], list[tuple[str, str]]]:
    return lambda params: [(key, value) for key, value in params.items() if key != name]


def duplicate(name: str) -> Callable[[dict[str, str]], list[tuple[str, str]]]:
    return lambda params: [*params.items(), (name, params[name])]


def hs256(key: bytes) -> Callable[[dict[str, Any], dict[str, Any]], str]:
    return lambda header, claims: signed({**header, "alg": "HS256"}, claims, key, "HS256")


def duplicate_claim(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Which `sub` counts depends on the reader."""
    payload = json.dumps(claims).replace("{", '{"sub": "bob", ', 1)
    text = f"{encoded(json.dumps(header).encode())}.{encoded(payload.encode())}"
    return f"{text}.{encoded(jwt.get_algorithm_by_name('RS256').sign(text.encode(), RSA_KEY))}"


def flipped(header: dict[str, Any], claims: dict[str, Any]) -> str:
    head, payload, signature = signed(header, claims, RSA_KEY, "RS256").split(".")
    return f"{head}.{payload}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    head, payload, _ = signed({**header, "alg": "none"}, claims, RSA_KEY, "RS256").split(".")
    return f"{head}.{payload}."


def with_its_own_key(header: dict[str, Any], claims: dict[str, Any]) -> str:
    """The token brings the key that it wants to be verified by (RFC 7515 4.1.2, 4.1.3)."""
    own = public_jwk(OTHER_RSA_KEY, "RS256", header["kid"])
    return signed({**header, "jwk": own, "jku": "https://evil.example/jwks"}, claims, OTHER_RSA_KEY, "RS256")


def of_a_longer_issuer(header: dict[str, Any], claims: dict[str, Any]) -> str:
    return signed(header, {**claims, "iss": f"{claims['iss']}.evil.example"}, RSA_KEY, "RS256")


MISBEHAVIOURS: dict[str, Misbehaviour] = {
    "the ID token of another issuer": token_trouble("another issuer", claims={"iss": "https://evil.example"}),
    "an issuer that only begins like it": token_trouble("another issuer", token=of_a_longer_issuer),
    "no issuer": token_trouble("another issuer", claims={"iss": ABSENT}),
    "another audience": token_trouble("another audience", claims={"aud": "another"}),
    "no audience": token_trouble("another audience", claims={"aud": ABSENT}),
    "several audiences, none of them vouched for": token_trouble("another client", claims={"aud": ["gate", "other"]}),
    "issued to another client": token_trouble("another client", claims={"azp": "other"}),
    "another nonce": token_trouble("nonce", claims={"nonce": "of-another-sign-in"}),
    "no nonce": token_trouble("nonce", claims={"nonce": ABSENT}),
    "no subject": token_trouble("sub is missing", claims={"sub": ABSENT}),
    "expired": token_trouble("expired", claims={"exp": 1_000_000_000}),
    "no expiry": token_trouble("exp is not a time", claims={"exp": ABSENT}),
    "issued in the future": token_trouble("in the future", claims={"iat": NOW}),
    "no time of issue": token_trouble("iat is not a time", claims={"iat": ABSENT}),
    "not valid yet": token_trouble("in the future", claims={"nbf": NOW}),
    "a claim twice": token_trouble("can't be read", token=duplicate_claim),
    "a wrong signature": token_trouble("invalid signature", token=flipped),
    "another's signature": token_trouble("invalid signature", token=lambda header, claims: signed(header, claims, OTHER_RSA_KEY, "RS256")),
    "a key that the token brings along": token_trouble("invalid signature", token=with_its_own_key),
    "an unknown key id": token_trouble("does not publish", header={"kid": "unknown"}),
    "algorithm none": token_trouble("algorithm", token=unsigned),
    "HS256 with the client secret": token_trouble("algorithm", token=hs256(CLIENT_SECRET.encode())),
    "HS256 with the public key": token_trouble("algorithm", token=hs256(public_jwk(RSA_KEY, "RS256", None)["n"].encode())),
    "ES256 with an unpublished key": token_trouble(
        "does not publish", token=lambda header, claims: signed({**header, "alg": "ES256"}, claims, EC_KEY, "ES256")
    ),
    "EdDSA under the RSA key's id": token_trouble(
        "does not publish", token=lambda header, claims: signed({**header, "alg": "EdDSA"}, claims, ED_KEY, "EdDSA")
    ),
    "another access token's hash": token_trouble("at_hash", claims={"at_hash": "A" * 22}),
    "an access token in place of the ID token": token_trouble("another type", header={"typ": "at+jwt"}),
    "no ID token": token_trouble("no ID token", tokens={"id_token": ABSENT}),
    "userinfo of another person": token_trouble("another user", userinfo={"sub": "bob"}),
    "userinfo of nobody": token_trouble("another user", userinfo={"sub": ABSENT}),
    "userinfo that says nothing at all": token_trouble("another user", answers={"/userinfo": Answer.json({})}),
    "the code is refused": Misbehaviour(
        400,
        "no longer accepts",
        "no longer accepts",
        Overrides(answers={"/token": Answer.json({"error": "invalid_grant"}, 400)}),
        event=REFUSED,
    ),
    "our credentials are refused": token_trouble("invalid_client", answers={"/token": Answer.json({"error": "invalid_client"}, 401)}),
    "an answer of another issuer (mix-up)": bad_answer(
        "a different identity provider", "a different identity provider", with_(iss="https://evil.example")
    ),
    "an answer that does not name its sender": bad_answer("name its issuer", "name its issuer", without("iss")),
    "no code": bad_answer("sent no authorization code", "sent no authorization code", without("code")),
    "a made-up code": bad_answer("no longer accepts", "no longer accepts", with_(code="made-up")),
    "the code twice": bad_answer("repeats a parameter", "repeats a parameter", duplicate("code")),
    "the state twice": bad_answer("repeats a parameter", "repeats a parameter", duplicate("state")),
    "an error": bad_answer("could not sign you in", "temporarily_unavailable", with_(error="temporarily_unavailable")),
}

# Neither is among the 28: the provider works as it should, and the answer is no.
OTHER_TROUBLE = {"our credentials are refused", "the code is refused", "an error"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(autouse=True)
def _straight(stage: Stage) -> Iterator[None]:
    yield
    stage.provider.straighten()


def forget(stage: Stage) -> None:
    """gate forgets all that its provider says of itself."""
    with wait_for_event(stage.gate, RELOADED):
        rewrite(stage.gate.config_file, idp_request_params={"reload": str(next(_numbers))})
        stage.gate.child.process.send_signal(signal.SIGHUP)


_numbers = itertools.count()


def is_explained(stage: Stage, page: Page, status: int, message: str, event: str, log: str) -> None:
    """On the page in plain words, in the log under the page's request id."""
    assert page.status == status, page.text
    assert message in page.text
    request_id = page.header("x-request-id")
    assert request_id in page.text
    entry = stage.gate.wait_for_event(event, lambda entry: entry.get("request_id") == request_id)
    assert log in f"{entry.get('error', '')} {entry.get('reason', '')}", entry


def no_user_is_signed_in(stage: Stage, browser: Browser) -> None:
    assert "_gate" not in browser.cookies.get(AUTHENTICATE_HOST, {})
    assert not stage.is_signed_in(browser, ANYONE)


@pytest.mark.parametrize("name", MISBEHAVIOURS)
def test_misbehaving_provider_creates_no_session(stage: Stage, name: str) -> None:
    case = MISBEHAVIOURS[name]
    browser = stage.browser()
    callback = stage.picked(browser)
    if case.query is not None:
        params = dict(parse_qsl(urlsplit(callback).query))
        callback = f"{callback.partition('?')[0]}?{urlencode(case.query(params))}"
    stage.provider.idp.bend = case.bend
    page = browser.open(callback)
    stage.provider.straighten()
    is_explained(stage, page, case.status, case.page, case.event, case.log)
    no_user_is_signed_in(stage, browser)


@pytest.mark.parametrize("query", [without("state"), with_(state="made-up"), with_(state="A" * 22)], ids=["none", "made up", "another's"])
def test_unsolicited_response_creates_no_session(stage: Stage, query: Callable[[dict[str, str]], list[tuple[str, str]]]) -> None:
    browser = stage.browser()
    callback, before = stage.picked(browser), stage.idp.count("/token")
    page = browser.open(f"{callback.partition('?')[0]}?{urlencode(query(dict(parse_qsl(urlsplit(callback).query))))}")
    assert (page.status, "in another browser" in page.text) == (400, True), page.text
    assert stage.idp.count("/token") == before
    no_user_is_signed_in(stage, browser)


# Refresh responses that the provider must not send: they are invalid, not late, so the session ends (OpenID Connect Core 12.2, 5.3.2).
REFRESHED: dict[str, Overrides] = {
    "the ID token of another issuer": Overrides(claims={"iss": "https://evil.example"}),
    "for another audience": Overrides(claims={"aud": "another"}),
    "with another's signature": Overrides(token=lambda header, claims: signed(header, claims, OTHER_RSA_KEY, "RS256")),
    "the ID token of another person": Overrides(claims={"sub": "bob"}),
    "userinfo of another person": Overrides(userinfo={"sub": "bob"}),
}


@pytest.mark.parametrize("name", REFRESHED)
def test_refresh_with_another_subject_ends_the_session(stage: Stage, name: str) -> None:
    browser = stage.browser()
    assert stage.sign_in(browser).status == 200
    dashboard = stage.url(AUTHENTICATE_HOST, "/.gate/")
    token = re.findall(r'name="_gate_csrf" value="([^"]+)"', browser.open(dashboard).text)[0]
    stage.provider.idp.bend = REFRESHED[name]
    headers = (*HTML, ("Content-Type", "application/x-www-form-urlencoded"))
    page = browser.open(
        stage.url(AUTHENTICATE_HOST, "/.gate/refresh"), method="POST", headers=headers, body=urlencode({"_gate_csrf": token})
    )
    assert page.status == 401, page.text
    stage.provider.straighten()
    assert not stage.is_signed_in(browser, ANYONE)


def test_a_code_of_another_browser_is_worth_nothing(stage: Stage) -> None:
    """Code injection: the victim's code in the attacker's own attempt."""
    victim, attacker = stage.browser(), stage.browser()
    stolen = parse_qs(urlsplit(stage.picked(victim, "alice")).query)["code"][0]
    own = dict(parse_qsl(urlsplit(stage.picked(attacker, "bob")).query))
    callback = f"{stage.authenticate}/oauth2/callback?{urlencode({**own, 'code': stolen})}"
    page = attacker.open(callback)
    is_explained(stage, page, 400, "no longer accepts", REFUSED, "no longer accepts")
    no_user_is_signed_in(stage, attacker)


@pytest.fixture
def fresh(stage: Stage) -> Iterator[Stage]:
    """A gate that remembers nothing of its provider; afterwards neither, because trouble is remembered for two seconds, too."""
    forget(stage)
    yield stage
    stage.provider.straighten()
    forget(stage)


@pytest.mark.parametrize("name", [*TROUBLES, "another issuer", "keys elsewhere without TLS", "only algorithms that we do not take"])
def test_a_discovery_document_that_can_not_be_believed(fresh: Stage, name: str) -> None:
    members: dict[str, dict[str, Any]] = {
        "another issuer": {"issuer": "https://evil.example"},
        "keys elsewhere without TLS": {"jwks_uri": "http://evil.example/jwks"},
        "only algorithms that we do not take": {"id_token_signing_alg_values_supported": ["HS256", "none"]},
    }
    fresh.provider.idp.bend = Overrides(answers={DISCOVERY: TROUBLES[name]}) if name in TROUBLES else Overrides(discovery=members[name])
    browser = fresh.browser()
    page = browser.open(browser.open(fresh.url(ANYONE)).location)
    is_explained(fresh, page, 503, "is not responding", TROUBLE, "")
    assert not page.location


@pytest.mark.parametrize("name", TROUBLES)
def test_keys_that_can_not_be_had(fresh: Stage, name: str) -> None:
    browser = fresh.browser()
    callback = fresh.picked(browser)
    fresh.bend.answers = {"/jwks": TROUBLES[name]}
    is_explained(fresh, browser.open(callback), 503, "is not responding", TROUBLE, "")
    no_user_is_signed_in(fresh, browser)


@pytest.mark.parametrize("path", ["/token", "/userinfo"])
@pytest.mark.parametrize("name", TROUBLES)
def test_an_endpoint_in_trouble(stage: Stage, path: str, name: str) -> None:
    user, browser = stage.browser(), stage.browser()
    stage.sign_in(user)
    callback = stage.picked(browser)
    stage.bend.answers = {path: TROUBLES[name]}
    before = len(stage.idp.requests)
    is_explained(stage, browser.open(callback), 503, "is not responding", TROUBLE, "")
    # A redirect is not followed: the code and our secret go to one place.
    assert sum(request.path == path for request in stage.idp.requests[before:]) == 1
    no_user_is_signed_in(stage, browser)
    assert stage.is_signed_in(user, ANYONE)


def test_a_key_that_is_rotated_just_before_it_signs_is_found_at_once(fresh: Stage) -> None:
    assert fresh.sign_in(fresh.browser()).status == 200
    browser = fresh.browser()
    callback = fresh.picked(browser)
    fresh.idp.signing_key, fresh.idp.kid = OTHER_RSA_KEY, "key-2"
    try:
        assert fresh.finish(browser, callback).status == 200
        browser = fresh.browser()
        callback = fresh.picked(browser)
        fresh.bend.token = lambda header, claims: signed({**header, "kid": "key-1"}, claims, RSA_KEY, "RS256")
        is_explained(fresh, browser.open(callback), 503, "is not responding", TROUBLE, "does not publish")
    finally:
        fresh.idp.signing_key, fresh.idp.kid = RSA_KEY, "key-1"


def test_a_token_without_a_key_id_needs_a_single_key(fresh: Stage) -> None:
    fresh.bend.header = {"kid": ABSENT}
    assert fresh.sign_in(fresh.browser()).status == 200
    keys = [public_jwk(key, "RS256", kid) for key, kid in ((RSA_KEY, "key-1"), (OTHER_RSA_KEY, "key-2"))]
    fresh.bend.answers = {"/jwks": Answer.json({"keys": keys})}
    forget(fresh)
    browser = fresh.browser()
    is_explained(fresh, browser.open(fresh.picked(browser)), 503, "is not responding", TROUBLE, "does not publish")


def test_a_weaker_code_challenge_is_never_sent(fresh: Stage) -> None:
    """gate sends S256 for every provider metadata, and a code without its verifier is worthless."""
    fresh.bend.discovery = {"code_challenge_methods_supported": ["plain"]}
    requested = parse_qs(urlsplit(fresh.to_provider(fresh.browser())).query)
    assert requested["code_challenge_method"] == ["S256"]
    assert len(requested["code_challenge"][0]) == 43


async def test_a_slow_provider_is_waited_for_ten_seconds(fresh: Stage) -> None:
    """At each of its endpoints, all at the same time; a sign-in whose endpoints answer is not held up by the others."""
    assert fresh.sign_in(fresh.browser()).status == 200
    slow, waiting = Answer(200, b"{}", delay=15), []
    for path, bend in (
        ("/token", Overrides(answers={"/token": slow})),
        ("/jwks", Overrides(answers={"/jwks": slow}, header={"kid": "unknown"})),
        ("/userinfo", Overrides(answers={"/userinfo": slow})),
    ):
        browser = fresh.browser()
        callback = fresh.picked(browser)
        fresh.idp.bend = bend
        waiting.append(await requested(fresh, browser, callback, path))
        fresh.provider.straighten()
    assert fresh.sign_in(fresh.browser()).status == 200
    forget(fresh)
    browser = fresh.browser()
    fresh.bend.answers = {DISCOVERY: slow}
    waiting.append(await requested(fresh, browser, browser.open(fresh.url(ANYONE)).location, DISCOVERY))
    for page in await asyncio.wait_for(asyncio.gather(*waiting), 30):
        is_explained(
            fresh,
            page,
            503,
            "is not responding",
            TROUBLE,
            "in time",
        )


async def requested(stage: Stage, browser: Browser, url: str, path: str) -> "asyncio.Task[Page]":
    """The browser opens the URL; returns when gate has asked the provider at this path."""
    before = stage.idp.count(path)
    task = asyncio.get_running_loop().create_task(patiently_opened(stage, browser, url))
    await asyncio.to_thread(wait_until, lambda: stage.idp.count(path) > before, f"a request for {path}")
    return task


async def patiently_opened(stage: Stage, browser: Browser, url: str) -> Page:
    """Do the same as `browser.open` on a separate connection with a longer timeout than gate's."""
    parts = urlsplit(url)
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.get(parts.hostname or "", {}).items())
    async with stage.gate.client(timeout=30) as client:
        answer = await client.get(url, headers={"Accept": "text/html", "Cookie": cookies})
    return Page(url, RawResponse(answer.status_code, list(answer.headers.items()), answer.content))


# Algorithm -> the key that the provider publishes, and another of its kind.
SIGNERS: dict[str, tuple[Any, Any]] = {
    "RS256": (RSA_KEY, OTHER_RSA_KEY),
    "PS256": (RSA_KEY, OTHER_RSA_KEY),
    "ES256": (EC_KEY, ec.generate_private_key(ec.SECP256R1())),
    "EdDSA": (ED_KEY, ed25519.Ed25519PrivateKey.generate()),
}


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_each_accepted_algorithm_signs_in_and_foreign_signature_does_not(fresh: Stage, algorithm: str) -> None:
    """The key set also holds keys for other uses and keys of unknown types."""
    key, other = SIGNERS[algorithm]
    strangers = [
        {**public_jwk(OTHER_RSA_KEY, "RS256", "key-1"), "use": "enc"},
        {"kty": "AKP", "alg": "ML-DSA-44", "kid": "key-1", "pub": "AAAA", "use": "sig"},
        {"kty": "oct", "k": "AAAA", "kid": "key-1", "alg": "HS256"},
        {"kty": "EC", "crv": "P-256", "kid": "key-2", "x": "!", "y": "!"},
    ]
    fresh.bend.answers = {"/jwks": Answer.json({"keys": [*strangers, public_jwk(key, algorithm, "key-1")]})}
    before = fresh.idp.signing_key, fresh.idp.algorithm
    fresh.idp.signing_key, fresh.idp.algorithm = key, algorithm
    try:
        assert fresh.sign_in(fresh.browser()).status == 200
        browser = fresh.browser()
        callback = fresh.picked(browser)
        fresh.bend.token = lambda header, claims: signed(header, claims, other, algorithm)
        is_explained(fresh, browser.open(callback), 503, "is not responding", TROUBLE, "invalid signature")
        no_user_is_signed_in(fresh, browser)
    finally:
        fresh.idp.signing_key, fresh.idp.algorithm = before


@pytest.mark.parametrize(
    ("claims", "key", "reason"),
    [
        ({}, RSA_KEY, None),
        ({"aud": "another"}, RSA_KEY, "audience"),
        ({"iss": "https://another.example"}, RSA_KEY, "issuer"),
        ({}, OTHER_RSA_KEY, "invalid signature"),
    ],
)
def test_signed_userinfo_is_verified_as_an_id_token_is(stage: Stage, claims: dict[str, Any], key: Any, reason: str | None) -> None:
    """OpenID Connect Core 5.3.2: by a key of the provider, of its issuer, for this client."""
    browser = stage.browser()
    callback = stage.picked(browser)
    userinfo = {"iss": stage.idp.issuer, "aud": "gate", "sub": "alice"} | claims
    answer = signed({"alg": "RS256", "kid": "key-1"}, userinfo, key, "RS256").encode()
    stage.bend.answers = {"/userinfo": Answer(200, answer, "application/jwt")}
    if reason is None:
        assert browser.open(callback).status == 302
        return
    is_explained(stage, browser.open(callback), 503, "is not responding", TROUBLE, reason)
    no_user_is_signed_in(stage, browser)


def test_callback_leaks_nothing(stage: Stage) -> None:
    """RFC 9700 4.2.4 and 4.12: no address with a code is a referrer elsewhere, no answer is kept, and no redirect repeats a POST."""
    browser = stage.browser()
    signed_url = browser.open(stage.url(ANYONE)).location
    to_provider = browser.open(signed_url)
    callback = stage.idp.pick(to_provider.location, "alice")
    answers = [to_provider, stage.browser().open(callback), browser.open(callback)]
    assert [answer.status for answer in answers] == [302, 400, 302]
    assert all("no-store" in answer.header("cache-control") for answer in answers)
    # The only one that a browser shows, so that its address could be the referrer of anything.
    assert answers[1].header("referrer-policy") in ("no-referrer", "same-origin")


PAGE = Path(__file__).parent.parent.parent / "docs" / "security" / "oidc-conformance.md"


def test_the_page_names_all_28_cases_and_tests_that_are_there() -> None:
    rows = re.findall(r"(?m)^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text())
    assert [int(number) for number, *_ in rows] == list(range(1, 29))
    assert len({case for _, case, *_ in rows}) == 28
    for number, _, _, _, proof in rows:
        named = re.findall(r"`([^`]+)`", proof)
        assert named, number
        for name in named:
            assert name in MISBEHAVIOURS or name in globals(), f"{number}: there is no {name!r}"
    # And nothing that is tried is left out of the page.
    assert set(MISBEHAVIOURS) <= {name for *_, proof in rows for name in re.findall(r"`([^`]+)`", proof)} | OTHER_TROUBLE
