"""B31 and B32: which claims about an e-mail address open a route, judged by what three routes do after a real sign-in."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML
from tests.attack.identity_stage import ALLOWED_EMAIL, ANN, ANYONE, CLAIM, CORP, Stage, new_user
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.fake_idp import ABSENT

BY_EMAIL = (CORP, ANN, CLAIM)
VERIFIED = (True, "true", "True", "TRUE")
UNVERIFIED: tuple[Any, ...] = (
    False, "false", "False", "FALSE", None, 0, 1, 2, -1, 0.0, 1.0, "", " ", "1", "0", "yes", "no", "on", "truee", " true", "true ",
    "true\n", "\ttrue",
    "ｔｒｕｅ", "null", "undefined", "verified", [], [True], ["true"], {}, {"value": True}, [False], "t", "True,False",
)  # fmt: skip

# Letters that a page does not show, and that some reader drops.
_HIDDEN = (
    "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e\u034f\u202e\u061c\u115f\u3164\u2028\u2029"
    "\u0000\u0001\u0007\u0009\u000a\u000b\u000d\u001b\u0020\u007f\u0085\u00a0"
)


@identity_attack("B31", "unverified e-mail addresses", sample=40)
def unverified(stage: Stage) -> Iterator[Attempt]:
    for value in (*UNVERIFIED, *VERIFIED, ABSENT):
        # Absent counts as false: this provider does not declare that it never sends it (`claims_supported`).
        opens = value is True or (isinstance(value, str) and value in VERIFIED)
        label = "absent" if value is ABSENT else repr(value)
        yield f"{label} in both", partial(_verified, stage, value, value, opens)
        if value is ABSENT:  # one source's word on the one address of both is enough
            yield "true in the ID token, absent in userinfo", partial(_verified, stage, True, ABSENT, True)
            yield "true in userinfo, absent in the ID token", partial(_verified, stage, ABSENT, True, True)
        elif not opens:
            yield f"{label} in the ID token, absent in userinfo", partial(_verified, stage, value, ABSENT, False)
            yield f"{label} in userinfo, absent in the ID token", partial(_verified, stage, ABSENT, value, False)
            yield f"{label} in userinfo, true in the ID token", partial(_verified, stage, True, value, False)
            yield f"{label} in the ID token, true in userinfo", partial(_verified, stage, value, True, False)


@identity_attack("B32", "e-mail addresses that only look like another", sample=50)
def lookalikes(stage: Stage) -> Iterator[Attempt]:
    for label, email in addresses():
        yield label, partial(_closed, stage, email)
    for email in ("ann@corp.example", "ANN@corp.example", "ann@CORP.example", "Ann@Corp.Example"):
        yield f"{email} opens by domain and by address", partial(_opens, stage, email, (CORP, ANN))
    for email in (
        "bob@corp.example",
        "ann+x@corp.example",
        "a.nn@corp.example",
        "evil.example@corp.example",
        "ann%evil.example@corp.example",
        "änn@corp.example",
    ):
        yield f"{email} opens by domain only", partial(_opens, stage, email, (CORP,))
    # A character that NFKC makes a dot separates no labels for every reader, so the address counts for nothing.
    yield "ann@corp．example is no address", partial(_closed, stage, "ann@corp．example")
    for email in ("ann@ｃorp.example", "ann@ⓒorp.example"):
        # NFKC makes these the listed domain: the owner of one spelling owns the other (B32).
        yield f"{email} is the listed domain", partial(_opens, stage, email, (CORP, ANN))


def _verified(stage: Stage, in_token: Any, in_userinfo: Any, opens: bool) -> Outcome:
    email = {"email": ALLOWED_EMAIL}
    found = _opened(stage, {**email, "email_verified": in_token}, {**email, "email_verified": in_userinfo})
    return _evaluated(found, BY_EMAIL if opens else ())


def _closed(stage: Stage, email: Any) -> Outcome:
    return _evaluated(_opened(stage, {"email": email, "email_verified": True}, {"email": email, "email_verified": True}), ())


def _opens(stage: Stage, email: str, routes: tuple[str, ...]) -> Outcome:
    found = _opened(stage, {"email": email, "email_verified": True}, {"email": email, "email_verified": True})
    # The claim rule compares the claim as it is, so only the exact spelling opens it.
    return _evaluated(found, routes + ((CLAIM,) if email == ALLOWED_EMAIL else ()))


def _evaluated(found: set[str], expected: tuple[str, ...]) -> Outcome:
    expect(found == set(expected), f"opens {sorted(found)}, not {sorted(expected)}")
    return ACCEPTED if expected else REFUSED


def _opened(stage: Stage, in_token: dict[str, Any], in_userinfo: dict[str, Any]) -> set[str]:
    """The routes by e-mail that let this person in; a user unknown to gate is in none."""
    sub = new_user()
    browser = stage.browser()
    url = stage.picked(browser, sub)
    stage.bend.claims, stage.bend.userinfo = in_token, in_userinfo
    try:
        answer = browser.open(url)
    finally:
        stage.provider.straighten()
    if answer.status == 503:
        return set()  # claims that are no JSON text for anybody
    expect(browser.open(answer.location).status == 302, "the sign-in was not completed")
    expect(stage.is_signed_in(browser, ANYONE), "the sign-in was not completed")
    return {host for host in BY_EMAIL if _lets_in(stage, browser, host)}


def _lets_in(stage: Stage, browser: Any, host: str) -> bool:
    hits = stage.upstream.hits
    answer = browser.open(stage.url(host), headers=HTML)
    for _ in range(3):
        if answer.location:
            answer = browser.open(answer.location, headers=HTML)
    expect(answer.status in (200, 403), f"{host} answered with status {answer.status}")
    expect((answer.status == 200) == (stage.upstream.hits > hits), "a refused request reached the upstream")
    return answer.status == 200


def addresses() -> Iterator[tuple[str, Any]]:
    """Addresses of people at other domains, or of no user at all."""
    domain, local = "corp.example", "ann"
    for other in (
        "evil-corp.example", "xcorp.example", "corp.example.evil", "corp.example.evil.example", "sub.corp.example", ".corp.example",
        "corp.example.", "corp.example..",
        "corp..example", "corpexample", "corp-example", "corp.exampl", "orp.example", "corp.examplee", "evil.example", "corp.example/evil",
        "corp.example#evil",
        "corp.example?evil", "corp.example\\evil", "corp.example:443", "corp.example%00", "corp.example%2eevil", "[corp.example]",
        "corp.example,evil.example",
        "corp.example;evil.example", "corp.example evil.example", "(evil)corp.example", "corp.example(evil)", "*.corp.example", "*",
        "corp.*", "127.0.0.1", "[127.0.0.1]", "",
    ):  # fmt: skip
        yield f"domain {other!r}", f"{local}@{other}"
    for letter, lookalikes in {"c": "сϲᴄ", "o": "оοо", "r": "гᴦ", "p": "рρ", "e": "еҽ", "x": "хⅹ", "a": "а", "m": "м", "l": "ӏ"}.items():
        for lookalike in lookalikes:
            if lookalike == "ⅹ":
                continue  # NFKC: x
            yield f"domain with {lookalike!r} for {letter}", f"{local}@{domain.replace(letter, lookalike, 1)}"
    for hidden in _HIDDEN:
        for place, email in (
            ("in the domain", f"{local}@co{hidden}rp.example"), ("after the domain", f"{local}@{domain}{hidden}"),
            ("before the domain", f"{local}@{hidden}{domain}"),
        ):  # fmt: skip
            yield f"{hidden!r} {place}", email
    for stop in "\u3002\uff61":
        yield f"{stop!r} for the dot", f"{local}@corp{stop}example"
    for email in (
        "ann@evil@corp.example", "ann@corp.example@evil", "@corp.example", "ann@", "@", "ann", "corp.example", "@@corp.example",
        "ann@@corp.example", '"ann@corp.example"@evil',
        '"ann"@corp.example', "<ann@corp.example>", "Ann <ann@corp.example>", "ann@corp.example,bob@evil.example",
        "bob@evil.example,ann@corp.example", "ann@corp.example;x",
        "mailto:ann@corp.example", "ann@evil.example\nann@corp.example", "ann@corp.example\n", "ann@corp.example\r\nX-Gate-Claim-Email: x",
        " ann@corp.example",
        "ann@corp.example ", "ann @corp.example", "ann\u0040evil@corp.example", "ann＠corp.example", "ann﹫corp.example",
        "ann%40corp.example", "ann@evil.example\x00@corp.example",
        "ann(evil)@corp.example", "ann\\@corp.example", "a,nn@corp.example", "ann:x@corp.example", "an n@corp.example",
        "ann\x00@corp.example", "ann\n@corp.example",
        "a" * 65_536 + "@corp.example", "ann@" + "a." * 2000 + "corp.example", "ann@" + "a" * 64 + ".corp.example",
    ):  # fmt: skip
        yield f"address {email[:60]!r}", email
    for value in (
        None,
        True,
        1,
        1.5,
        [],
        ["ann@corp.example"],
        ["evil@evil.example", "ann@corp.example"],
        {},
        {"ann@corp.example": True},
        {"email": "ann@corp.example"},
    ):
        yield f"a claim {value!r}", value
    yield "no claim", ABSENT
