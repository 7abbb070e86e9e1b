"""B12: can state, nonce, code or verifier be used twice, left out, swapped, or guessed?"""

import base64
import hashlib
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Browser
from tests.attack.identity_stage import ANYONE, OTHER, Stage
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, expect, not_built
from tests.support.fake_idp import ABSENT
from tests.support.gate import AUTHENTICATE_HOST

STARTS = 200
HOSTS = (ANYONE, OTHER)


@identity_attack("B12", "state, nonce, code and verifier", sample=40)
def replay(stage: Stage) -> Iterator[Attempt | Case]:
    for host in HOSTS:
        yield f"the same callback twice at {host}", partial(_callback_repeated, stage, host)
        yield f"the same code twice at {host}", partial(_code_repeated, stage, host)
        yield f"the same code in two tabs at {host}", partial(_code_of_another_tab, stage, host)
        yield f"two tabs with their states swapped at {host}", partial(_states_swapped, stage, host)
        yield f"state of another host than {host}", partial(_state_of_another_host, stage, host)
    for label, query in _QUERIES.items():
        yield f"callback with {label}", partial(_bent_callback, stage, query)
    for method, label in product(("POST", "HEAD", "PUT"), ("plain", "no state")):
        yield f"callback by {method}, {label}", partial(_callback_by, stage, method, label)
    for label, nonce in _NONCES.items():
        yield f"ID token with {label}", partial(_bent_nonce, stage, nonce)
    yield "an ID token with the nonce of another attempt", partial(_nonce_of_another_attempt, stage)
    yield f"{STARTS} starts are all different and S256", partial(_starts_differ, stage)
    yield "the verifier reaches the provider, and a straight sign-in works", partial(_verifier_is_sent, stage)
    yield not_built("state after ten minutes: no clock to turn from outside; tests/unit holds it")


def refused(stage: Stage, browser: Browser, callback_url: str, *, method: str = "GET") -> Outcome:
    """The callback is refused, gives no session, and leads nowhere that does."""
    answer = browser.open(callback_url, method=method)
    expect(answer.status in range(400, 500) or answer.status == 503, f"answered with status {answer.status}", callback_url.encode())
    return anonymous(stage, browser)


def anonymous(stage: Stage, browser: Browser) -> Outcome:
    expect("_gate" not in browser.cookies.get(AUTHENTICATE_HOST, {}), "a session cookie was set")
    expect(not stage.is_signed_in(browser, ANYONE), "signed in")
    return REFUSED


def _callback_repeated(stage: Stage, host: str) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser, "alice", host)
    before = browser.fork()
    expect(stage.finish(browser, url).status == 200, "the first use was refused")
    exchanges = stage.idp.count("/token")
    outcome = refused(stage, before, url)
    expect(stage.idp.count("/token") == exchanges, "the code was sent to the provider again")
    return outcome


def _code_repeated(stage: Stage, host: str) -> Outcome:
    """The second time in a new sign-in, with its state and nonce."""
    browser, second = stage.browser(), stage.browser()
    url = stage.picked(browser, "alice", host)
    code = _params(url)["code"]
    expect(stage.finish(browser, url).status == 200, "the first use was refused")
    return refused(stage, second, _with(stage.picked(second, "alice", host), code=code))


def _code_of_another_tab(stage: Stage, host: str) -> Outcome:
    browser = stage.browser()
    first, second = stage.picked(browser, "alice", host), stage.picked(browser, "bob", host)
    return refused(stage, browser, _with(first, code=_params(second)["code"]))


def _states_swapped(stage: Stage, host: str) -> Outcome:
    browser = stage.browser()
    first, second = stage.picked(browser, "alice", host), stage.picked(browser, "bob", host)
    refused(stage, browser, _with(first, state=_params(second)["state"]))
    return refused(stage, browser, _with(second, state=_params(first)["state"]))


def _state_of_another_host(stage: Stage, host: str) -> Outcome:
    """A route host's attempt is no provider's attempt, though the browser has a cookie for both."""
    browser = stage.browser()
    url = stage.picked(browser, "alice", host)
    (name,) = (name for name in browser.cookies[host] if name.startswith("__Host-_gate_signin_"))
    browser.cookies[AUTHENTICATE_HOST] = {name: browser.cookies[host][name]}
    return refused(stage, browser, _with(url, state=name.removeprefix("__Host-_gate_signin_")))


# Of the callback's query: how it is bent.  {code}, {state}, {iss} are the right ones.
_QUERIES = {
    "nothing": "",
    "no state": "code={code}&iss={iss}",
    "an empty state": "code={code}&state=&iss={iss}",
    "no code": "state={state}&iss={iss}",
    "an empty code": "code=&state={state}&iss={iss}",
    "no issuer": "code={code}&state={state}",
    "an empty issuer": "code={code}&state={state}&iss=",
    "an issuer with a slash": "code={code}&state={state}&iss={iss}/",
    "another issuer": "code={code}&state={state}&iss=https%3A%2F%2Fevil.example",
    "the issuer twice": "code={code}&state={state}&iss={iss}&iss={iss}",
    "two issuers": "code={code}&state={state}&iss={iss}&iss=https%3A%2F%2Fevil.example",
    "the code twice": "code={code}&code={code}&state={state}&iss={iss}",
    "two codes": "code=x&code={code}&state={state}&iss={iss}",
    "two codes, the wrong one last": "code={code}&code=x&state={state}&iss={iss}",
    "the state twice": "code={code}&state={state}&state={state}&iss={iss}",
    "two states": "code={code}&state=x&state={state}&iss={iss}",
    "code and error": "code={code}&state={state}&iss={iss}&error=access_denied",
    "an error": "state={state}&iss={iss}&error=access_denied",
    "an unknown error": "state={state}&iss={iss}&error=%3Cscript%3E&error_description=%3Cscript%3E",
    "two errors": "state={state}&iss={iss}&error=a&error=b",
    "an error without a state": "error=access_denied&iss={iss}",
    "a state in upper case": "code={code}&state={upper_state}&iss={iss}",
    "a shortened state": "code={code}&state={short_state}&iss={iss}",
    "a longer state": "code={code}&state={state}A&iss={iss}",
    "a state with a space": "code={code}&state=%20{state}&iss={iss}",
    "a state with NUL": "code={code}&state={state}%00&iss={iss}",
    "a state that is no UTF-8": "code={code}&state=%ff%fe&iss={iss}",
    "a state that is a path": "code={code}&state=..%2F..%2F{state}&iss={iss}",
    "a state of 6,000 letters": "code={code}&state=" + "A" * 6000 + "&iss={iss}",
    "a state with a newline": "code={code}&state=%0d%0a{state}&iss={iss}",
    "a state with a semicolon": "code={code}&state={state};x=y&iss={iss}",
    "parameters after semicolons": "code={code};state={state};iss={iss}",
    "parameters in a list": "code%5B%5D={code}&state%5B%5D={state}&iss={iss}",
    "names in upper case": "CODE={code}&STATE={state}&ISS={iss}",
    "an ID token instead of a code": "id_token={code}&state={state}&iss={iss}",
    "a token response": "access_token=x&token_type=bearer&state={state}&iss={iss}",
    "a JWT response": "response=e30.e30.&state={state}&iss={iss}",
    "a hundred parameters": "code={code}&state={state}&iss={iss}&" + "&".join(f"p{number}=1" for number in range(100)),
    "a made-up code": "code=made-up&state={state}&iss={iss}",
    "a code with a newline": "code={code}%0d%0a&state={state}&iss={iss}",
    "a code of 6,000 letters": "code=" + "A" * 6000 + "&state={state}&iss={iss}",
}


def _bent_callback(stage: Stage, query: str) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser)
    params = _params(url)
    state = params["state"]
    names = {
        "code": params["code"],
        "state": state,
        "iss": quote(params["iss"], safe=""),
        "upper_state": state.swapcase(),
        "short_state": state[:-1],
    }
    return refused(stage, browser, f"{url.partition('?')[0]}?{query.format(**names)}")


def _callback_by(stage: Stage, method: str, label: str) -> Outcome:
    """response_mode=form_post was not asked for, and a HEAD must not use anything up."""
    browser = stage.browser()
    url = stage.picked(browser)
    query = urlsplit(url).query if label == "plain" else "code=x"
    sent, body = (url.partition("?")[0], query) if method == "POST" else (url, "")
    headers = (*HTML, ("Content-Type", "application/x-www-form-urlencoded"))
    answer = browser.open(sent, method=method, headers=headers, body=body)
    expect(answer.status < 500, f"answered with status {answer.status}")
    return anonymous(stage, browser)


_NONCES: dict[str, Any] = {
    "no nonce": ABSENT, "a null nonce": None, "an empty nonce": "", "another nonce": "A" * 43, "a nonce of zero": 0, "a true nonce": True,
    "a nonce list": [], "a nonce object": {}, "a nonce of NUL": "\x00", "a nonce that is not ASCII": "é" * 43, "a long nonce": "A" * 9000,
}  # fmt: skip


def _bent_nonce(stage: Stage, nonce: Any) -> Outcome:
    browser = stage.browser()
    url = stage.picked(browser)
    return with_claims(stage, browser, url, nonce=nonce)


def _nonce_of_another_attempt(stage: Stage) -> Outcome:
    browser = stage.browser()
    other = _params(stage.to_provider(stage.browser()))["nonce"]
    return with_claims(stage, browser, stage.picked(browser), nonce=other)


def with_claims(stage: Stage, browser: Browser, url: str, **claims: Any) -> Outcome:
    stage.bend.claims = claims
    try:
        return refused(stage, browser, url)
    finally:
        stage.provider.straighten()


def _starts_differ(stage: Stage) -> Outcome:
    seen: dict[str, set[str]] = {"state": set(), "nonce": set(), "code_challenge": set()}
    for _ in range(STARTS):
        params = _params(stage.to_provider(stage.browser()))
        expect(params["code_challenge_method"] == "S256" and params["response_type"] == "code", f"asked with {sorted(params)}")
        for name, values in seen.items():
            # 128 bits and more, in base64.
            expect(len(params[name]) >= 22, f"the {name} is only {len(params[name])} characters long")
            values.add(params[name])
    expect(all(len(values) == STARTS for values in seen.values()), "a value came twice")
    return REFUSED


def _verifier_is_sent(stage: Stage) -> Outcome:
    browser = stage.browser()
    authorization_url = stage.to_provider(browser)
    expect(stage.finish(browser, stage.idp.pick(authorization_url, "alice")).status == 200, "a straight sign-in was refused")
    form = next(request.form for request in reversed(stage.idp.requests) if request.path == "/token")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
    expect(len(form["code_verifier"]) >= 43 and challenge == _params(authorization_url)["code_challenge"], "the verifier does not fit")
    return ACCEPTED


def _params(url: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(url).query))


def _with(url: str, **params: str) -> str:
    return f"{url.partition('?')[0]}?{urlencode({**_params(url), **params})}"
