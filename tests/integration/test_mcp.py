"""MCP servers behind gate, with the server and the client of the official SDK: limited by policy, on each data plane."""

import asyncio
import gc
import json
import re
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.fork_server import run
from tests.support.gate import HTML, GateBuilder, RunningGate, sign_in
from tests.support.grants import press
from tests.support.mcp_client import CURRENT, mcp_client
from tests.support.mcp_server import McpServer
from tests.support.raw_http import RawClient

TOOLS, OPEN, REQUESTED = "tools.localhost", "open.localhost", "requested.localhost"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
POLICY = [
    {"deny": {"mcp_tool": {"not_in": ["search", "read_file"]}}},
    {"deny": {"mcp_resource": {"not_starts_with": "docs://public/"}}},
    {"deny": {"mcp_prompt": "destroy"}},
]
REQUESTS: dict[str, Any] = {
    "access_requests": {"approvers": [{"groups": "sales"}], "tools": ["delete_*"]},
    "policy": [{"deny": {"and": [{"mcp_tool": {"not_in": ["search"]}}, {"not": {"granted": True}}]}}],
}
SESSIONS = "legacy"

# A client of the SDK that closes while one of its background requests connects leaves that socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def server() -> Iterator[McpServer]:
    with McpServer() as running:
        yield running


@pytest.fixture(scope="module", params=["embedded", "workers", "envoy"])
def gate(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, server: McpServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGate]:
    accounts = {"allowed_users": ["service_account/agent"], "allowed_groups": ["engineering"]}
    approvers = {"approvers": [{"groups": "leads"}]}
    builder = (
        GateBuilder(provider.url)
        .route(TOOLS, to=server.url, mcp={"path": "/mcp"}, policy=POLICY, **accounts, access_requests=approvers)
        .route(REQUESTED, to=server.url, mcp={"path": "/mcp"}, allowed_groups=["engineering"], **REQUESTS)
        .route(OPEN, to=server.url, mcp={}, allow_public_unauthenticated_access=True)
        .setting(groups_claim="groups", grpc_address=f"127.0.0.1:{free_port()}")
        .setting(data_plane="envoy" if request.param == "envoy" else "embedded", workers="2" if request.param == "workers" else "1")
    )
    with builder.start(tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture(scope="module")
def token(gate: RunningGate) -> str:
    done = run("manage.py", "serviceaccount", "create", "agent", "--expires", "1h", "-config", gate.config_file)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@asynccontextmanager
async def connected(gate: RunningGate, token: str, host: str = TOOLS, mode: str = CURRENT) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with mcp_client(gate.url(host, "/mcp"), gate.certificates.authority, mode=mode, headers=headers) as client:
        yield client
    gc.collect()  # within this test, which ignores that


@pytest.mark.parametrize("mode", [CURRENT, SESSIONS])
async def test_client_calls_tools_that_policy_allows(gate: RunningGate, token: str, mode: str) -> None:
    async with connected(gate, token, mode=mode) as client:
        found = await client.call_tool("search", {"text": "x"})
        assert found.content[0].text == "found x"
        assert (await client.get_prompt("review", {"code": "c"})).messages
        assert (await client.read_resource("docs://public/readme")).contents[0].text == "read me"
        for call, name in (
            (client.call_tool("delete_repo", {"name": "gate"}), "The tool delete_repo"),
            (client.get_prompt("destroy", {"what": "all"}), "The prompt destroy"),
            (client.read_resource("docs://secret/keys"), "The resource docs://secret/keys"),
            (client.read_resource("docs://public/../secret/keys"), "The resource docs://public/../secret/keys"),
        ):
            with pytest.raises(MCPError, match=name) as refused:
                await call
            assert refused.value.error.code == -32010
            assert refused.value.error.data["request_id"]
            assert refused.value.error.data["rule"].startswith("policy[")


@pytest.mark.parametrize("mode", [CURRENT, SESSIONS])
async def test_lists_have_what_the_client_may_use(gate: RunningGate, token: str, mode: str) -> None:
    async with connected(gate, token, mode=mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"search", "read_file"}
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["review"]
        assert [str(resource.uri) for resource in (await client.list_resources()).resources] == ["docs://public/readme"]
    async with connected(gate, token, host=OPEN, mode=mode) as client:
        assert "delete_repo" in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("mode", [CURRENT, SESSIONS])
async def test_events_arrive_before_the_response_ends(gate: RunningGate, token: str, mode: str) -> None:
    """The call ends only after the client has seen its progress and made another call."""
    was_released = asyncio.Event()
    async with connected(gate, token, host=OPEN, mode=mode) as client:

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            await client.call_tool("release", {})
            was_released.set()

        result = await client.call_tool("wait_for_release", {}, progress_callback=on_progress)
        await was_released.wait()  # the SDK's client fails if it closes before this response, which is often the second
    assert result.content[0].text == "released"


def test_client_that_leaves_within_its_message_is_logged_as_such(gate: RunningGate) -> None:
    head = f"POST /leaves HTTP/1.1\r\nHost: {OPEN}:{gate.port}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{"
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=OPEN) as client:
        client.send(head.encode())
    if gate.builder.settings["data_plane"] == "embedded":  # Envoy may notice it before it forwards the request
        gate.wait_for_event("request", lambda event: event["path"] == "/leaves" and event["status"] == 499)
    assert not any("Traceback" in line for line in gate.child.lines)


async def post(gate: RunningGate, body: bytes | dict[str, Any], token: str = "", host: str = TOOLS, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = JSON | {name.replace("_", "-"): value for name, value in headers.items()}
    async with gate.client() as client:
        return await client.post(
            gate.url(host, "/mcp"), content=content, headers=sent | ({"Authorization": f"Bearer {token}"} if token else {})
        )


def call(tool: str, id: Any = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {}}}


async def test_refusals_are_json_rpc_errors(gate: RunningGate, token: str) -> None:
    anonymous = await post(gate, call("search"))
    assert (anonymous.status_code, anonymous.json()["id"], anonymous.json()["error"]["code"]) == (401, 7, -32010)
    assert anonymous.headers["www-authenticate"].startswith("Bearer")
    for refused, status, code in (
        (await post(gate, call("delete_repo", "a"), token), 403, -32010),
        (await post(gate, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "method": "tools/call"}', token), 400, -32700),
        (await post(gate, b"[]", token), 400, -32600),
        (await post(gate, call("search"), token, Mcp_Name="read_file"), 400, -32020),
        (await post(gate, call("search"), token, Content_Type="text/plain"), 400, -32600),
        (await post(gate, call("search"), token, Origin="https://evil.example"), 403, -32010),
        (await post(gate, call("x" * 300_000), token), 413, -32600),
    ):
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code), refused.text
        assert refused.headers["content-type"] == "application/json"


async def test_page_of_a_client_uses_the_server_with_a_token(gate: RunningGate, token: str) -> None:
    page = {"Origin": "http://localhost:6274"}
    async with gate.client() as client:
        headers = page | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
        preflight = await client.options(gate.url(TOOLS, "/mcp"), headers=headers)
        evil = await client.options(gate.url(TOOLS, "/mcp"), headers=headers | {"Origin": "https://evil.example"})
    assert (preflight.status_code, evil.status_code) == (204, 403)
    assert "Authorization" in preflight.headers["access-control-allow-headers"]
    for answer, status in (
        (await post(gate, call("search"), **page), 401),
        (await post(gate, call("delete_repo"), token, **page), 403),
        (await post(gate, call("search"), host=OPEN, **page), 403),
    ):
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, "*")
        assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
    gate.wait_for_event("request", lambda event: event["method"] == "OPTIONS" and event["status"] == 204)


async def test_requests_to_other_paths_of_the_route_have_an_unknown_message(gate: RunningGate, token: str) -> None:
    async with gate.client() as client:
        headers = JSON | {"Authorization": f"Bearer {token}"}
        hidden = await client.post(gate.url(TOOLS, "/other"), json=call("delete_repo"), headers=headers)
        page = await client.get(gate.url(TOOLS, "/other"), headers=headers)
    assert (hidden.status_code, page.status_code) == (403, 404)


async def test_user_gets_the_page_and_the_link_to_request_access(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await sign_in(client, gate.url(TOOLS, "/"), "alice")
        assert page.status_code == 404, "of the MCP server"
        refused = await client.post(gate.url(TOOLS, "/mcp"), json=call("delete_repo"), headers=JSON)
    assert refused.status_code == 403
    assert "delete_repo" in refused.json()["error"]["message"]


async def call_in_session(client: httpx.AsyncClient, gate: RunningGate, message: dict[str, Any]) -> httpx.Response:
    """Send a message of a signed-in browser in a new session of the server."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    url, first = gate.url(REQUESTED, "/mcp"), {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    started = await client.post(url, json=first, headers=JSON)
    return await client.post(url, json=message, headers=JSON | {"Mcp-Session-Id": started.headers["mcp-session-id"]})


async def test_access_to_a_tool_is_requested_granted_and_revoked(gate: RunningGate) -> None:
    delete = {**call("delete_repo"), "params": {"name": "delete_repo", "arguments": {"name": "gate"}}}
    listing = {"jsonrpc": "2.0", "id": 8, "method": "tools/list", "params": {}}
    async with gate.client() as alice, gate.client() as bob:
        await sign_in(alice, gate.url(REQUESTED, "/"), "alice")
        listed = (await call_in_session(alice, gate, listing)).text
        assert "delete_repo" in listed, "because it may be requested"
        assert "read_file" not in listed
        refused = (await call_in_session(alice, gate, delete)).json()["error"]["data"]
        page = refused["access_request_url"]
        assert page.endswith("&tool=delete_repo")
        assert "access_request_url" not in (await call_in_session(alice, gate, call("read_file"))).json()["error"]["data"]
        route = page.partition("route=")[2].partition("&")[0]
        assert (await press(alice, page, "ask", route=route, tool="delete_repo", why="cleaning up", duration="3600")).status_code == 303
        await sign_in(bob, gate.url(REQUESTED, "/"), "bob")
        home = page.partition("?")[0]
        assert ": delete_repo" in (await bob.get(home, headers=HTML)).text
        assert (await press(bob, home, "approve")).status_code == 303
        await eventually_equal(lambda: _status(call_in_session(alice, gate, delete)), 200)
        assert (await call_in_session(alice, gate, call("delete_all"))).status_code == 403, "another tool"
        (access,) = re.findall(r'name="access" value="([^"]+)"', (await bob.get(home, headers=HTML)).text)
        assert (await press(bob, home, "end", access=access)).status_code == 303
        await eventually_equal(lambda: _status(call_in_session(alice, gate, delete)), 403)


async def _status(answer: Awaitable[httpx.Response]) -> int:
    return (await answer).status_code
