"""B10: does a link from another person's sign-in ever give a browser that person's session?"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Browser
from tests.attack.identity_stage import ANYONE, CORP, OTHER, PUBLIC, Stage
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, expect, not_built
from tests.support.gate import AUTHENTICATE_HOST

HOSTS = (ANYONE, OTHER, CORP)
PATHS = ("/", "/deep/page?x=1&y=2", "/%C3%BC?next=//evil.example")
# State of the browser that receives the link.
VICTIMS = ("fresh", "on its way", "signed in", "signed in elsewhere", "many attempts")


@identity_attack("B10", "sign-in links in another browser", sample=25)
def handoff(stage: Stage) -> Iterator[Attempt | Case]:
    for host, path, victim in product(HOSTS, PATHS, VICTIMS):
        yield f"provider's callback of {host}{path}, {victim}", partial(_callback_elsewhere, stage, host, path, victim)
        yield f"handoff of {host}{path}, {victim}", partial(_handoff_elsewhere, stage, host, path, victim)
    for host, bend in product(HOSTS, _BENDS):
        yield f"{bend.__name__.strip('_')} at {host}", partial(_bent, stage, host, bend)
    for host, method in product(HOSTS, ("HEAD", "POST", "PUT", "OPTIONS", "DELETE", "PATCH")):
        yield f"{method} of a handoff at {host}", partial(_other_method, stage, host, method)
    for host, tabs in product(HOSTS, range(2, 7)):
        yield f"{tabs} tabs at {host}", partial(_tabs, stage, host, tabs)
    yield not_built("handoff after five minutes: no clock to turn from outside; tests/unit holds it")


def _victim(stage: Stage, kind: str, host: str) -> Browser:
    browser = stage.browser()
    if kind == "on its way":
        stage.to_provider(browser, host)
    elif kind == "signed in":
        stage.sign_in(browser, "bob", host)
    elif kind == "signed in elsewhere":
        stage.sign_in(browser, "bob", OTHER if host != OTHER else ANYONE)
    elif kind == "many attempts":
        for _ in range(9):
            browser.open(stage.url(host))
    return browser


def _callback_elsewhere(stage: Stage, host: str, path: str, kind: str) -> Outcome:
    attacker, victim = stage.browser(), _victim(stage, kind, host)
    stage.finish(victim, stage.picked(attacker, "alice", host, path))
    return _never_alice(stage, victim, host, attacker)


def _handoff_elsewhere(stage: Stage, host: str, path: str, kind: str) -> Outcome:
    attacker, victim = stage.browser(), _victim(stage, kind, host)
    answer = victim.open(_handoff_url(stage, attacker, host, path))
    # A signed-in user continues as the same user.
    expect(answer.status == (302 if kind == "signed in" else 400), f"answered with status {answer.status}")
    return _never_alice(stage, victim, host, attacker)


def _never_alice(stage: Stage, victim: Browser, host: str, attacker: Browser) -> Outcome:
    for where in (host, AUTHENTICATE_HOST):
        answer = victim.open(stage.url(where, "/.gate/" if where == AUTHENTICATE_HOST else "/"), headers=HTML)
        expect("alice" not in answer.text.lower(), f"the victim is alice at {where}")
        expect(answer.status in (200, 302), f"answered with status {answer.status} at {where}")
    return REFUSED


def _handoff_url(stage: Stage, browser: Browser, host: str, path: str = "/", sub: str = "alice") -> str:
    return browser.open(stage.picked(browser, sub, host, path)).location


def _bent(stage: Stage, host: str, bend: Callable[[Stage, Browser, str], str | None]) -> Outcome:
    """Open the link that `bend` returns (None if it has opened the link itself), and expect no session at the host."""
    browser = stage.browser()
    url = bend(stage, browser, host)
    if url is not None:
        answer = browser.open(url)
        expect(answer.status in range(400, 500), f"answered with status {answer.status}", url.encode())
        expect(not any(line.startswith("_gate=") for line in answer.set_cookies), "set a session cookie", url.encode())
    for each in (ANYONE, OTHER, CORP):
        expect(browser.open(stage.url(each)).status == 302, f"signed in at {each}")
    return REFUSED


def _used_again(stage: Stage, browser: Browser, host: str) -> str:
    url = _handoff_url(stage, browser, host)
    copy = browser.fork()
    expect(copy.open(url).status == 302, "the first use was refused")
    return url


def _moved_to_another_route(stage: Stage, browser: Browser, host: str) -> str:
    other = OTHER if host != OTHER else ANYONE
    url = _handoff_url(stage, browser, host)
    browser.open(stage.url(other))
    browser.cookies[other].update(browser.cookies[host])
    return url.replace(host, other)


def _moved_to_a_public_route(stage: Stage, browser: Browser, host: str) -> str:
    return _handoff_url(stage, browser, host).replace(host, PUBLIC)


def _moved_to_the_authenticate_host(stage: Stage, browser: Browser, host: str) -> str:
    return _handoff_url(stage, browser, host).replace(host, AUTHENTICATE_HOST)


def _two_tokens(stage: Stage, browser: Browser, host: str) -> str:
    url = _handoff_url(stage, browser, host)
    return f"{url}&gate_session={url.partition('gate_session=')[2]}"


def _no_token(stage: Stage, browser: Browser, host: str) -> str:
    return _handoff_url(stage, browser, host).partition("?")[0]


def _attempt_lost(stage: Stage, browser: Browser, host: str) -> str:
    url = _handoff_url(stage, browser, host)
    browser.cookies[host].clear()
    return url


def _attempt_renamed(stage: Stage, browser: Browser, host: str) -> str:
    """The sealed value of one attempt under the name of another."""
    url = _handoff_url(stage, browser, host)
    (requested,) = _attempts(browser, host)
    browser.open(stage.url(host))
    (second,) = (name for name in _attempts(browser, host) if name != requested)
    browser.cookies[host][requested] = browser.cookies[host].pop(second)
    return url


def _attempt_of_another_host(stage: Stage, browser: Browser, host: str) -> str:
    other = OTHER if host != OTHER else ANYONE
    url = _handoff_url(stage, browser, host)
    (requested,) = _attempts(browser, host)
    browser.open(stage.url(other))
    browser.cookies[host] = {requested: next(iter(_attempts(browser, other).values()))}
    return url


def _attempt_of_the_provider(stage: Stage, browser: Browser, host: str) -> str:
    """Attempts have two purposes, each with a separate key."""
    callback_url = stage.picked(browser, "alice", host)
    of_provider = next(iter(_attempts(browser, AUTHENTICATE_HOST).values()))
    url = browser.open(callback_url).location
    (requested,) = _attempts(browser, host)
    browser.cookies[host] = {requested: of_provider}
    return url


def _session_ended_on_the_way(stage: Stage, browser: Browser, host: str) -> str:
    url = _handoff_url(stage, browser, host)
    sign_out(stage, browser)
    return url


def _token_as_a_cookie(stage: Stage, browser: Browser, host: str) -> None:
    token = _handoff_url(stage, browser, host).partition("gate_session=")[2]
    for jar in browser.cookies.values():
        jar["_gate"] = token


def _token_as_a_bearer(stage: Stage, browser: Browser, host: str) -> None:
    token = _handoff_url(stage, browser, host).partition("gate_session=")[2]
    for credentials in (f"Gate {token}", f"Bearer Gate-{token}", f"Bearer {token}"):
        answer = browser.open(stage.url(host), headers=(*HTML, ("Authorization", credentials)))
        expect(answer.status in (302, 401), f"answered with status {answer.status}")
    browser.cookies.clear()


_BENDS = (
    _used_again, _moved_to_another_route, _moved_to_a_public_route, _moved_to_the_authenticate_host, _two_tokens, _no_token, _attempt_lost,
    _attempt_renamed, _attempt_of_another_host, _attempt_of_the_provider, _session_ended_on_the_way, _token_as_a_cookie, _token_as_a_bearer,
)  # fmt: skip


def _attempts(browser: Browser, host: str) -> dict[str, str]:
    return {name: value for name, value in browser.cookies.get(host, {}).items() if name.startswith("__Host-_gate_signin_")}


def sign_out(stage: Stage, browser: Browser) -> None:
    page = browser.open(stage.url(AUTHENTICATE_HOST, "/.gate/"))
    token = page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    url = stage.url(AUTHENTICATE_HOST, f"/.gate/signout/?_gate_csrf={token}")
    expect(browser.open(url).status == 302, "a sign-out with its token was refused")


def _other_method(stage: Stage, host: str, method: str) -> Outcome:
    browser = stage.browser()
    url = _handoff_url(stage, browser, host)
    answer = browser.open(url, method=method)
    expect(answer.status in range(400, 500) or (method == "OPTIONS" and answer.status == 204), f"answered with status {answer.status}")
    expect(browser.open(url).status == 302, f"{method} used the link up")
    return REFUSED


def _tabs(stage: Stage, host: str, tabs: int) -> Outcome:
    """Each tab of one user returns to its page, in any order."""
    browser = stage.browser()
    callbacks = [stage.picked(browser, "alice", host, f"/tab/{tab}") for tab in range(tabs)]
    for tab in reversed(range(tabs)):
        answer = stage.finish(browser, callbacks[tab])
        expect(
            answer.status == 200 and answer.text.startswith(f"GET /tab/{tab} "),
            f"tab {tab} ended with status {answer.status} at {answer.url}",
        )
    return ACCEPTED
