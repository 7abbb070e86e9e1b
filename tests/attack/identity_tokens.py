"""B15: ID tokens that a careless reader would believe, each brought by the provider in a real sign-in.  B13: tokens of another issuer."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_forgeries import Claims, Make, forgeries, without_absent
from tests.attack.identity_replay import refused
from tests.attack.identity_stage import Stage
from tests.attack.run import ACCEPTED, Outcome, expect
from tests.support.fake_idp import ABSENT, RSA_KEY, signed


@identity_attack("B15", "forged and bent ID tokens", sample=100)
def tokens(stage: Stage) -> Iterator[Attempt]:
    for label, make in forgeries():
        yield label, partial(_forged, stage, make)
    for name in ("iss", "aud", "sub", "exp", "iat"):
        yield f"no {name}", partial(_with_claims, stage, {name: ABSENT})
    for name in ("exp", "iat", "nbf"):
        for label, value in _times(name):
            yield f"{name} is {label}", partial(_with_claims, stage, {name: value})
    for label, claims in _AUDIENCES:
        yield label, partial(_with_claims, stage, claims)
    for label, claims in _SUBJECTS:
        yield label, partial(_with_claims, stage, claims)
    for label, value in _HASHES:
        yield f"at_hash is {label}", partial(_with_claims, stage, {"at_hash": value})
    for algorithm in ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "HS256", "HS384", "HS512", "EdDSA", "none"):
        if algorithm != "RS256":
            yield f"signed with RS256, says {algorithm}", partial(_with_header, stage, {"alg": algorithm})
    for label, header in _HEADERS:
        yield label, partial(_with_header, stage, header)
    for label, header in _IGNORED_HEADERS:
        yield f"{label} is ignored", partial(_valid, stage, header, {})
    for label, claims in _VALID_CLAIMS:
        yield f"{label} is good", partial(_valid, stage, {}, claims)


@identity_attack("B13", "ID tokens of another issuer", sample=15)
def issuers(stage: Stage) -> Iterator[Attempt]:
    for label, bend in ISSUERS.items():
        yield f"iss is {label}", partial(_of_issuer, stage, bend)
    yield "iss is ours", partial(_valid, stage, {}, {"iss": stage.idp.issuer})


def _forged(stage: Stage, make: Make) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser)
    stage.bend.token = make
    try:
        return refused(stage, browser, url)
    finally:
        stage.provider.straighten()


def _with_claims(stage: Stage, claims: Claims) -> Outcome:
    return _forged(stage, lambda header, valid: signed(header, without_absent({**valid, **claims}), RSA_KEY, "RS256"))


def _with_header(stage: Stage, header: Claims) -> Outcome:
    return _forged(stage, lambda valid, claims: signed(without_absent({**valid, **header}), claims, RSA_KEY, "RS256"))


def _valid(stage: Stage, header: Claims, claims: Claims) -> Outcome:
    """Unusual but valid input must work, or else the refusals above prove less."""
    browser = stage.browser()
    stage.bend.header, stage.bend.claims = header, claims
    try:
        answer = stage.sign_in(browser)
    finally:
        stage.provider.straighten()
    expect(answer.status == 200, f"sign-in ended with status {answer.status} at {answer.url.partition('?')[0]}")
    return ACCEPTED


def _of_issuer(stage: Stage, bend: Callable[[str], Any]) -> Outcome:
    return _with_claims(stage, {"iss": bend(stage.idp.issuer)})


ISSUERS: dict[str, Callable[[str], Any]] = {
    "another": lambda iss: "https://evil.example",
    "with a slash": lambda iss: iss + "/",
    "with a suffix": lambda iss: iss + ".evil.example",
    "with a prefix": lambda iss: "x" + iss,
    "a prefix of gate's name": lambda iss: iss[:-1],
    "a part of gate's name": lambda iss: "http://127.0.0.1",
    "in upper case": lambda iss: iss.upper(),
    "with user info": lambda iss: iss.replace("://", "://a@"),
    "with https": lambda iss: iss.replace("http:", "https:"),
    "localhost": lambda iss: iss.replace("127.0.0.1", "localhost"),
    "with a query": lambda iss: iss + "?x",
    "with a fragment": lambda iss: iss + "#x",
    "with a space": lambda iss: iss + " ",
    "with NUL": lambda iss: iss + "\x00",
    "with a newline": lambda iss: iss + "\n",
    "with a dot segment": lambda iss: iss + "/.",
    "a list": lambda iss: [iss],
    "a list of two": lambda iss: [iss, "https://evil.example"],
    "an object": lambda iss: {iss: True},
    "empty": lambda iss: "",
    "null": lambda iss: None,
    "true": lambda iss: True,
    "a number": lambda iss: 1,
    "missing": lambda iss: ABSENT,
}


def _times(name: str) -> Iterator[tuple[str, Any]]:
    now = int(time.time())
    yield from (
        ("text", str(now + 300)),
        ("true", True),
        ("null", None),
        ("a list", [now]),
        ("an object", {}),
        ("negative", -1),
        ("zero", 0),
    )
    yield from (("1e300", 1e300), ("10^400", 10**400), ("in milliseconds", now * 1000), ("2^63", 2**63))
    yield ("long ago", now - 4000) if name == "exp" else ("in the future", now + 4000)


_AUDIENCES: tuple[tuple[str, Claims], ...] = (
    ("another audience", {"aud": "another"}), ("a longer audience", {"aud": "gate2"}), ("a part of the audience", {"aud": "gat"}),
    ("audience in upper case", {"aud": "GATE"}), ("audience with a space", {"aud": "gate "}), ("no audience in the list", {"aud": []}),
    ("others in the list", {"aud": ["a", "b"]}), ("a nested list", {"aud": [["gate"]]}), ("an audience object", {"aud": {"gate": 1}}),
    ("a null audience", {"aud": None}), ("audiences in one text", {"aud": "gate,other"}),
    ("two audiences, no azp", {"aud": ["gate", "other"]}),
    ("two audiences, another azp", {"aud": ["gate", "other"], "azp": "other"}), ("another azp", {"azp": "other"}),
    ("an empty azp", {"azp": ""}),
    ("an azp list", {"azp": ["gate"]}), ("a null azp", {"azp": None}),
)  # fmt: skip
_SUBJECTS: tuple[tuple[str, Claims], ...] = (
    ("an empty sub", {"sub": ""}), ("a null sub", {"sub": None}), ("a sub number", {"sub": 1}), ("a sub list", {"sub": ["alice"]}),
    ("a sub with a newline", {"sub": "alice\n"}), ("a sub with NUL", {"sub": "alice\x00"}), ("a long sub", {"sub": "a" * 300}),
    ("another sub than userinfo's", {"sub": "bob"}),
)  # fmt: skip
_HASHES: tuple[tuple[str, Any], ...] = (
    ("another", "A" * 22),
    ("empty", ""),
    ("null", None),
    ("a list", []),
    ("a number", 1),
    ("not ASCII", "é"),
)
_HEADERS: tuple[tuple[str, Claims], ...] = (
    ("crit", {"crit": ["x"], "x": 1}), ("an empty crit", {"crit": []}), ("crit with exp", {"crit": ["exp"], "exp": 1}),
    ("b64 false", {"b64": False}),
    ("b64 false in crit", {"b64": False, "crit": ["b64"]}), ("zip", {"zip": "DEF"}), ("enc", {"enc": "A128GCM"}),
    ("JWE", {"alg": "dir", "enc": "A256GCM"}),
    ("p2c", {"alg": "PBES2-HS256+A128KW", "p2c": 2**31 - 1, "p2s": "AAAA", "enc": "A128GCM"}), ("an access token", {"typ": "at+jwt"}),
    ("a logout token", {"typ": "logout+jwt"}), ("a typ list", {"typ": ["JWT"]}), ("a null typ", {"typ": None}),
    ("a kid number", {"kid": 1}),
    ("a kid list", {"kid": ["key-1"]}), ("a kid object", {"kid": {}}), ("a true kid", {"kid": True}),
)  # fmt: skip
_IGNORED_HEADERS: tuple[tuple[str, Claims], ...] = (
    ("jku", {"jku": "http://127.0.0.1:9/keys"}), ("jwk", {"jwk": {"kty": "oct", "k": "AAAA"}}), ("x5u", {"x5u": "http://127.0.0.1:9/c"}),
    ("x5c", {"x5c": ["MIIB"]}), ("no kid with one key", {"kid": ABSENT}), ("no typ", {"typ": ABSENT}),
    ("typ in full", {"typ": "application/JWT"}),
)  # fmt: skip
_VALID_CLAIMS: tuple[tuple[str, Claims], ...] = (
    ("one audience in a list", {"aud": ["gate"]}), ("two audiences with our azp", {"aud": ["gate", "other"], "azp": "gate"}),
    ("no at_hash", {"at_hash": ABSENT}), ("exp as a fraction", {"exp": 4_102_444_800.5}),
)  # fmt: skip
