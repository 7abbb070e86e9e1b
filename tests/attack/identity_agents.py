"""B55: can codes and tokens of the authorization server be guessed, replayed, redirected, or used for another client, user or resource?"""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from itertools import product
from pathlib import Path
from re import findall
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Answer, Browser, Connections
from tests.attack.identity_stage import ANYONE, Stage, application, bendable_provider, shared_stage
from tests.attack.run import ACCEPTED, REFUSED, Outcome, expect
from tests.support.children import free_port
from tests.support.client_keys import public_jwk
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET
from tests.support.fork_server import run
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder

TOOLS, OTHER_TOOLS = "tools.localhost", "othertools.localhost"
MIXED = "mixed.localhost"  # an MCP server with an application at one path
DATABASE, DATABASE_PORT, OTHER_DATABASE_PORT = "db.localhost", 5432, 5433
CALLBACK, LOOPBACK = "https://client.example.com/callback", "http://127.0.0.1/callback"
CLIENT, OTHER_CLIENT, DEVICE_CLIENT, KEY_CLIENT = "ticket-agent", "build-agent", "build-box", "key-agent"
CLIENT_ENTRIES = [
    {"id": CLIENT, "name": "Ticket agent", "redirect_uris": [CALLBACK, LOOPBACK]},
    {"id": OTHER_CLIENT, "name": "Build agent", "redirect_uris": [CALLBACK]},
    {"id": DEVICE_CLIENT, "name": "Build box", "device_authorization": True},
    {"id": KEY_CLIENT, "name": "Key agent", "redirect_uris": [CALLBACK], "jwks_file": "keys.json"},
]
SCOPES = {"tools:read": "Use tools that read", "tools:write": "Use tools that write"}
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
FORM = (("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json"))
FORMS_OF_PAGES = (*HTML, ("Content-Type", "application/x-www-form-urlencoded"))

_EVIL = (
    *("https://evil.example/", "https://client.example.com.evil.example/callback", "javascript:alert(1)", "data:text/html,x"),
    "//evil.example",
)
_ENDS = ("/", "/..", "?x", "#x", "%2f", ";x", "/%2e%2e/x", "\\", " ", ":80", "@evil")
REDIRECT_URIS = tuple(
    dict.fromkeys(
        [
            *_EVIL,
            *(
                f"{base}{end}"
                for base, end in product(
                    (CALLBACK, LOOPBACK), ("/", "/..", "?x", "#x", "%2f", ";x", "/%2e%2e/x", "\\", " ", ":80", "@evil")
                )
            ),
            CALLBACK.replace("https", "http"),
            CALLBACK.replace("https", "HTTPS"),
            CALLBACK.replace("client.", "CLIENT."),
            CALLBACK.replace("client.", "client@evil."),
            CALLBACK.replace(".com", ".com:8443"),
            CALLBACK.replace(".com", ".com."),
            LOOPBACK.replace("127.0.0.1", "localhost"),
            LOOPBACK.replace("127.0.0.1", "127.0.0.2"),
            LOOPBACK.replace("127.0.0.1", "127.1"),
            LOOPBACK.replace("127.0.0.1", "127.0.0.1@evil.example"),
            LOOPBACK.replace("127.0.0.1", "[::1]"),
            LOOPBACK.replace("http", "https"),
        ]
    )
)


class AgentStage(Stage):
    """Stage with MCP servers, tunnels, three OAuth clients, and a service account."""

    account_secret = ""

    def resource(self, host: str = TOOLS) -> str:
        return self.url(host, "/mcp")

    def post(self, path: str, **form: str) -> tuple[int, dict[str, Any]]:
        answer = self.browser().open(self.url(AUTHENTICATE_HOST, f"/.gate/oauth/{path}"), method="POST", headers=FORM, body=urlencode(form))
        return answer.status, json.loads(answer.text) if answer.text.startswith("{") else {}

    def redeem(self, code: str, **changed: str) -> tuple[int, dict[str, Any]]:
        form = {"client_id": CLIENT, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, "resource": self.resource(), **changed}
        return self.post("token", grant_type="authorization_code", code=code, **form)

    def poll(self, device_code: str, **changed: str) -> tuple[int, dict[str, Any]]:
        return self.post("token", **{"grant_type": DEVICE_GRANT, "client_id": DEVICE_CLIENT, "device_code": device_code, **changed})

    def authorize_url(self, **changed: str) -> str:
        form = {"response_type": "code", "client_id": CLIENT, "redirect_uri": CALLBACK, "resource": self.resource(), "state": "s"}
        query = urlencode({**form, "code_challenge": CHALLENGE, "code_challenge_method": "S256", **changed})
        return self.url(AUTHENTICATE_HOST, f"/.gate/oauth/authorize?{query}")

    def code(self, browser: Browser, sub: str = "alice", **changed: str) -> str:
        """Return the code that the client receives after the user's consent."""
        page = browser.open(self.authorize_url(**changed))
        location = self.decide(browser, page, decision="allow").location if page.status == 200 else page.location
        answer = browser.open(self.idp.pick(location, sub))
        return parse_qs(urlsplit(answer.location).query)["code"][0]

    def decide(self, browser: Browser, page: Answer, **fields: str) -> Answer:
        """Send the form of a page with its hidden fields."""
        (action,) = findall(r'<form method="post" action="([^"]+)"', page.text)
        hidden = dict(findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
        url = urljoin(page.url, unescape(action))
        return browser.open(url, method="POST", headers=FORMS_OF_PAGES, body=urlencode({**hidden, **fields}))

    def start_device(self) -> dict[str, Any]:
        status, started = self.post("device_authorization", client_id=DEVICE_CLIENT, resource=self.resource())
        expect(status == 200, f"the device was refused: {started}")
        return started

    def signed_in(self, sub: str = "alice") -> Browser:
        browser = self.browser()
        expect(self.sign_in(browser, sub).status == 200, "the sign-in failed")
        return browser

    def call(self, host: str, path: str, *headers: tuple[str, str]) -> int:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        sent = (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"), *headers)
        return self.browser().open(self.url(host, path), method="POST", headers=sent, body=body).status


@identity_attack("B55", "OAuth: redirect URIs that are almost registered", sample=20)
def redirect_uris(_: Stage) -> Iterator[Attempt]:
    for uri, is_signed_in in product(REDIRECT_URIS, (False, True)):
        yield f"{uri!r}, {'with' if is_signed_in else 'without'} a session", partial(_redirects, uri, is_signed_in)
    yield "a registered URI is accepted", _accepts_registered


@identity_attack("B55", "OAuth: codes and tokens in other hands", sample=40)
def credentials(_: Stage) -> Iterator[Attempt]:
    for label, changed in _OTHER_REDEMPTIONS.items():
        yield f"code redeemed with {label}", partial(_redeemed_otherwise, changed)
    yield "a code twice", _code_reused
    yield "an old refresh token", _old_refresh_token
    for kind, (label, where) in product(("user", "service account"), _PLACES.items()):
        yield f"token of a {kind} {label}", partial(_presented, kind, *where)
    for kind, position in product(("user", "service account"), range(8, 95, 6)):
        yield f"token of a {kind} with another character at {position}", partial(_altered, kind, position)
    for label, changed in _ACCOUNT_REQUESTS.items():
        yield f"service account with {label}", partial(_account_refused, changed)


@identity_attack("B55", "OAuth: devices that no user allowed", sample=25)
def devices(_: Stage) -> Iterator[Attempt]:
    for label, query in _LINKS.items():
        yield f"a link with {label}", partial(_link, query)
    for label, fields in _FORGED_FORMS.items():
        yield f"a form with {label}", partial(_forged_form, fields)
    for position in range(8, 95, 8):
        yield f"a device code with another character at {position}", partial(_altered_device_code, position)
    for label, changed in _OTHER_POLLS.items():
        yield f"polled with {label}", partial(_polled_otherwise, changed)
    yield "another account at the provider", _other_account
    yield "a device code twice", _device_code_reused


_OTHER_REDEMPTIONS: dict[str, dict[str, str]] = {
    "another client": {"client_id": OTHER_CLIENT},
    "the client of devices": {"client_id": DEVICE_CLIENT},
    "an unknown client": {"client_id": "unknown"},
    "another verifier": {"code_verifier": "w" * 64},
    "the challenge as its verifier": {"code_verifier": CHALLENGE},
    "another redirect URI": {"redirect_uri": LOOPBACK},
    "another resource": {"resource": "OTHER"},
    "no resource": {"resource": ""},
    "another grant type": {"grant_type": "refresh_token"},
    "the grant type of devices": {"grant_type": DEVICE_GRANT},
}
_PLACES: dict[str, tuple[str, str, str]] = {
    "at another server": (OTHER_TOOLS, "/mcp", "Bearer {}"),
    "at another path": (TOOLS, "/other", "Bearer {}"),
    "at a prefix of the path": (TOOLS, "/mcpx", "Bearer {}"),
    "at an encoded path": (TOOLS, "/%6dcp/../other", "Bearer {}"),
    "at an application": (ANYONE, "/", "Bearer {}"),
    "at the authenticate host": (AUTHENTICATE_HOST, "/.gate/api/v1/sessions", "Bearer {}"),
    "with the scheme of programs": (TOOLS, "/mcp", "Gate {}"),
    "with the prefix of programs": (TOOLS, "/mcp", "Bearer Gate-{}"),
    "with another scheme": (TOOLS, "/mcp", "Basic {}"),
    "without a scheme": (TOOLS, "/mcp", "{}"),
    "beside another": (TOOLS, "/mcp", "Bearer {}, Bearer x"),
    "in the query": (TOOLS, "/mcp?access_token={}", ""),
    "in gate's query parameter": (TOOLS, "/mcp?gate_session={}", ""),
}
_ACCOUNT_REQUESTS: dict[str, dict[str, str]] = {
    "another name": {"client_id": "other-bot"},
    "the name of a client": {"client_id": CLIENT},
    "no name": {"client_id": ""},
    "half a secret": {"client_secret": "HALF"},
    "no secret": {"client_secret": ""},
    "no resource": {"resource": ""},
    "an application as its resource": {"resource": "https://anyone.localhost"},
    "another grant type": {"grant_type": "password"},
    "the grant type of codes": {"grant_type": "authorization_code", "code": "x"},
}
_LINKS = {
    "the code": "",
    "a decision": "&decision=allow",
    "a decision and a token": "&decision=allow&_gate_csrf=x",
    "the code twice": "&user_code=CODE",
    "a callback": "&code=x&state=y",
}
_FORGED_FORMS: dict[str, dict[str, str]] = {
    "no CSRF token": {"_gate_csrf": ""},
    "an invented CSRF token": {"_gate_csrf": "x"},
    "another user's CSRF token": {"_gate_csrf": "STOLEN"},
    "another user's CSRF token and decision": {"_gate_csrf": "STOLEN", "decision": "allow"},
}
_OTHER_POLLS: dict[str, dict[str, str]] = {
    "another client": {"client_id": CLIENT},
    "no client": {"client_id": ""},
    "another resource": {"resource": "OTHER"},
    "the user code": {"device_code": "USER_CODE"},
    "the grant type of codes": {"grant_type": "authorization_code", "code": "CODE", "code_verifier": VERIFIER, "redirect_uri": CALLBACK},
    "the grant type of codes, without a redirect URI": {"grant_type": "authorization_code", "code": "CODE", "code_verifier": VERIFIER},
}


def agent_stage() -> AgentStage:
    stage = shared_stage("agents", _started)
    assert isinstance(stage, AgentStage)
    return stage


def _redirects(uri: str, is_signed_in: bool) -> Outcome:
    stage = agent_stage()
    answer = (stage.signed_in() if is_signed_in else stage.browser()).open(stage.authorize_url(redirect_uri=uri))
    expect(answer.status == 400, f"answered with {answer.status} to {answer.location!r}")
    expect(not answer.location, "redirected")
    return REFUSED


def _accepts_registered() -> Outcome:
    stage = agent_stage()
    for uri in (CALLBACK, LOOPBACK, LOOPBACK.replace("127.0.0.1", "127.0.0.1:49152")):
        answer = stage.signed_in().open(stage.authorize_url(redirect_uri=uri))
        # To the provider where the consent is remembered.
        expect(answer.status == 200 or answer.location.startswith(stage.idp.issuer), f"{uri} was refused")
    return ACCEPTED


def _tokens(stage: AgentStage) -> dict[str, Any]:
    status, tokens = stage.redeem(stage.code(stage.signed_in()))
    expect(status == 200, f"the code was refused: {tokens}")
    return tokens


def _redeemed_otherwise(changed: dict[str, str]) -> Outcome:
    stage = agent_stage()
    code = stage.code(stage.signed_in())
    named = {name: stage.resource(OTHER_TOOLS) if value == "OTHER" else value for name, value in changed.items()}
    form = {"grant_type": "authorization_code", "client_id": CLIENT, "redirect_uri": CALLBACK, "code_verifier": VERIFIER, "code": code}
    status, body = stage.post("token", **{**form, "resource": stage.resource(), "refresh_token": code, "device_code": code, **named})
    expect(status in (400, 401) and "access_token" not in body, f"answered with {status}: {body}")
    expect(stage.redeem(code)[0] == 200, "the attempt cost the client its code")
    return REFUSED


def _code_reused() -> Outcome:
    stage = agent_stage()
    code = stage.code(stage.signed_in())
    _, tokens = stage.redeem(code)
    expect(stage.redeem(code)[1].get("error") == "invalid_grant", "the code was redeemed twice")
    return _is_over(stage, tokens)


def _old_refresh_token() -> Outcome:
    stage = agent_stage()
    first = _tokens(stage)
    form = {"grant_type": "refresh_token", "client_id": CLIENT, "refresh_token": first["refresh_token"]}
    _, second = stage.post("token", **form)
    expect(stage.post("token", **form)[1].get("error") == "invalid_grant", "the refresh token was used twice")
    return _is_over(stage, second)


def _is_over(stage: AgentStage, tokens: dict[str, Any]) -> Outcome:
    form = {"grant_type": "refresh_token", "client_id": CLIENT, "refresh_token": tokens["refresh_token"]}
    expect(stage.post("token", **form)[0] == 400, "the session continues")
    return REFUSED


def _access_token(stage: AgentStage, kind: str) -> str:
    if kind == "user":
        return str(_tokens(stage)["access_token"])
    status, body = stage.post("token", **_account_form(stage))
    expect(status == 200, f"the account was refused: {body}")
    return str(body["access_token"])


def _account_form(stage: AgentStage) -> dict[str, str]:
    named = {"client_id": "bot", "client_secret": stage.account_secret, "resource": stage.resource()}
    return {"grant_type": "client_credentials", **named}


def _presented(kind: str, host: str, path: str, value: str) -> Outcome:
    stage = agent_stage()
    token = _access_token(stage, kind)
    expect(stage.call(TOOLS, "/mcp", ("Authorization", f"Bearer {token}")) == 200, "the token is not accepted at its own resource")
    headers = (("Authorization", value.format(token)),) if value else ()
    status = stage.call(host, path.format(token), *headers)
    expect(status in (302, 400, 401, 403, 404), f"answered with {status}")
    return REFUSED


def _altered(kind: str, position: int) -> Outcome:
    stage = agent_stage()
    token = _access_token(stage, kind)
    expect(stage.call(TOOLS, "/mcp", ("Authorization", f"Bearer {token}")) == 200, "the token is not accepted")
    status = stage.call(TOOLS, "/mcp", ("Authorization", f"Bearer {_with_other_character(token, position)}"))
    expect(status == 401, f"answered with {status}")
    return REFUSED


def _with_other_character(text: str, position: int) -> str:
    other = "A" if text[position] != "A" else "B"
    return f"{text[:position]}{other}{text[position + 1 :]}"


def _account_refused(changed: dict[str, str]) -> Outcome:
    stage = agent_stage()
    secret = stage.account_secret[: len(stage.account_secret) // 2]
    named = {name: secret if value == "HALF" else value for name, value in changed.items()}
    status, body = stage.post("token", **{**_account_form(stage), **named})
    expect(status in (400, 401) and "access_token" not in body, f"answered with {status}: {body}")
    return REFUSED


def _pending(stage: AgentStage, device: dict[str, Any]) -> Outcome:
    error = stage.poll(device["device_code"])[1].get("error")
    expect(error in ("authorization_pending", "slow_down"), f"the device has {error or 'its tokens'}")
    return REFUSED


def _link(query: str) -> Outcome:
    stage = agent_stage()
    device = stage.start_device()
    answer = stage.signed_in().open(device["verification_uri_complete"] + query.replace("CODE", device["user_code"]))
    expect(answer.status == 200 and "Build box" not in answer.text, f"answered with {answer.status}")
    expect(answer.header("x-frame-options") == "DENY", "the page can be framed")
    return _pending(stage, device)


def _forged_form(fields: dict[str, str]) -> Outcome:
    stage = agent_stage()
    device, browser = stage.start_device(), stage.signed_in()
    (stolen,) = findall(r'name="_gate_csrf" value="([^"]*)"', stage.signed_in("bob").open(device["verification_uri"]).text)
    sent = {name: stolen if value == "STOLEN" else value for name, value in fields.items()}
    page = browser.open(device["verification_uri"])
    for decision in ({}, {"decision": "allow"}):
        answer = stage.decide(browser, page, user_code=device["user_code"], **{**decision, **sent})
        expect(answer.status == 200 and "Build box" not in answer.text, f"answered with {answer.status}")
    return _pending(stage, device)


def _allow(stage: AgentStage, device: dict[str, Any], sub: str = "alice") -> Answer:
    browser = stage.signed_in()
    page = stage.decide(browser, browser.open(device["verification_uri"]), user_code=device["user_code"])
    return browser.open(stage.idp.pick(stage.decide(browser, page, decision="allow").location, sub))


def _altered_device_code(position: int) -> Outcome:
    stage = agent_stage()
    device = stage.start_device()
    expect(_allow(stage, device).status == 200, "the device was not allowed")
    status, body = stage.poll(_with_other_character(device["device_code"], position))
    expect(status == 400 and "access_token" not in body, f"answered with {status}: {body}")
    expect(stage.poll(device["device_code"])[0] == 200, "the attempt cost the device its code")
    return REFUSED


def _polled_otherwise(changed: dict[str, str]) -> Outcome:
    stage = agent_stage()
    device = stage.start_device()
    expect(_allow(stage, device).status == 200, "the device was not allowed")
    values = {"OTHER": stage.resource(OTHER_TOOLS), "USER_CODE": device["user_code"], "CODE": device["device_code"]}
    status, body = stage.poll(
        **{"device_code": device["device_code"], **{name: values.get(value, value) for name, value in changed.items()}}
    )
    expect(status in (400, 401) and "access_token" not in body, f"answered with {status}: {body}")
    expect(stage.poll(device["device_code"])[0] == 200, "the attempt cost the device its code")
    return REFUSED


def _other_account() -> Outcome:
    stage = agent_stage()
    device = stage.start_device()
    answer = _allow(stage, device, "bob")
    expect(answer.status == 403, f"answered with {answer.status}")
    return _pending(stage, device)


def _device_code_reused() -> Outcome:
    stage = agent_stage()
    device = stage.start_device()
    _allow(stage, device)
    _, tokens = stage.poll(device["device_code"])
    expect(stage.poll(device["device_code"])[1].get("error") == "invalid_grant", "the device code was redeemed twice")
    form = {"grant_type": "refresh_token", "client_id": DEVICE_CLIENT, "refresh_token": tokens["refresh_token"]}
    expect(stage.post("token", **form)[0] == 400, "the session continues")
    return REFUSED


@contextmanager
def _started(directory: Path) -> Iterator[AgentStage]:
    with application() as upstream, bendable_provider() as provider:
        to = f"http://127.0.0.1:{upstream.port}"
        builder = GateBuilder(provider.idp.issuer).route(ANYONE, to=to, allow_any_authenticated_user=True)
        for host, scopes in ((TOOLS, {"scopes": SCOPES}), (OTHER_TOOLS, {})):
            builder.route(host, to=to, mcp={"path": "/mcp", **scopes}, allow_any_authenticated_user=True)
        builder.route(MIXED, to=to, prefix="/app", allow_any_authenticated_user=True)
        builder.route(MIXED, to=to, mcp={}, allow_any_authenticated_user=True)
        for port in (DATABASE_PORT, OTHER_DATABASE_PORT):
            tunnel = {"from": f"tcp+https://{DATABASE}:{port}", "to": f"tcp://127.0.0.1:{upstream.port}"}
            builder.policy.append({**tunnel, "allow_any_authenticated_user": True})
        builder.setting(idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, oauth_clients=CLIENT_ENTRIES)
        builder.setting(oauth_dynamic_registration=True)
        builder.setting(grpc_address=f"127.0.0.1:{free_port()}")
        (directory / "keys.json").write_text(json.dumps({"keys": [public_jwk()]}))
        with builder.start(directory) as gate:
            connections = Connections(gate.port, gate.certificates.client_context())
            stage = AgentStage(gate, provider, upstream, connections, gate.certificates.client_context())
            done = run("manage.py", "serviceaccount", "create", "bot", "--expires", "12h", "-config", gate.config_file)
            stage.account_secret = done.stdout.strip()
            try:
                yield stage
            finally:
                connections.close()
