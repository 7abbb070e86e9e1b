"""B8: can a claim become more than one header of a request, or of an answer?"""

import base64
import json
import secrets
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

from tests.attack.http_canary import Hit
from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_stage import ANYONE, Stage, new_user
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, expect, not_built

INJECTED = "X-Injected: 1"
BREAKS = (
    *("\r\n", "\n", "\r", "\r\n ", "\n\t", "\r\n\r\n", "\x00", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u2028", "\u2029"),
    *(
        "%0d%0a",
        "%250d%250a",
        "\\r\\n",
        "\\u000d\\u000a",
        "\u560d\u560a",
        "\u010d\u010a",
        "\uff0d\uff0a",
        "\ud83d\r\n",
        ", ",
        "; ",
        "\xa0",
        "\x7f",
    ),
)
CLAIMS = ("name", "nickname", "email", "groups", "given_name", "sub")
# Other values of a claim; each reaches JSON unchanged.
SHAPES: tuple[Any, ...] = (
    *({"a\r\nX-Injected": "1"}, ["a\r\nX-Injected: 1"], [["a\r\nX-Injected: 1"]], {"x": ["\r\nX-Injected: 1"]}, [None, True, 1.5, "\n"]),
    *(1e300, -0.0, True, None, 10**400, "", [], {}, "A" * 60_000, ["a,b", "c\r\n"], "é" * 9000),
)


@identity_attack("B8", "claims that would be header lines", sample=40)
def claims(stage: Stage) -> Iterator[Attempt | Case]:
    for claim, found, form in product(
        CLAIMS, BREAKS, ("a{}X-Injected: 1", "{}X-Injected: 1", "a{}", "a{}X-Injected: 1{}{}GET /injected HTTP/1.1")
    ):
        yield f"{claim} {found!r} in {form!r}", partial(_forwarded, stage, claim, form.replace("{}", found))
    for claim, value in product(CLAIMS[:5], SHAPES):
        yield f"{claim} {str(value)[:40]!r}", partial(_forwarded, stage, claim, value)
    yield not_built("a client certificate's subject: no header carries one")


def _forwarded(stage: Stage, claim: str, value: Any) -> Outcome:
    sub = new_user(email="eve@evil.example", name="Eve")
    stage.bend.claims = {claim: value}
    stage.bend.userinfo = {claim: value} if claim == "sub" else {}
    browser, path = stage.browser(), f"/{secrets.token_hex(8)}"
    try:
        answer = stage.sign_in(browser, sub, ANYONE, path)
    finally:
        stage.provider.straighten()
    expect(answer.status < 500 or answer.status == 503, f"answered with status {answer.status}")
    expect(
        not answer.header("x-injected") and not any("injected" in line.lower() for line in answer.set_cookies), "injected into an answer"
    )
    hits = [hit for hit in stage.ledger.unmarked if hit.target == path.encode()]
    stage.ledger.unmarked.clear()
    for hit in hits:
        _is_one_request(hit)
    expect(len(hits) <= 1, "a request was made of a claim")
    return ACCEPTED if hits else REFUSED


def _is_one_request(hit: Hit) -> None:
    names = [name.lower() for name, _ in hit.headers]
    expect(b"x-injected" not in names, "a header was injected into a request", hit.head)
    for name in set(names):
        if name.startswith(b"x-gate-"):
            expect(names.count(name) == 1, f"{name!r} comes more than once", hit.head)
    for _, value in hit.headers:
        expect(all(0x20 <= byte < 0x7F for byte in value), f"a header holds {value[:200]!r}", hit.head)
    (assertion,) = hit.values(b"x-gate-jwt-assertion")
    payload = json.loads(base64.urlsafe_b64decode(assertion.split(b".")[1] + b"=="))
    expect(isinstance(payload["sub"], str), "the assertion names no user", hit.head)
