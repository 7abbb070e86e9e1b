"""CORS of MCP endpoints: pages of MCP clients use them with an access token, and never with what a browser adds by itself."""

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from databroker.records import SERVICE_ACCOUNT, ServiceAccountRecord
from foundation.crypto.service_account_token import hash_token, new_token
from proxy.mcp.mcp_cors import add_agent_cors, has_cors_headers
from tests.support.asgi import Answer, chunked_receive, incoming_from
from tests.support.proxied import Proxied, proxied
from tests.support.upstream import RawUpstream

URL = "https://app.example.com/mcp"
INSPECTOR, PLAYGROUND, EVIL = "http://localhost:6274", "https://playground.example.com", "https://evil.example"
CLIENTS = [{"id": "playground", "name": "Playground", "redirect_uris": [f"{PLAYGROUND}/callback"]}]
ROUTE: dict[str, Any] = {"mcp": {"path": "/mcp"}, "allowed_users": ["service_account/ci"]}
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n%s\r\n{}"


async def token_in(gate: Proxied) -> str:
    token = new_token("ci")
    account = ServiceAccountRecord("ci", (), time.time() - 60, time.time() + 3600, hash_token(token))
    await gate.broker.put(SERVICE_ACCOUNT, "ci", account.to_data())
    return token


async def preflight(gate: Proxied, origin: str, url: str = URL) -> Answer:
    return await gate.send(url, method="OPTIONS", headers={"origin": origin, "access-control-request-method": "POST"})


async def call(gate: Proxied, origin: str, token: str = "", **headers: str) -> Answer:
    sent = {"content-type": "application/json", "content-length": str(len(CALL)), "origin": origin, **headers}
    incoming = incoming_from(URL, method="POST", headers=sent | ({"authorization": f"Bearer {token}"} if token else {}))
    incoming.request = replace(incoming.request, headers=incoming.scope["headers"])  # as of a real listener
    answer = Answer()
    await gate.plane(incoming, chunked_receive(CALL), answer.send)
    return answer


@pytest.mark.parametrize(
    ("origin", "status"),
    [(INSPECTOR, 204), ("http://[::1]:6274", 204), (PLAYGROUND, 204), ("https://app.example.com", 204), (EVIL, 403), ("null", 403)],
)
async def test_preflight_of_an_endpoint(tmp_path: Path, origin: str, status: int) -> None:
    async with proxied(tmp_path, ROUTE, oauth_clients=CLIENTS) as gate:
        answer = await preflight(gate, origin)
        assert gate.canary.connections == 0
    assert (answer.status, answer.ended) == (status, True)
    if status == 204:
        assert answer.header("access-control-allow-origin") == "*"
        assert answer.header("access-control-allow-headers") == "Authorization, *"
        assert {"POST", "GET", "DELETE"} <= set(answer.header("access-control-allow-methods").split(", "))
        assert answer.values("access-control-allow-credentials") == []


async def test_other_paths_and_servers_that_answer_it_themselves(tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE) as gate:
        assert (await preflight(gate, INSPECTOR, "https://app.example.com/other")).status == 401
    async with proxied(tmp_path, {**ROUTE, "cors_allow_preflight": True}) as gate:
        assert (await preflight(gate, EVIL)).status == 200
        assert len(gate.canary.requests) == 1


async def test_preflight_with_a_body_is_no_preflight(tmp_path: Path) -> None:
    headers = {"origin": INSPECTOR, "access-control-request-method": "POST", "content-type": "application/json"}
    async with proxied(tmp_path, ROUTE) as gate:
        assert (await gate.send(URL, CALL, method="OPTIONS", headers=headers | {"content-length": str(len(CALL))})).status == 401


@pytest.mark.parametrize("origin", [INSPECTOR, PLAYGROUND])
async def test_page_of_a_client_needs_a_token_and_may_read_every_response(tmp_path: Path, origin: str) -> None:
    async with proxied(tmp_path, ROUTE, oauth_clients=CLIENTS, canary=RawUpstream(ANSWER % b"mcp-session-id: 7\r\n")) as gate:
        token = await token_in(gate)
        answers = [await call(gate, origin), await call(gate, origin, token), await call(gate, origin, token, **{"mcp-method": "x"})]
        assert len(gate.canary.requests) == 1
    assert [answer.status for answer in answers] == [401, 200, 400]
    for answer in answers:
        assert answer.values("access-control-allow-origin") == ["*"]
        assert "Mcp-Session-Id" in answer.header("access-control-expose-headers")


@pytest.mark.parametrize("token", ["", "gate_at_invalid"])
async def test_open_server_is_not_open_to_pages_of_others(tmp_path: Path, token: str) -> None:
    """A page of this machine could otherwise use what only the network of its reader protects."""
    public = {"mcp": {"path": "/mcp"}, "allow_public_unauthenticated_access": True}
    async with proxied(tmp_path, public) as gate:
        answer = await call(gate, INSPECTOR, token)
        assert gate.canary.connections == 0
        assert (await call(gate, "https://app.example.com")).status == 200
    assert (answer.status, answer.json["error"]["code"]) == (403, -32010)
    assert answer.values("access-control-allow-origin") == ["*"]


async def test_token_does_not_admit_pages_of_other_origins(tmp_path: Path) -> None:
    async with proxied(tmp_path, ROUTE, oauth_clients=CLIENTS) as gate:
        token = await token_in(gate)
        assert (await call(gate, EVIL, token)).status == 403
        assert gate.canary.connections == 0


async def test_cors_headers_of_the_server_take_precedence() -> None:
    for headers, expected in (([(b"Access-Control-Allow-Origin", b"https://a")], 1), ([], 2)):
        answer = Answer()
        await add_agent_cors(answer.send)({"type": "http.response.start", "status": 200, "headers": headers})
        found = [(name, value) for name, value in answer.headers if name.lower().startswith(b"access-control-")]
        assert len(found) == expected
        assert has_cors_headers(found)
    assert not has_cors_headers([(b"content-type", b"x")])
