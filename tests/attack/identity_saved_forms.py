"""B10: a form that is kept across a sign-in is its own page's, its own browser's, for its own address, once."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import Answer, Browser
from tests.attack.identity_stage import ANYONE, OTHER, Stage
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect

PATH, BODY = "/orders?year=2026", "item=1&item=2"
FORM = (("Accept", "text/html"), ("Sec-Fetch-Mode", "navigate"), ("Content-Type", "application/x-www-form-urlencoded"))
SITES = ("cross-site", "same-site", "none", "Same-Origin", "same-origin, cross-site", "x", "")
PRESSED = "_gate_form="


@identity_attack("B10", "forms of others, kept or sent", sample=40)
def saved_forms(stage: Stage) -> Iterator[Attempt]:
    own = stage.url(ANYONE, "")
    origins = ("https://evil.example", "null", stage.url(OTHER, ""), own.replace("https", "http"), own + ".evil.example", own + "/", "")
    for site, origin in product((*SITES, "same-origin"), (*origins, own)):
        if (site == "same-origin" and origin in (own, "null", "")) or (not site and origin == own):
            yield f"a form of this origin ({site!r}, {origin!r}) arrives once", partial(_arrives_once, stage, site, origin)
        else:
            yield f"a form from {origin!r}, {site!r}", partial(_not_stored, stage, site, origin)
    for label, thief in (("no cookie", _without), ("a bent cookie", _bent), ("another form's cookie", _swapped)):
        yield f"pressed with {label}", partial(_stolen, stage, thief)
    yield "pressed at another address", partial(_elsewhere, stage)
    yield "shown to another browser", partial(_sent_to_another, stage)


def _sent(stage: Stage, browser: Browser, body: str, site: str, origin: str, path: str = PATH) -> Answer:
    headers = [*FORM, *((name, value) for name, value in (("Sec-Fetch-Site", site), ("Origin", origin)) if value)]
    return browser.open(stage.url(ANYONE, path), method="POST", headers=headers, body=body)


def _own(stage: Stage, browser: Browser, body: str, path: str = PATH) -> Answer:
    return _sent(stage, browser, body, "same-origin", stage.url(ANYONE, ""), path)


def _ids(browser: Browser) -> list[str]:
    return [name.partition("_form_")[2] for name in browser.cookies.get(ANYONE, {}) if "_form_" in name]


def _forget_places(stage: Stage) -> None:
    """One address has a few places only: those that attacks have filled are emptied by sending what lies there."""
    for browser, id in _left:
        stage.sign_in(browser)
        _own(stage, browser, PRESSED + id)
    _left.clear()


_left: list[tuple[Browser, str]] = []


def _stored(stage: Stage) -> tuple[Browser, str]:
    browser = stage.browser()
    answer = _own(stage, browser, BODY)
    (id,) = _ids(browser) or ("",)
    expect(answer.status == 302 and id != "", f"a same-origin form was not saved: {answer.status}")
    _left.append((browser.fork(), id))
    return browser, id


def _received_frames(answer: Answer) -> bool:
    return answer.text.startswith("POST ")


def _not_stored(stage: Stage, site: str, origin: str) -> Outcome:
    browser = stage.browser()
    answer = _sent(stage, browser, BODY, site, origin)
    expect(answer.status in (302, 400) and not _ids(browser), f"answered with status {answer.status}, kept {_ids(browser)}")
    return REFUSED


def _arrives_once(stage: Stage, site: str, origin: str) -> Outcome:
    browser = stage.browser()
    expect(_sent(stage, browser, BODY, site, origin).status == 302, "no redirect to the sign-in")
    (id,) = _ids(browser) or ("",)
    expect(id != "", "the form was not kept")
    stage.sign_in(browser)
    expect(browser.open(stage.url(ANYONE, f"/.gate/form/{id}")).status == 200, "no page with a button")
    first, second = (_own(stage, browser, PRESSED + id) for _ in range(2))
    expect(first.status == 200 and f"Content-Length: {len(BODY)}".lower() in first.text.lower(), "the form did not arrive")
    expect(second.status == 410 and not _received_frames(second), "the form arrived twice")
    return ACCEPTED


def _stolen(stage: Stage, thief: Callable[[Stage, Browser, str], None]) -> Outcome:
    browser, id = _stored(stage)
    try:
        thief(stage, browser, id)
        stage.sign_in(browser)
        answer = _own(stage, browser, PRESSED + id)
        expect(f"content-length: {len(BODY)}\r" not in answer.text.lower(), "another user's form was sent")
    finally:
        _forget_places(stage)
    return REFUSED


def _without(stage: Stage, browser: Browser, id: str) -> None:
    browser.cookies[ANYONE].clear()


def _bent(stage: Stage, browser: Browser, id: str) -> None:
    jar = browser.cookies[ANYONE]
    (name,) = (name for name in jar if "_form_" in name)
    jar[name] = jar[name][:-1] + ("A" if jar[name][-1] != "A" else "B")


def _swapped(stage: Stage, browser: Browser, id: str) -> None:
    other, _ = _stored(stage)
    (attacker_value,) = (value for name, value in other.cookies[ANYONE].items() if "_form_" in name)
    jar = browser.cookies[ANYONE]
    (name,) = (name for name in jar if "_form_" in name)
    jar[name] = attacker_value


def _elsewhere(stage: Stage) -> Outcome:
    browser, id = _stored(stage)
    try:
        stage.sign_in(browser)
        answer = _own(stage, browser, PRESSED + id, "/delete")
        expect(answer.status == 410 and not _received_frames(answer), "the form was sent to another address")
    finally:
        _forget_places(stage)
    return REFUSED


def _sent_to_another(stage: Stage) -> Outcome:
    _, id = _stored(stage)
    try:
        other = stage.browser()
        stage.sign_in(other, "bob")
        answer = other.open(stage.url(ANYONE, f"/.gate/form/{id}"))
        expect(answer.status == 410 and "/orders" not in answer.text, "another browser saw the form")
    finally:
        _forget_places(stage)
    return REFUSED
