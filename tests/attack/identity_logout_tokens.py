"""B15, B11: logout tokens that a careless reader would believe.  Each names a person who is signed in, and who must stay so."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import urlencode

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import Answer, Browser
from tests.attack.identity_forgeries import Claims, Make, forgeries, without_absent
from tests.attack.identity_stage import ANYONE, AUTHENTICATE_HOST, Stage
from tests.attack.identity_tokens import ISSUERS
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.fake_idp import ABSENT, CLIENT_ID, LOGOUT_EVENT, RSA_KEY, signed

PATH = "/.gate/backchannel_logout"
FORM = "application/x-www-form-urlencoded"
SID = "a-session-at-the-provider-that-nobody-can-guess"
EVENTS = {LOGOUT_EVENT: {}}


@identity_attack("B15", "forged and bent logout tokens", sample=60)
def logout_tokens(stage: Stage) -> Iterator[Attempt]:
    user = User(stage)
    for label, make in forgeries():
        yield label, partial(user.stays, make)
    for name in ("iss", "aud", "iat", "exp", "jti", "events"):
        yield f"no {name}", partial(user.stays, _with_claims({name: ABSENT}))
    for label, bend in ISSUERS.items():
        yield f"iss is {label}", partial(user.stays, _with_claims({"iss": bend(stage.idp.issuer)}))
    for label, claims in _CLAIMS:
        yield label, partial(user.stays, _with_claims(claims))
    for label, header in _HEADERS:
        yield label, partial(user.stays, _with_claims({}, header))
    for label, method, content_type, body in _REQUESTS:
        yield label, partial(user.stays_at, method, content_type, body)
    yield "the provider's word with the session works", partial(_works, stage, "alice", {"sid": SID + " of alice"})
    yield "the provider's word with the person works", partial(_works, stage, "bob", {"sub": "bob"})
    yield "the provider's word a second time", partial(_works_once, stage)


@identity_attack("B11", "sign-out by a page that frames or embeds gate", sample=12)
def front_channel(stage: Stage) -> Iterator[Attempt]:
    user = User(stage)
    for label, query in _guesses(stage.idp.issuer):
        for method in ("GET", "POST", "HEAD"):
            yield f"{method} with {label}", partial(user.stays_in_a_frame, method, query)
    yield "who knows the session ends it", partial(_framed_works, stage)


class User:
    """Signed in, with a session at the provider that only the provider can name."""

    def __init__(self, stage: Stage):
        self._stage = stage
        self._browser = stage.browser()
        self._is_signed_in = False

    def stays(self, make: Make) -> Outcome:
        header, claims = _valid(self._stage)
        token = make(header, claims)
        return self._check(_sent(self._stage, f"logout_token={_escaped(token)}"))

    def stays_at(self, method: str, content_type: str, body: str) -> Outcome:
        token = signed(*_valid(self._stage), RSA_KEY, "RS256")
        return self._check(_sent(self._stage, body.replace("TOKEN", token), content_type, method))

    def stays_in_a_frame(self, method: str, query: str) -> Outcome:
        headers = (("Accept", "text/html"), ("Sec-Fetch-Dest", "image"), ("Sec-Fetch-Site", "cross-site"))
        url = self._stage.url(AUTHENTICATE_HOST, f"/.gate/frontchannel_logout{query}")
        self._be_signed_in()
        return self._check(self._browser.open(url, method=method, headers=headers))

    def _check(self, answer: Answer) -> Outcome:
        self._be_signed_in()
        expect(answer.status in (200, 400, 404, 405, 413, 415), f"answered with status {answer.status}")
        if not self._stage.is_signed_in(self._browser, ANYONE):
            self._is_signed_in = False
            expect(False, "signed out")
        return REFUSED

    def _be_signed_in(self) -> None:
        if not self._is_signed_in:
            _sign_in(self._stage, self._browser)
            self._is_signed_in = True


def _sign_in(stage: Stage, browser: Browser, user: str = "alice", sid: str = SID) -> None:
    stage.bend.claims = {"sid": sid}
    try:
        stage.sign_in(browser, user)
    finally:
        stage.provider.straighten()
    expect(stage.is_signed_in(browser, ANYONE), "the sign-in failed")


def _valid(stage: Stage) -> tuple[Claims, Claims]:
    now = int(time.time())
    header = {"alg": "RS256", "kid": "key-1", "typ": "logout+jwt"}
    claims = {"iss": stage.idp.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 120, "jti": f"{time.time_ns()}", "events": EVENTS}
    return header, {**claims, "sid": SID, "sub": "alice"}


def _with_claims(claims: Claims, header: Claims | None = None) -> Make:
    return lambda members, valid: signed(
        without_absent({**members, **(header or {})}), without_absent({**valid, **claims}), RSA_KEY, "RS256"
    )


def _escaped(token: str) -> str:
    return urlencode({"": token})[1:]


def _sent(stage: Stage, body: str, content_type: str = FORM, method: str = "POST") -> Answer:
    """By the provider or an impostor: without any cookie."""
    url = stage.url(AUTHENTICATE_HOST, PATH + (f"?{body}" if method in ("GET", "HEAD") else ""))
    return stage.browser().open(
        url, method=method, headers=(("Content-Type", content_type),), body="" if method in ("GET", "HEAD") else body
    )


def _works(stage: Stage, user: str, recipient: Claims) -> Outcome:
    """Else every refusal above would mean nothing."""
    browser = stage.browser()
    _sign_in(stage, browser, user, f"{SID} of {user}")
    header, claims = _valid(stage)
    claims = {name: value for name, value in claims.items() if name not in ("sid", "sub")}
    answer = _sent(stage, f"logout_token={signed(header, {**claims, **recipient}, RSA_KEY, 'RS256')}")
    expect(answer.status == 200, f"answered with status {answer.status}")
    expect(not stage.is_signed_in(browser, ANYONE), "still signed in")
    return ACCEPTED


def _works_once(stage: Stage) -> Outcome:
    header, claims = _valid(stage)
    token = signed(header, {**claims, "sid": "a session that is over"}, RSA_KEY, "RS256")
    statuses = [_sent(stage, f"logout_token={token}").status for _ in range(2)]
    expect(statuses == [200, 400], f"answered with {statuses}")
    return REFUSED


def _framed_works(stage: Stage) -> Outcome:
    browser, sid = stage.browser(), SID + " of a third browser"
    _sign_in(stage, browser, sid=sid)
    query = urlencode({"iss": stage.idp.issuer, "sid": sid})
    answer = stage.browser().open(stage.url(AUTHENTICATE_HOST, f"/.gate/frontchannel_logout?{query}"))
    expect(answer.status == 200, f"answered with status {answer.status}")
    expect(not stage.is_signed_in(browser, ANYONE), "still signed in")
    return ACCEPTED


def _guesses(issuer: str) -> Iterator[tuple[str, str]]:
    yield "nothing", ""
    for label, pairs in (
        ("iss alone", [("iss", issuer)]),
        ("sid alone", [("sid", SID)]),
        ("another issuer", [("iss", "https://evil.example"), ("sid", SID)]),
        ("an issuer with a slash", [("iss", issuer + "/"), ("sid", SID)]),
        ("another sid", [("iss", issuer), ("sid", SID[::-1])]),
        ("the beginning of the sid", [("iss", issuer), ("sid", SID[:-1])]),
        ("a longer sid", [("iss", issuer), ("sid", SID + "x")]),
        ("the sid in capitals", [("iss", issuer), ("sid", SID.upper())]),
        ("a wildcard", [("iss", issuer), ("sid", "%" * 20)]),
        ("an empty sid", [("iss", issuer), ("sid", "")]),
        ("the person instead of the sid", [("iss", issuer), ("sid", "alice"), ("sub", "alice")]),
        ("two sids", [("iss", issuer), ("sid", "x" * 20), ("sid", SID)]),
        ("two issuers", [("iss", "https://evil.example"), ("iss", issuer), ("sid", SID)]),
    ):
        yield label, "?" + urlencode(pairs)


_CLAIMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("another audience", {"aud": "other"}), ("others in the list", {"aud": ["a", "b"]}), ("a nested audience", {"aud": [["gate"]]}),
    ("expired", {"exp": 1}), ("exp that is text", {"exp": "9999999999"}), ("exp that is true", {"exp": True}),
    ("exp 1e300", {"exp": 1e300}),
    ("of tomorrow", {"iat": 9_999_999_999}), ("of last year", {"iat": 1_700_000_000}), ("iat that is text", {"iat": "1"}),
    ("not yet", {"nbf": 9_999_999_999}),
    ("no event", {"events": {}}), ("a list of events", {"events": [LOGOUT_EVENT]}), ("events as text", {"events": LOGOUT_EVENT}),
    ("an event that is true", {"events": {LOGOUT_EVENT: True}}), ("another event", {"events": {LOGOUT_EVENT + "/": {}}}),
    ("an event in capitals", {"events": {LOGOUT_EVENT.upper(): {}}}),
    ("a nonce", {"nonce": "x"}), ("an empty nonce", {"nonce": ""}), ("a nonce that is null", {"nonce": None}),
    ("nobody", {"sub": ABSENT, "sid": ABSENT}), ("empty names", {"sub": "", "sid": ""}),
    ("names that are null", {"sub": None, "sid": None}),
    ("a sid that is a list", {"sid": [SID]}), ("a sid that is an object", {"sid": {SID: 1}}), ("a sub that is true", {"sub": True}),
    ("the sid of another person", {"sub": "bob"}), ("another sid", {"sid": SID[:-1]}), ("a wildcard", {"sid": "*"}),
    ("a jti that is a number", {"jti": 1}), ("an empty jti", {"jti": ""}), ("a long jti", {"jti": "x" * 9000}),
)  # fmt: skip
_HEADERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("an access token's type", {"typ": "at+jwt"}), ("a security event's type", {"typ": "secevent+jwt"}),
    ("a type that is null", {"typ": None}),
    ("a type that is a list", {"typ": ["logout+jwt"]}), ("critical extensions", {"crit": ["exp"]}), ("compressed", {"zip": "DEF"}),
    ("encrypted", {"enc": "A256GCM"}), ("unencoded", {"b64": False}),
)  # fmt: skip
_REQUESTS = (
    ("in a query", "GET", FORM, "logout_token=TOKEN"),
    ("by HEAD", "HEAD", FORM, "logout_token=TOKEN"),
    ("by PUT", "PUT", FORM, "logout_token=TOKEN"),
    ("by DELETE", "DELETE", FORM, "logout_token=TOKEN"),
    ("as JSON", "POST", "application/json", '{"logout_token": "TOKEN"}'),
    ("as a JWT", "POST", "application/logout+jwt", "TOKEN"),
    ("as text", "POST", "text/plain", "logout_token=TOKEN"),
    ("twice", "POST", FORM, "logout_token=TOKEN&logout_token=TOKEN"),
    ("by another name", "POST", FORM, "id_token=TOKEN"),
    ("in brackets", "POST", FORM, "logout_token[]=TOKEN"),
    ("with capitals", "POST", FORM, "Logout_Token=TOKEN"),
    ("after an empty one", "POST", FORM, "logout_token=&logout_token=TOKEN"),
)
