"""B55: can another client get a token for a host or a tunnel, or a token of gate's command line open anything else?"""

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.attack.identity_agents import (
    CALLBACK,
    CLIENT,
    DATABASE,
    DATABASE_PORT,
    DEVICE_CLIENT,
    LOOPBACK,
    MIXED,
    OTHER_CLIENT,
    OTHER_DATABASE_PORT,
    TOOLS,
    AgentStage,
    agent_stage,
)
from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_stage import ANYONE, Stage
from tests.attack.run import REFUSED, Outcome, expect
from tests.support.gate import AUTHENTICATE_HOST
from tests.support.tunnels import TunnelClient

GATE = "gate"
TUNNEL, OTHER_TUNNEL = f"{DATABASE}:{DATABASE_PORT}", f"{DATABASE}:{OTHER_DATABASE_PORT}"


@identity_attack("B55", "OAuth: hosts and tunnels for other clients", sample=20)
def other_clients(_: Stage) -> Iterator[Attempt]:
    for client, resource in product((CLIENT, OTHER_CLIENT, "gate ", "Gate", "gate%00"), _HOSTS):
        yield f"{client!r} requests {resource}", partial(_authorization_refused, client, resource)
    for client, resource in product((DEVICE_CLIENT, CLIENT, "Gate"), _HOSTS):
        yield f"device {client!r} requests {resource}", partial(_device_refused, client, resource)
    for account, resource in product(("bot", "service_account/bot", GATE, "service_account/gate"), _HOSTS):
        yield f"account {account!r} requests {resource}", partial(_account_refused, account, resource)
    for resource in _SERVERS:
        yield f"the command line requests {resource}", partial(_authorization_refused, GATE, resource)
        yield f"the command line on a device requests {resource}", partial(_device_refused, GATE, resource)


@identity_attack("B55", "OAuth: tokens of the command line in other places", sample=40)
def other_places(_: Stage) -> Iterator[Attempt]:
    for owner in _TOKENS:
        yield f"token of {owner} at its own resource", partial(_accepted, owner)
        for place, form in product(_TOKENS, _FORMS):
            yield f"token of {owner} at {place}, {form}", partial(_presented, owner, place, form)
    for owner, (label, (host, path)) in product((ANYONE, TUNNEL), _PAGES.items()):
        yield f"token of {owner} at {label}", partial(_presented_at_page, owner, host, path)
    for owner, name in product((ANYONE, TUNNEL), ("gate_stream_session", "X-Gate-Stream-Session", "gate-session")):
        yield f"session of {owner} named in {name}", partial(_named_session, owner, name)


# Hosts, tunnels and MCP servers; @ is replaced by gate's port.
_HOSTS = (f"https://{ANYONE}:@", f"https://{TOOLS}:@", f"tcp+https://{TUNNEL}", f"TCP+HTTPS://{TUNNEL}/", f"https://{DATABASE}:@")
_SERVERS = (
    f"https://{TOOLS}:@/mcp",
    f"https://{MIXED}:@/mcp",
    f"https://{ANYONE}:@/x",
    f"https://{ANYONE}:@?x",
    "tcp+https://*.localhost:5432",
)
# The owner of a token: (client, resource), and where it opens something: (host, path), or "" for the tunnel.
_TOKENS: dict[str, tuple[str, str, str]] = {
    ANYONE: (GATE, f"https://{ANYONE}:@", "/"),
    TUNNEL: (GATE, f"tcp+https://{TUNNEL}", ""),
    OTHER_TUNNEL: (GATE, f"tcp+https://{OTHER_TUNNEL}", ""),
    f"{TOOLS} beside its server": (GATE, f"https://{TOOLS}:@", "/other"),
    f"{TOOLS}/mcp": (CLIENT, f"https://{TOOLS}:@/mcp", "/mcp"),
    f"{MIXED}/app": (GATE, f"https://{MIXED}:@", "/app"),
    f"{MIXED} as a server": (CLIENT, f"https://{MIXED}:@", "/mcp"),
}
_FORMS = ("Authorization: Bearer {}", "Authorization: Gate {}", "Authorization: Bearer Gate-{}", "Proxy-Authorization: Bearer {}")
_PAGES = {
    "the API": (AUTHENTICATE_HOST, "/.gate/api/v1/sessions"),
    "the administration": (AUTHENTICATE_HOST, "/.gate/admin/"),
    "the portal": (AUTHENTICATE_HOST, "/.gate/"),
    "the attestation": (ANYONE, "/.gate/jwt"),
    "the token in the query": (ANYONE, "/?gate_session={}"),
    "the token in another query": (ANYONE, "/?access_token={}"),
}


def _named(stage: AgentStage, resource: str) -> str:
    return resource.replace("@", str(stage.gate.port))


def _authorization_refused(client: str, resource: str) -> Outcome:
    stage = agent_stage()
    url = stage.authorize_url(client_id=client, redirect_uri=_redirect_uri(client), resource=_named(stage, resource))
    answer = stage.signed_in().open(url)
    error = parse_qs(urlsplit(answer.location).query).get("error", [""])[0]
    expect(answer.status == 400 or error == "invalid_target", f"answered with {answer.status} to {answer.location!r}")
    return REFUSED


def _device_refused(client: str, resource: str) -> Outcome:
    stage = agent_stage()
    status, body = stage.post("device_authorization", client_id=client, resource=_named(stage, resource))
    expect(status in (400, 401) and "device_code" not in body, f"answered with {status}: {body}")
    return REFUSED


def _account_refused(account: str, resource: str) -> Outcome:
    stage = agent_stage()
    form = {"grant_type": "client_credentials", "client_secret": stage.account_secret, "client_id": account}
    status, body = stage.post("token", **form, resource=_named(stage, resource))
    expect(status in (400, 401) and "access_token" not in body, f"answered with {status}: {body}")
    return REFUSED


def _redirect_uri(client: str) -> str:
    return LOOPBACK.replace("127.0.0.1", "127.0.0.1:49152") if client.lower().startswith(GATE) else CALLBACK


@cache
def _token(owner: str) -> dict[str, Any]:
    """Return the tokens of one authorization, which its attempts share."""
    stage = agent_stage()
    client, resource, _ = _TOKENS[owner]
    named = {"client_id": client, "redirect_uri": _redirect_uri(client), "resource": _named(stage, resource)}
    browser = stage.signed_in()
    page = browser.open(stage.authorize_url(**named))
    location = stage.decide(browser, page, decision="allow").location if page.status == 200 else page.location
    answer = browser.open(stage.idp.pick(location, "alice"))
    status, tokens = stage.redeem(parse_qs(urlsplit(answer.location).query)["code"][0], **named)
    expect(status == 200, f"the code was refused: {tokens}")
    return tokens


def _status(stage: AgentStage, place: str, header: str) -> int:
    name, _, value = header.partition(": ")
    path = _TOKENS[place][2]
    if path:
        return stage.call(place.partition("/")[0].partition(" ")[0], path, (name, value))
    with TunnelClient(stage.gate.port, DATABASE) as client:
        return client.open(place, header)


def _accepted(owner: str) -> Outcome:
    stage = agent_stage()
    status = _status(stage, owner, _FORMS[0].format(_token(owner)["access_token"]))
    expect(status == 200, f"answered with {status}")
    return REFUSED


def _presented(owner: str, place: str, form: str) -> Outcome:
    stage = agent_stage()
    status = _status(stage, place, form.format(_token(owner)["access_token"]))
    is_own = owner == place and (form == _FORMS[0] or (form == _FORMS[3] and not _TOKENS[place][2]))
    expect(status == (200 if is_own else 401), f"answered with {status}")
    return _accepted(owner)


def _presented_at_page(owner: str, host: str, path: str) -> Outcome:
    stage = agent_stage()
    token = str(_token(owner)["access_token"])
    headers = () if "{}" in path else (("Authorization", f"Bearer {token}"),)
    answer = stage.browser().open(stage.url(host, path.format(token)), headers=headers)
    expect(answer.status in (302, 400, 401, 403, 404), f"answered with {answer.status}")
    return REFUSED


def _named_session(owner: str, name: str) -> Outcome:
    """The id of a session is in its tokens; it opens nothing by itself."""
    stage = agent_stage()
    session_id = str(_token(owner)["access_token"]).removeprefix("gate_at_").partition(".")[0]
    status = _status(stage, owner, f"{name}: {session_id}")
    expect(status == 401, f"answered with {status}")
    return REFUSED
