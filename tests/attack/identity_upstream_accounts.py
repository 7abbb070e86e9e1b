"""B55: can an account at a third-party MCP server be connected for another user, used by one, or its server exchanged?"""

import json
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from re import findall, sub
from urllib.parse import quote, urlencode, urljoin

from tests.attack.http_canary import Hit
from tests.attack.identity_agent_grants import listening
from tests.attack.identity_agents import FORMS_OF_PAGES
from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import Answer, Browser, Connections
from tests.attack.identity_stage import Provider, Stage, application, bendable_provider, shared_stage
from tests.attack.run import REFUSED, Outcome, expect
from tests.attack.target import new_marker
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET
from tests.support.fake_idp import Answer as Document
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder

THIRD, FOURTH, DISCOVERED, CLOSED = (f"{name}.localhost" for name in ("third", "fourth", "discovered", "closed"))
RESOURCE_METADATA, SERVER_METADATA = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
CONCURRENT = 6


@dataclass
class AccountStage(Stage):
    """Stage with routes to third-party MCP servers, whose authorization server is `third`."""

    third: Provider

    def resource(self, host: str = THIRD) -> str:
        return self.url(host, "/mcp")

    def signed_in(self, name: str = "alice", *hosts: str) -> Browser:
        """Return a browser with sessions at the authenticate host and at route hosts."""
        browser = self.browser()
        for host in (AUTHENTICATE_HOST, *(hosts or (THIRD,))):
            path = "/.gate/sessions" if host == AUTHENTICATE_HOST else "/nothing"
            answer = browser.open(self.url(host, path))
            for _ in range(6):
                if answer.status not in (302, 303):
                    break
                is_provider = answer.location.startswith(self.idp.issuer)
                answer = browser.open(self.idp.pick(answer.location, name) if is_provider else urljoin(answer.url, answer.location))
        return browser

    def press(self, browser: Browser, button: str, host: str = THIRD, **fields: str) -> Answer:
        """Send the form of the page of sessions."""
        token = findall(r'name="_gate_csrf" value="([^"]*)"', browser.open(self.authenticate + "/.gate/sessions").text)[0]
        body = urlencode({"_gate_csrf": token, button: self.resource(host), **fields})
        return browser.open(self.authenticate + "/.gate/connections", method="POST", headers=FORMS_OF_PAGES, body=body)

    def response(self, browser: Browser, name: str = "alice", host: str = THIRD) -> str:
        """Start a connection, and return the URL with which the server answers."""
        answer = self.press(browser, "connect", host)
        expect(answer.location.startswith(f"{self.third.idp.issuer}/authorize?"), f"answered with {answer.status} to {answer.location!r}")
        return self.third.idp.pick(answer.location, name)

    def connect(self, browser: Browser, name: str = "alice", host: str = THIRD) -> None:
        answer = browser.open(self.response(browser, name, host))
        expect(answer.status == 302, f"the account was not connected: {answer.status}")

    def disconnect(self, browser: Browser, host: str = THIRD) -> None:
        self.press(browser, "disconnect", host)

    def call(self, browser: Browser, host: str = THIRD, *headers: tuple[str, str]) -> tuple[int, list[Hit]]:
        """Return (status, requests that the upstream received)."""
        marker = new_marker()
        sent = (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"), ("X-Marker", marker.decode()))
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        answer = browser.open(self.url(host, "/mcp"), method="POST", headers=(*sent, *headers), body=body)
        return answer.status, self.ledger.hits(marker)

    def owner(self, hits: list[Hit]) -> str:
        """Return the user whose token the upstream received."""
        tokens = [token for hit in hits for token in findall(rb"(?im)^authorization: Bearer (\S+)\r$", hit.head)]
        expect(len(tokens) == 1, f"the upstream received {len(tokens)} tokens")
        return self.third.idp._access_tokens.get(tokens[0].decode(), "nobody")


@identity_attack("B55", "OAuth: responses of third-party servers in other hands", sample=12)
def responses(_: Stage) -> Iterator[Attempt]:
    for label, change in _RESPONSES.items():
        yield f"a response with {label}", partial(_altered, *change)
    yield "another user's response", partial(_in_another_browser, has_attempt=False)
    yield "another user's response and cookie", partial(_in_another_browser, has_attempt=True)
    yield "a response twice", _replayed
    yield "a response after the sign-out", _after_sign_out
    for label, fields in _FORGED.items():
        yield f"a form with {label}", partial(_forged, fields)
    yield "a link that connects", _link
    yield "a server that the policy denies", _denied


@identity_attack("B55", "OAuth: tokens of accounts at third-party servers", sample=8)
def tokens(_: Stage) -> Iterator[Attempt]:
    yield "each request has the token of its user", _own_tokens
    yield "no connection", _not_connected
    yield "a connection at another server", _at_another_server
    for label, header in _HEADERS.items():
        yield f"another user's token in {label}", partial(_token_sent, *header)
    for number in range(3):
        yield f"concurrent requests with an expired token, {number}", _refreshed_once
        yield f"a disconnection during a refresh, {number}", _disconnected_during_refresh


@identity_attack("B55", "OAuth: metadata of third-party servers", sample=10)
def metadata(_: Stage) -> Iterator[Attempt]:
    for label, (path, document) in _DOCUMENTS.items():
        yield f"metadata with {label}", partial(_document, path, document)
    yield "a redirect to this machine", _redirect
    yield "a document that does not arrive", _slow


_RESPONSES = {
    "another state": (r"state=[^&]+", "state=x"),
    "a state that is almost the same": (r"state=(.)", r"state=\1\1"),
    "no state": (r"state=[^&]+", "x=y"),
    "the state twice": (r"(state=[^&]+)", r"\1&\1"),
    "another issuer": (r"iss=[^&]+", f"iss={quote('https://evil.example', safe='')}"),
    "an issuer that is almost the same": (r"(iss=[^&]+)", r"\1%2F"),
    "two codes": (r"(code=[^&]+)", r"\1&code=x"),
    "another code": (r"code=[^&]+", "code=x"),
    "the address of another server": (r"third\.localhost", "fourth.localhost"),
    "the address of no server": (r"third\.localhost", "evil.example"),
    "an error": (r"code=", "error=access_denied&x="),
}
_FORGED: dict[str, dict[str, str]] = {
    "no CSRF token": {"_gate_csrf": ""},
    "an invented CSRF token": {"_gate_csrf": "x"},
    "another user's CSRF token": {"_gate_csrf": "STOLEN"},
}
_HEADERS = {
    "the header": ("Authorization", "Bearer {}"),
    "a header of programs": ("Authorization", "Gate {}"),
    "a header of another spelling": ("authorization ", "Bearer {}"),
    "a second header": ("Authorization", "Basic eDp5, Bearer {}"),
}


def _stage() -> AccountStage:
    stage = shared_stage("third-party accounts", _started)
    assert isinstance(stage, AccountStage)
    stage.third.straighten()
    return stage


def _has_no_account(stage: AccountStage, browser: Browser, host: str = THIRD) -> Outcome:
    status, hits = stage.call(browser, host)
    expect((status, hits) == (401, []), f"answered with {status}; the upstream received {len(hits)} requests")
    return REFUSED


def _fresh(stage: AccountStage, name: str = "alice", *hosts: str) -> Browser:
    """Return a signed-in browser of a user without connections."""
    browser = stage.signed_in(name, *hosts)
    for host in hosts or (THIRD,):
        stage.disconnect(browser, host)
    return browser


def _altered(pattern: str, replacement: str) -> Outcome:
    stage = _stage()
    browser = _fresh(stage)
    answer = browser.open(sub(pattern, replacement, stage.response(browser)))
    expect(answer.status == 400, f"answered with {answer.status} to {answer.location!r}")
    return _has_no_account(stage, browser)


def _in_another_browser(*, has_attempt: bool) -> Outcome:
    stage = _stage()
    browser, other = _fresh(stage), _fresh(stage, "bob")
    url = stage.response(browser)
    if has_attempt:
        other.cookies[AUTHENTICATE_HOST] |= {
            name: value for name, value in browser.cookies[AUTHENTICATE_HOST].items() if "_signin_" in name
        }
    before = stage.third.idp.count("/token")
    answer = other.open(url)
    expect(answer.status == 400, f"answered with {answer.status} to {answer.location!r}")
    expect(stage.third.idp.count("/token") == before, "the code was redeemed")
    return _has_no_account(stage, other)


def _replayed() -> Outcome:
    stage = _stage()
    browser = _fresh(stage)
    url, attempt = stage.response(browser), dict(browser.cookies[AUTHENTICATE_HOST])
    expect(browser.open(url).status == 302, "the account was not connected")
    stage.disconnect(browser)
    browser.cookies[AUTHENTICATE_HOST] |= attempt
    expect(browser.open(url).status == 400, "the response was accepted twice")
    return _has_no_account(stage, browser)


def _after_sign_out() -> Outcome:
    stage = _stage()
    browser = _fresh(stage)
    url, before = stage.response(browser), stage.third.idp.count("/token")
    token = findall(r'name="_gate_csrf" value="([^"]*)"', browser.open(stage.authenticate + "/.gate/sessions").text)[0]
    saved = dict(browser.cookies[AUTHENTICATE_HOST])
    body = urlencode({"_gate_csrf": token})
    browser.open(stage.authenticate + "/.gate/signout/", method="POST", headers=FORMS_OF_PAGES, body=body)
    browser.cookies[AUTHENTICATE_HOST] = saved
    expect(browser.open(url).status == 400, "the response was accepted")
    expect(stage.third.idp.count("/token") == before, "the code was redeemed")
    return _has_no_account(stage, stage.signed_in())


def _forged(fields: dict[str, str]) -> Outcome:
    stage = _stage()
    browser = _fresh(stage)
    (stolen, *_) = findall(r'name="_gate_csrf" value="([^"]*)"', stage.signed_in("bob").open(stage.authenticate + "/.gate/sessions").text)
    sent = {name: stolen if value == "STOLEN" else value for name, value in fields.items()}
    answer = stage.press(browser, "connect", **sent)
    expect(answer.status in (400, 403) and not answer.location, f"answered with {answer.status} to {answer.location!r}")
    stage.connect(browser)
    stage.press(browser, "disconnect", **sent)
    expect(stage.owner(stage.call(browser)[1]) == "alice", "the account was disconnected")
    return REFUSED


def _link() -> Outcome:
    stage = _stage()
    answer = _fresh(stage).open(f"{stage.authenticate}/.gate/connections?{urlencode({'connect': stage.resource()})}")
    expect(answer.status == 405 and not answer.location, f"answered with {answer.status} to {answer.location!r}")
    return REFUSED


def _denied() -> Outcome:
    stage = _stage()
    answer = stage.press(stage.signed_in(), "connect", CLOSED)
    expect(answer.status == 403 and not answer.location, f"answered with {answer.status} to {answer.location!r}")
    return REFUSED


def _own_tokens() -> Outcome:
    stage = _stage()
    browsers = {name: _fresh(stage, name) for name in ("alice", "bob")}
    for name, browser in browsers.items():
        stage.connect(browser, name)
    for _ in range(3):
        for name, browser in browsers.items():
            status, hits = stage.call(browser)
            expect((status, stage.owner(hits)) == (200, name), f"a request of {name} had another token")
    return REFUSED


def _not_connected() -> Outcome:
    stage = _stage()
    stage.connect(_fresh(stage), "alice")
    return _has_no_account(stage, _fresh(stage, "bob"))


def _at_another_server() -> Outcome:
    stage = _stage()
    browser = _fresh(stage, "alice", THIRD, FOURTH)
    stage.connect(browser)
    return _has_no_account(stage, browser, FOURTH)


def _token_sent(name: str, value: str) -> Outcome:
    """Send the token of another user, as if the third party had leaked it."""
    stage = _stage()
    stage.connect(_fresh(stage), "alice")
    stolen = next(token for token, owner in stage.third.idp._access_tokens.items() if owner == "alice")
    bob = _fresh(stage, "bob")
    stage.connect(bob, "bob")
    status, hits = stage.call(bob, THIRD, (name, value.format(stolen)))
    expect(status in (200, 400, 401, 403), f"answered with {status}")
    for hit in hits:
        expect(stage.owner([hit]) == "bob" and stolen.encode() not in hit.head, "the upstream received another token")
    return REFUSED


def _together(stage: AccountStage, browser: Browser) -> list[tuple[int, list[Hit]]]:
    """Send requests at once, each over a separate connection."""

    def send(_: int) -> tuple[int, list[Hit]]:
        connections = Connections(stage.gate.port, stage.tls)
        try:
            copy = Browser(connections)
            copy.cookies = browser.fork().cookies
            return stage.call(copy)
        finally:
            connections.close()

    with ThreadPoolExecutor(CONCURRENT) as pool:
        return list(pool.map(send, range(CONCURRENT)))


def _expiring(stage: AccountStage) -> Browser:
    """Return a browser of a user whose access token has expired."""
    browser = _fresh(stage)
    stage.third.idp.lifetime = 1
    stage.connect(browser)
    stage.third.idp.lifetime = 3600
    time.sleep(1)
    return browser


def _refreshed_once() -> Outcome:
    stage = _stage()
    browser = _expiring(stage)
    before = stage.third.idp.count("/token")
    answers = _together(stage, browser)
    expect({status for status, _ in answers} == {200}, f"answered with {[status for status, _ in answers]}")
    expect({stage.owner(hits) for _, hits in answers} == {"alice"}, "a request had another token")
    expect(stage.third.idp.count("/token") == before + 1, f"{stage.third.idp.count('/token') - before} refreshes")
    return REFUSED


def _disconnected_during_refresh() -> Outcome:
    stage = _stage()
    browser = _expiring(stage)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(_together, stage, browser)
        connections = Connections(stage.gate.port, stage.tls)
        copy = Browser(connections)
        copy.cookies = browser.fork().cookies
        stage.disconnect(copy)
        connections.close()
        answers = running.result()
    expect({status for status, _ in answers} <= {200, 401, 503}, f"answered with {[status for status, _ in answers]}")
    return _has_no_account(stage, browser)


_SERVERS = {"resource": "ISSUER/mcp", "authorization_servers": ["ISSUER"]}
_ENDPOINTS = {
    "issuer": "ISSUER",
    "authorization_endpoint": "ISSUER/authorize",
    "token_endpoint": "ISSUER/token",
    "code_challenge_methods_supported": ["S256"],
    "client_id_metadata_document_supported": True,
}
_DOCUMENTS: dict[str, tuple[str, object]] = {
    "another resource": (RESOURCE_METADATA, {**_SERVERS, "resource": "https://evil.example/mcp"}),
    "a resource that begins the same": (RESOURCE_METADATA, {**_SERVERS, "resource": "ISSUER/mc"}),
    "no server": (RESOURCE_METADATA, {**_SERVERS, "authorization_servers": []}),
    "a server without TLS": (RESOURCE_METADATA, {**_SERVERS, "authorization_servers": ["http://evil.example"]}),
    **{
        f"a server at {host}": (RESOURCE_METADATA, {**_SERVERS, "authorization_servers": [f"https://{host}"]})
        for host in ("169.254.169.254", "10.0.0.1", "192.168.0.1", "100.64.0.1", "[fd00::1]", "[::ffff:10.0.0.1]", "0.0.0.0", "[fe80::1]")
    },
    "a server that is a file": (RESOURCE_METADATA, {**_SERVERS, "authorization_servers": ["file:///etc/passwd"]}),
    "another issuer": (SERVER_METADATA, {**_ENDPOINTS, "issuer": "https://evil.example"}),
    "no challenge method": (SERVER_METADATA, {**_ENDPOINTS, "code_challenge_methods_supported": ["plain"]}),
    "a token endpoint without TLS": (SERVER_METADATA, {**_ENDPOINTS, "token_endpoint": "http://evil.example/token"}),
    "an authorization endpoint of a script": (SERVER_METADATA, {**_ENDPOINTS, "authorization_endpoint": "javascript:alert(1)"}),
    "no authorization endpoint": (SERVER_METADATA, {**_ENDPOINTS, "authorization_endpoint": ""}),
    "no client documents": (SERVER_METADATA, {**_ENDPOINTS, "client_id_metadata_document_supported": False}),
    "a large document": (SERVER_METADATA, {**_ENDPOINTS, "padding": "x" * 100_000}),
    "a list": (SERVER_METADATA, [_ENDPOINTS]),
    "a deep document": (SERVER_METADATA, "[" * 60_000),
}


def _publish(stage: AccountStage, path: str, document: object) -> None:
    issuer = stage.third.idp.issuer
    for each, content in {RESOURCE_METADATA: _SERVERS, SERVER_METADATA: _ENDPOINTS, path: document}.items():
        text = content if isinstance(content, str) else json.dumps(content)
        stage.third.idp.bend.answers[each] = Document(200, text.replace("ISSUER", issuer).encode(), "application/json")


def _refuses_to_connect(stage: AccountStage) -> Outcome:
    answer = stage.press(stage.signed_in("alice", DISCOVERED), "connect", DISCOVERED)
    expect(answer.status == 503 and not answer.location, f"answered with {answer.status} to {answer.location!r}")
    return REFUSED


def _document(path: str, document: object) -> Outcome:
    stage = _stage()
    _publish(stage, path, document)
    return _refuses_to_connect(stage)


def _redirect() -> Outcome:
    stage = _stage()
    with listening() as (port, is_dialled):
        location = {"Location": f"http://127.0.0.1:{port}/{secrets.token_hex(4)}"}
        _publish(stage, SERVER_METADATA, _ENDPOINTS)
        stage.third.idp.bend.answers[RESOURCE_METADATA] = Document(302, b"", "application/json", location)
        _refuses_to_connect(stage)
        expect(not is_dialled(), "gate has followed the redirect")
    return REFUSED


def _slow() -> Outcome:
    stage = _stage()
    _publish(stage, SERVER_METADATA, _ENDPOINTS)
    stage.third.idp.bend.answers[RESOURCE_METADATA] = Document(200, json.dumps(_SERVERS).encode(), delay=30)
    started = time.monotonic()
    _refuses_to_connect(stage)
    expect(time.monotonic() - started < 25, "gate waited for the document")
    return REFUSED


@contextmanager
def _started(directory: Path) -> Iterator[AccountStage]:
    with application() as upstream, bendable_provider() as provider, bendable_provider() as third:
        to, issuer = f"http://127.0.0.1:{upstream.port}", third.idp.issuer
        settings = {
            "client_id": CLIENT_ID,
            "client_secret": CLIENT_SECRET,
            "authorization_url": f"{issuer}/authorize",
            "token_url": f"{issuer}/token",
            "issuer": issuer,
        }
        builder = GateBuilder(provider.idp.issuer)
        for host, oauth, access in (
            (THIRD, settings, {"allow_any_authenticated_user": True}),
            (FOURTH, settings, {"allow_any_authenticated_user": True}),
            (DISCOVERED, {"resource": f"{issuer}/mcp"}, {"allow_any_authenticated_user": True}),
            (CLOSED, settings, {"allowed_users": ["nobody@corp.example"]}),
        ):
            builder.route(host, to=to, mcp={"path": "/mcp", "upstream_oauth": oauth}, **access)
        builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET)
        with builder.start(directory) as gate:
            tls = gate.certificates.client_context()
            connections = Connections(gate.port, tls)
            try:
                yield AccountStage(gate, provider, upstream, connections, tls, third)
            finally:
                connections.close()
