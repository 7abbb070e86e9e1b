"""B55: can a page, a client or a stranger extend what a user allowed: consents, scopes, registrations, documents, races with the end?"""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from re import findall
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.attack.identity_agents import (
    CALLBACK,
    CLIENT,
    FORM,
    FORMS_OF_PAGES,
    OTHER_CLIENT,
    OTHER_TOOLS,
    SCOPES,
    TOOLS,
    VERIFIER,
    AgentStage,
    agent_stage,
)
from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import Answer, Browser, Connections
from tests.attack.identity_stage import Stage
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.gate import AUTHENTICATE_HOST

READ, WRITE = SCOPES
CONCURRENT = 6
MAX_REGISTERED = 20  # of one network in an hour
FLOOD = 120


@identity_attack("B55", "OAuth: consents that no user gave", sample=25)
def consents(_: Stage) -> Iterator[Attempt]:
    for label, changed in _REQUESTS.items():
        yield f"the page of {label} in a frame", partial(_framed, changed)
    for label, query in _PREFILLED.items():
        yield f"a link with {label}", partial(_prefilled, query)
    for label, fields in _FORGED.items():
        yield f"a form with {label}", partial(_forged, fields)


@identity_attack("B55", "OAuth: responses that name another server", sample=20)
def issuers(_: Stage) -> Iterator[Attempt]:
    for label, changed in _ERRORS.items():
        yield f"iss of the error for {label}", partial(_issuer_of_error, changed)
    yield "iss of a code", _issuer_of_code


@identity_attack("B55", "OAuth: scopes that no user allowed", sample=20)
def scopes(_: Stage) -> Iterator[Attempt]:
    for scope in _OTHER_SCOPES:
        yield f"authorization with {scope!r}", partial(_scope_refused, scope)
        yield f"refresh with {scope!r}", partial(_refreshed, scope)
    yield "code with another scope", _redeemed_with_scope
    yield "refresh for another resource", _refreshed_elsewhere
    yield "a refresh may narrow, and return to what was allowed", _narrowed


@identity_attack("B55", "OAuth: clients that fetch or flood", sample=30)
def clients(_: Stage) -> Iterator[Attempt]:
    for url in _INTERNAL:
        yield f"document at {url}", partial(_document, url)
    for label, content in _REGISTRATIONS.items():
        yield f"registration with {label}", partial(_registration, content)
    yield "a flood of registrations", _flood


@identity_attack("B55", "OAuth: races with the end of a grant", sample=8)
def races(_: Stage) -> Iterator[Attempt]:
    for number in range(6):
        yield f"a code from several connections, {number}", _concurrent_codes
        yield f"a refresh token from several connections, {number}", _concurrent_refreshes
        yield f"revocation among refreshes, {number}", partial(_revoked_among, _refresh_form)
        yield f"revocation among redemptions, {number}", partial(_revoked_among, _code_form)


_REQUESTS: dict[str, dict[str, str]] = {
    "a consent": {},
    "an unknown client": {"client_id": "unknown"},
    "an unregistered URI": {"redirect_uri": "https://evil.example/"},
    "a long request": {"state": "x" * 3000},
}
_PREFILLED = {
    "a decision": {"decision": "allow"},
    "a decision and an invented token": {"decision": "allow", "_gate_csrf": "x"},
    "prompt=none": {"prompt": "none"},
    "approval_prompt=auto": {"approval_prompt": "auto"},
}
_FORGED: dict[str, dict[str, str]] = {
    "no CSRF token": {},
    "an invented CSRF token": {"_gate_csrf": "x"},
    "another user's CSRF token": {"_gate_csrf": "STOLEN"},
}
_ERRORS: dict[str, dict[str, str]] = {
    "a response type": {"response_type": "token"},
    "no challenge": {"code_challenge": ""},
    "a plain challenge": {"code_challenge_method": "plain"},
    "an unknown resource": {"resource": "https://unknown.example"},
    "an unknown scope": {"scope": "admin"},
    "an issuer in the request": {"iss": "https://evil.example", "scope": "admin"},
    "an issuer in the state": {"state": "x&iss=https://evil.example", "scope": "admin"},
}
_OTHER_SCOPES = (
    "admin",
    f"{READ} admin",
    f"{READ},{WRITE}",
    READ.upper(),
    "openid",
    "*",
    f"{READ}x",
    f"{READ}\u00a0{WRITE}",
    f"{READ}\t{WRITE}",
)
_HOSTS = (
    *("127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0.0.0.0", "[::1]", "[::]"),
    *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "user@127.0.0.1", "public.example@127.0.0.1", "127.0.0.1%23.example"),
)
_INTERNAL = (
    *(f"https://{host}:PORT/client.json" for host in _HOSTS),
    *("http://127.0.0.1:PORT/client.json", "https://127.0.0.1:PORT", "https://127.0.0.1:PORT/?x", "https://127.0.0.1:PORT/a#x"),
    *(
        "https://evil.example\\@127.0.0.1:PORT/x",
        "https://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "gopher://127.0.0.1:PORT/x",
    ),
)
_REGISTRATIONS: dict[str, Any] = {
    "a URI of a scheme": {"redirect_uris": ["javascript:alert(1)"], "client_name": "x"},
    "a plain URI": {"redirect_uris": ["http://evil.example/"], "client_name": "x"},
    "a fragment": {"redirect_uris": [f"{CALLBACK}#x"], "client_name": "x"},
    "many URIs": {"redirect_uris": [CALLBACK] * 1000, "client_name": "x"},
    "no URI": {"redirect_uris": [], "client_name": "x"},
    "a reversed name": {"redirect_uris": [CALLBACK], "client_name": "gate\u202etxt.exe"},
    "a long name": {"redirect_uris": [CALLBACK], "client_name": "x" * 10_000},
    "no object": [{"redirect_uris": [CALLBACK], "client_name": "x"}],
}


def _consent_page(stage: AgentStage, browser: Browser, **changed: str) -> Answer:
    """Open the page for scopes that no other case allows: consents are remembered."""
    return browser.open(stage.authorize_url(client_id=OTHER_CLIENT, **changed))


def _framed(changed: dict[str, str]) -> Outcome:
    stage = agent_stage()
    browser = stage.signed_in()
    for headers in ((("Accept", "text/html"), ("Sec-Fetch-Dest", "iframe"), ("Sec-Fetch-Mode", "navigate")), FORMS_OF_PAGES):
        answer = browser.open(stage.authorize_url(**{"client_id": OTHER_CLIENT, **changed}), headers=headers)
        expect(answer.header("x-frame-options") == "DENY", f"the page with status {answer.status} can be framed")
        expect("frame-ancestors 'none'" in answer.header("content-security-policy"), "the policy allows frames")
    return REFUSED


def _prefilled(query: dict[str, str]) -> Outcome:
    stage = agent_stage()
    answer = _consent_page(stage, stage.signed_in(), **query)
    expect(answer.status == 200 and "Build agent" in answer.text, f"answered with {answer.status} to {answer.location!r}")
    return REFUSED


def _forged(fields: dict[str, str]) -> Outcome:
    stage = agent_stage()
    browser = stage.signed_in()
    (stolen,) = findall(r'name="_gate_csrf" value="([^"]*)"', _consent_page(stage, stage.signed_in("bob")).text)
    form = {name: stolen if value == "STOLEN" else value for name, value in fields.items()} | {"decision": "allow"}
    url = stage.authorize_url(client_id=OTHER_CLIENT)
    for origin in ((), (("Origin", "https://evil.example"),), (("Origin", "null"),)):
        answer = browser.open(url, method="POST", headers=(*FORMS_OF_PAGES, *origin), body=urlencode(form))
        expect(answer.status in (200, 403) and not answer.location, f"answered with {answer.status} to {answer.location!r}")
    expect(_consent_page(stage, browser).status == 200, "the consent was recorded")
    return REFUSED


def _parameters(location: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(location).query)


def _issuer_of_error(changed: dict[str, str]) -> Outcome:
    stage = agent_stage()
    for browser in (stage.browser(), stage.signed_in()):
        location = browser.open(stage.authorize_url(**changed)).location
        found = _parameters(location)
        expect(location.startswith(f"{CALLBACK}?") and "error" in found and "code" not in found, f"redirected to {location!r}")
        expect(found.get("iss") == [stage.authenticate], f"iss is {found.get('iss')}")
        expect(found.get("state") == [changed.get("state", "s")], f"state is {found.get('state')}")
    return REFUSED


def _issuer_of_code() -> Outcome:
    stage = agent_stage()
    browser = stage.signed_in()
    url = stage.authorize_url(iss="https://evil.example", state="x&iss=https://evil.example")
    page = browser.open(url)
    location = stage.decide(browser, page, decision="allow").location if page.status == 200 else page.location
    found = _parameters(browser.open(stage.idp.pick(location, "alice")).location)
    expect(found.get("iss") == [stage.authenticate] and len(found.get("code", [])) == 1, f"the response has {sorted(found)}")
    return ACCEPTED


def _code(stage: AgentStage, scope: str = "") -> str:
    """Return a code for these scopes, for all without."""
    browser = stage.signed_in()
    page = browser.open(stage.authorize_url(**({"scope": scope} if scope else {})))
    location = stage.decide(browser, page, decision="allow").location if page.status == 200 else page.location
    return _parameters(browser.open(stage.idp.pick(location, "alice")).location)["code"][0]


def _tokens(stage: AgentStage, scope: str = "") -> dict[str, Any]:
    status, tokens = stage.redeem(_code(stage, scope))
    expect(status == 200, f"the code was refused: {tokens}")
    return tokens


def _refresh_form(token: str) -> dict[str, str]:
    return {"grant_type": "refresh_token", "client_id": CLIENT, "refresh_token": token}


def _scope_refused(scope: str) -> Outcome:
    stage = agent_stage()
    found = _parameters(stage.signed_in().open(stage.authorize_url(scope=scope)).location)
    expect(found.get("error") == ["invalid_scope"] and "code" not in found, f"the response has {found}")
    return REFUSED


def _refreshed(scope: str) -> Outcome:
    stage = agent_stage()
    token = _tokens(stage, READ)["refresh_token"]
    for each in (scope, WRITE, f"{READ} {WRITE}"):
        status, body = stage.post("token", **_refresh_form(token), scope=each)
        expect(status == 400 and "access_token" not in body, f"{each!r}: answered with {status}: {body}")
    expect(stage.post("token", **_refresh_form(token))[1].get("scope") == READ, "the attempt cost the client its token")
    return REFUSED


def _redeemed_with_scope() -> Outcome:
    stage = agent_stage()
    status, tokens = stage.redeem(_code(stage, READ), scope=f"{READ} {WRITE}")
    expect(status != 200 or tokens["scope"] == READ, f"answered with {status}: the scope is {tokens.get('scope')}")
    return REFUSED


def _refreshed_elsewhere() -> Outcome:
    stage = agent_stage()
    status, body = stage.post("token", **_refresh_form(_tokens(stage)["refresh_token"]), resource=stage.resource(OTHER_TOOLS))
    expect((status, body.get("error")) == (400, "invalid_target"), f"answered with {status}: {body}")
    return REFUSED


def _narrowed() -> Outcome:
    stage = agent_stage()
    narrow = stage.post("token", **_refresh_form(_tokens(stage)["refresh_token"]), scope=WRITE)[1]
    wide = stage.post("token", **_refresh_form(narrow["refresh_token"]))[1]
    expect((narrow["scope"], set(wide["scope"].split())) == (WRITE, set(SCOPES)), "the scopes differ")
    return ACCEPTED


def _document(url: str) -> Outcome:
    stage = agent_stage()
    with listening() as (port, is_dialled):
        answer = stage.signed_in().open(stage.authorize_url(client_id=url.replace("PORT", str(port))))
        expect(answer.status == 400 and not answer.location, f"answered with {answer.status} to {answer.location!r}")
        expect(not is_dialled(), "gate has connected to this machine")
    return REFUSED


@contextmanager
def listening() -> Iterator[tuple[int, Callable[[], bool]]]:
    """Yield (port of every address of this machine, whether someone has connected)."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        server.setblocking(False)

        def is_dialled() -> bool:
            try:
                server.accept()[0].close()
            except BlockingIOError:
                return False
            return True

        yield server.getsockname()[1], is_dialled


def _register(stage: AgentStage, content: Any) -> Answer:
    headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
    return stage.browser().open(
        stage.url(AUTHENTICATE_HOST, "/.gate/oauth/register"), method="POST", headers=headers, body=json.dumps(content)
    )


def _registration(content: Any) -> Outcome:
    answer = _register(agent_stage(), content)
    expect(answer.status in (400, 413), f"answered with {answer.status}")
    return REFUSED


def _flood() -> Outcome:
    stage = agent_stage()
    statuses = [_register(stage, {"redirect_uris": [CALLBACK], "client_name": f"x{number}"}).status for number in range(FLOOD)]
    expect(statuses.count(201) <= MAX_REGISTERED, f"gate has registered {statuses.count(201)} clients")
    expect(set(statuses[MAX_REGISTERED:]) == {429}, f"answered with {set(statuses)}")
    _tokens(stage)
    return REFUSED


def _together(stage: AgentStage, requests: Sequence[tuple[str, dict[str, str]]]) -> list[tuple[int, dict[str, Any]]]:
    """Send forms (path, fields) at once, each over a separate connection."""

    def send(request: tuple[str, dict[str, str]]) -> tuple[int, dict[str, Any]]:
        connections = Connections(stage.gate.port, stage.tls)
        try:
            url = stage.url(AUTHENTICATE_HOST, f"/.gate/oauth/{request[0]}")
            answer = Browser(connections).open(url, method="POST", headers=FORM, body=urlencode(request[1]))
        finally:
            connections.close()
        return answer.status, json.loads(answer.text) if answer.text.startswith("{") else {}

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(send, requests))


def _code_form(stage: AgentStage) -> dict[str, str]:
    form = {"grant_type": "authorization_code", "client_id": CLIENT, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return {**form, "code": _code(stage), "resource": stage.resource()}


def _concurrent_codes() -> Outcome:
    stage = agent_stage()
    answers = _together(stage, [("token", _code_form(stage))] * CONCURRENT)
    return _expect_single_issue(stage, answers)


def _concurrent_refreshes() -> Outcome:
    stage = agent_stage()
    answers = _together(stage, [("token", _refresh_form(_tokens(stage)["refresh_token"]))] * CONCURRENT)
    return _expect_single_issue(stage, answers)


def _expect_single_issue(stage: AgentStage, answers: list[tuple[int, dict[str, Any]]]) -> Outcome:
    issued = [body for status, body in answers if status == 200]
    expect(len(issued) <= 1, f"{len(issued)} of {len(answers)} got tokens")
    expect(all(status == 400 for status, body in answers if body not in issued), f"answered with {[status for status, _ in answers]}")
    for tokens in issued:
        _expect_ended(stage, tokens)
    return REFUSED


def _revoked_among(form: Callable[..., dict[str, str]]) -> Outcome:
    """Revoke a grant while its client refreshes, or redeems the code again: no token that was issued during it works."""
    stage = agent_stage()
    first = _code_form(stage)
    status, tokens = stage.post("token", **first)
    expect(status == 200, f"the code was refused: {tokens}")
    repeated = _refresh_form(tokens["refresh_token"]) if form is _refresh_form else first
    revocation = ("revoke", {"client_id": CLIENT, "token": tokens["access_token"]})
    answers = _together(stage, [("token", repeated), revocation, ("token", repeated)])
    expect(answers[1][0] == 200, f"the revocation was answered with {answers[1][0]}")
    for issued in (tokens, *(body for _, body in answers if "access_token" in body)):
        _expect_ended(stage, issued)
    return REFUSED


def _expect_ended(stage: AgentStage, tokens: dict[str, Any]) -> None:
    expect(stage.post("token", **_refresh_form(tokens["refresh_token"]))[0] == 400, "the refresh token is accepted")
    expect(stage.call(TOOLS, "/mcp", ("Authorization", f"Bearer {tokens['access_token']}")) == 401, "the access token is accepted")
