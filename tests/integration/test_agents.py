"""Agents at a protected MCP server, from the first 401 to the last: with the OAuth client of the official SDK, on each data plane."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.shared.auth import OAuthToken

from tests.support.children import free_port
from tests.support.consent import allow, authorize_url, post_oauth, redeem
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.fork_server import run
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, RunningGate, follow
from tests.support.mcp_client import ClientStorage, mcp_client, oauth_provider
from tests.support.mcp_server import McpServer
from tests.support.upstream import SampleUpstream

TOOLS, OTHER, ECHO, SCOPED = "tools.localhost", "other.localhost", "echo.localhost", "scoped.localhost"
CLIENT: dict[str, Any] = {"id": "ticket-agent", "name": "Ticket agent", "redirect_uris": ["http://127.0.0.1/callback"]}
DEVICE = {"id": "build-box", "name": "Build box", "device_authorization": True}
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
SCOPES = {"tools:use": "Use the tools"}
TOOL_SCOPES = {"tools:change": "Change repositories", "tools:other": "Nothing", "tools:use": "Use the tools"}
SCOPE_POLICY = [
    {"deny": {"and": [{"mcp_tool": "delete_repo"}, {"scope": {"not_in": ["tools:change"]}}]}},
    {"deny": {"mcp_tool": "read_file"}},
    {"deny": {"client": {"not_in": ["ticket-agent"]}}},
]


@pytest.fixture(scope="module")
def server() -> Iterator[McpServer]:
    with McpServer() as running:
        yield running


@pytest.fixture(scope="module", params=["embedded", "workers", "envoy"])
def gate(
    request: pytest.FixtureRequest,
    provider: DevelopmentProvider,
    server: McpServer,
    upstream: SampleUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RunningGate]:
    builder = (
        GateBuilder(provider.url)
        .route(TOOLS, to=server.url, mcp={"path": "/mcp", "scopes": SCOPES}, allowed_groups=["engineering"])
        .route(OTHER, to=server.url, mcp={"path": "/mcp"}, allow_any_authenticated_user=True)
        .route(ECHO, to=upstream.url, mcp={}, allow_any_authenticated_user=True, pass_identity_headers=True)
        .route(SCOPED, to=server.url, mcp={"path": "/mcp", "scopes": TOOL_SCOPES}, allow_any_authenticated_user=True, policy=SCOPE_POLICY)
        .setting(groups_claim="groups", oauth_clients=[CLIENT, DEVICE], oauth_dynamic_registration=True, jwt_claims_headers=["email"])
        .setting(grpc_address=f"127.0.0.1:{free_port()}")
        .setting(data_plane="envoy" if request.param == "envoy" else "embedded", workers="2" if request.param == "workers" else "1")
    )
    with builder.start(tmp_path_factory.mktemp(request.param)) as running:
        yield running


@asynccontextmanager
async def sdk_client(gate: RunningGate, storage: ClientStorage, browser: httpx.AsyncClient, host: str = TOOLS) -> AsyncIterator[Client]:
    url = gate.url(host, "/mcp")
    auth = oauth_provider(url, storage, lambda address: allow(browser, address, "alice"))
    async with mcp_client(url, gate.certificates.authority, auth=auth) as client:
        yield client


async def call(gate: RunningGate, token: str, host: str = TOOLS, path: str = "/mcp", **headers: str) -> httpx.Response:
    async with gate.client() as client:
        return await client.post(gate.url(host, path), json=CALL, headers=JSON | {"Authorization": f"Bearer {token}"} | headers)


async def oauth(gate: RunningGate, path: str, **form: str) -> httpx.Response:
    return await post_oauth(gate, path, **{"client_id": CLIENT["id"], **form})


async def test_sdk_client_from_discovery_to_revocation(gate: RunningGate) -> None:
    storage = ClientStorage(CLIENT["id"])
    async with gate.client() as browser:
        async with sdk_client(gate, storage, browser) as client:
            assert (await client.call_tool("search", {"text": "x"})).content[0].text == "found x"
        first = storage.tokens
        assert first is not None
        assert first.refresh_token is not None
        assert (first.scope, first.expires_in) == ("tools:use", 3600)
        assert (await call(gate, first.access_token)).status_code == 200
        refreshed = (await oauth(gate, "token", grant_type="refresh_token", refresh_token=first.refresh_token)).json()
        # At once, in whichever process: also where the change stream has not arrived yet.
        assert [(await call(gate, refreshed["access_token"])).status_code for _ in range(6)] == [200] * 6
        assert (await oauth(gate, "revoke", token=refreshed["access_token"])).status_code == 200
        for token in (first.access_token, refreshed["access_token"]):
            await eventually_equal(lambda token=token: _status(gate, token), 401)
        refused = await oauth(gate, "token", grant_type="refresh_token", refresh_token=refreshed["refresh_token"])
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    secrets = [first.access_token, first.refresh_token, refreshed["access_token"], refreshed["refresh_token"]]
    assert not any(secret in gate.child.output for secret in secrets)


async def test_sdk_client_registers_itself(gate: RunningGate) -> None:
    storage = ClientStorage()
    async with gate.client() as browser, sdk_client(gate, storage, browser) as client:
        assert (await client.call_tool("search", {"text": "x"})).content[0].text == "found x"
    assert storage.client is not None
    assert (storage.client.client_id or "").startswith("dynamic-")


async def _status(gate: RunningGate, token: str, host: str = TOOLS) -> int:
    return (await call(gate, token, host)).status_code


async def tokens_of(gate: RunningGate, browser: httpx.AsyncClient, host: str = TOOLS) -> OAuthToken:
    storage = ClientStorage(CLIENT["id"])
    async with sdk_client(gate, storage, browser, host) as client:
        await client.list_tools()
    assert storage.tokens is not None
    return storage.tokens


async def test_reuse_of_a_refresh_token_ends_everything(gate: RunningGate) -> None:
    async with gate.client() as browser:
        tokens = await tokens_of(gate, browser)
    old = tokens.refresh_token or ""
    renewed = (await oauth(gate, "token", grant_type="refresh_token", refresh_token=old)).json()
    assert (await oauth(gate, "token", grant_type="refresh_token", refresh_token=old)).status_code == 400
    await eventually_equal(lambda: _status(gate, renewed["access_token"]), 401)
    assert gate.wait_for_event("agent credential reused")["client_id"] == CLIENT["id"]


async def test_token_is_for_one_resource_and_never_forwarded(gate: RunningGate) -> None:
    async with gate.client() as browser:
        tokens = await tokens_of(gate, browser, OTHER)
        elsewhere = await call(gate, tokens.access_token, TOOLS)
        assert elsewhere.status_code == 401
        assert 'error="invalid_token"' in elsewhere.headers["www-authenticate"]
        assert (await call(gate, tokens.access_token, OTHER, "/other")).status_code == 401
        assert (await call(gate, tokens.access_token, ECHO, "/")).status_code == 401
        # A page that a person opens is not for a token, and the cookie of a person is no token.
        page = await browser.get(gate.url(OTHER, "/"), headers=HTML)
        assert (await follow(browser, page)).status_code == 404, "of the MCP server"
        cookie = {cookie.name: cookie.value or "" for cookie in browser.cookies.jar}
        assert all(
            [(await call(gate, value, OTHER)).status_code == 401 for value in cookie.values() if value.isascii() and "." not in value]
        )


async def test_identity_is_forwarded_and_the_token_is_not(gate: RunningGate) -> None:
    async with gate.client() as browser:
        resource = gate.url(ECHO, "")
        location = await allow(browser, authorize_url(gate, CLIENT["id"], resource), "bob")
    tokens = await redeem(gate, location, CLIENT["id"], resource)
    for scheme in ("Bearer", "bearer"):
        answer = await call(gate, tokens["access_token"], ECHO, "/", Authorization=f"{scheme} {tokens['access_token']}")
        received = {name.lower(): value for name, value in answer.json()["headers"]}
        assert received["x-gate-claim-email"] == "bob@example.com"
        assert "authorization" not in received
        assert tokens["access_token"] not in answer.text


async def test_policy_decides_on_client_and_scopes(gate: RunningGate) -> None:
    resource = gate.url(SCOPED, "/mcp")
    async with gate.client() as browser:
        location = await allow(browser, authorize_url(gate, CLIENT["id"], resource, scope="tools:use"), "bob")
        token = (await redeem(gate, location, CLIENT["id"], resource))["access_token"]
        answers = {name: await call_tool(gate, token, name) for name in ("search", "delete_repo", "read_file")}
        assert [answer.status_code for answer in answers.values()] == [200, 403, 403]
        challenge = answers["delete_repo"].headers["www-authenticate"]
        assert 'error="insufficient_scope"' in challenge
        assert 'scope="tools:change tools:use"' in challenge, "what the token has and what helps, and no other"
        assert "www-authenticate" not in answers["read_file"].headers, "no scope helps"
        page = await browser.get(gate.url(SCOPED, "/"), headers=HTML)
        assert (await follow(browser, page)).status_code == 404, "of the MCP server: a browser has no client"
    event = gate.wait_for_event("request", lambda event: event.get("mcp_tool") == "delete_repo" and event["host"].startswith(SCOPED))
    assert (event["client_id"], event["outcome"]) == (CLIENT["id"], "forbidden")


async def call_tool(gate: RunningGate, token: str, name: str) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {"text": "x"}}}
    headers = JSON | {"Authorization": f"Bearer {token}"}
    async with gate.client() as client:
        started = await client.post(gate.url(SCOPED, "/mcp"), json=CALL, headers=headers)
        headers |= {"Mcp-Session-Id": started.headers["mcp-session-id"]}
        return await client.post(gate.url(SCOPED, "/mcp"), json=message, headers=headers)


async def test_device_without_a_browser(gate: RunningGate) -> None:
    request = {"client_id": "build-box", "resource": gate.url(TOOLS, "/mcp")}
    async with gate.client() as browser:
        started = (await oauth(gate, "device_authorization", **request)).json()
        form = {"client_id": "build-box", "grant_type": DEVICE_CODE, "device_code": started["device_code"]}
        assert (await oauth(gate, "token", **form)).json()["error"] == "authorization_pending"
        page = await follow(browser, await browser.get(started["verification_uri_complete"], headers=HTML))
        page = await follow(browser, await browser.post(page.url, data={"sub": "alice"}))
        for decision in ({}, {"decision": "allow"}):
            fields = dict(re.findall(r'<input type="(?:hidden|text)"(?: id="user_code")? name="([^"]+)" value="([^"]*)"', page.text))
            assert fields["user_code"] == started["user_code"]
            page = await follow(browser, await browser.post(started["verification_uri"], data={**fields, **decision}))
        while 'value="alice"' in page.text:
            page = await follow(browser, await browser.post(page.url, data={"sub": "alice"}))
        assert "The device is connected" in page.text
        tokens = (await oauth(gate, "token", **form)).json()
        assert (await call(gate, tokens["access_token"])).status_code == 200
        assert (await call(gate, tokens["access_token"], OTHER)).status_code == 401
    secrets = (started["device_code"], tokens["access_token"])
    assert not any(secret in gate.child.output for secret in secrets)


async def test_service_account_gets_a_token(gate: RunningGate) -> None:
    done = run("manage.py", "serviceaccount", "create", "ci", "--group", "engineering", "--expires", "12h", "-config", gate.config_file)
    assert done.returncode == 0, done.stderr
    secret = done.stdout.strip()
    credentials = {"client_id": "ci", "client_secret": secret}
    resource = gate.url(TOOLS, "/mcp")
    tokens = (await oauth(gate, "token", grant_type="client_credentials", resource=resource, **credentials)).json()
    access = tokens["access_token"]
    assert [(await call(gate, access)).status_code for _ in range(6)] == [200] * 6, "at once, in whichever process"
    assert (await call(gate, access, OTHER)).status_code == 401
    async with gate.client() as agent:
        headers = JSON | {"Authorization": f"Bearer {access}"}
        started = await agent.post(resource, json=CALL, headers=headers)
        headers |= {"Mcp-Session-Id": started.headers["mcp-session-id"], "Accept": "text/event-stream"}
        async with agent.stream("GET", resource, headers=headers) as stream:
            assert stream.status_code == 200
            done = run("manage.py", "serviceaccount", "revoke", "ci", "-config", gate.config_file)
            assert done.returncode == 0, done.stderr
            async with asyncio.timeout(20):
                with suppress(httpx.RemoteProtocolError, httpx.ReadError):
                    await stream.aread()
    await eventually_equal(lambda: _status(gate, access), 401)
    refused = await oauth(gate, "token", grant_type="client_credentials", resource=resource, **credentials)
    assert refused.json()["error"] == "invalid_client"
    assert not any(value in gate.child.output for value in (secret, access))


async def test_metadata_is_public_and_names_the_issuer(gate: RunningGate) -> None:
    async with gate.client() as client:
        refused = await client.post(gate.url(TOOLS, "/mcp"), json=CALL, headers=JSON | {"Origin": gate.url(TOOLS, "")})
        challenge = refused.headers["www-authenticate"]
        (url,) = re.findall(r'resource_metadata="([^"]+)"', challenge)
        assert 'scope="tools:use"' in challenge
        assert "WWW-Authenticate" in refused.headers["access-control-expose-headers"]
        for each in (url, gate.url(TOOLS, "/.well-known/oauth-protected-resource")):
            resource = await client.get(each, headers={"Origin": "http://localhost:6274"})
            assert resource.headers["access-control-allow-origin"] == "*"
            assert resource.json()["resource"] == gate.url(TOOLS, "/mcp")
        (issuer,) = resource.json()["authorization_servers"]
        server = (await client.get(f"{issuer}/.well-known/oauth-authorization-server")).json()
        assert server["issuer"] == issuer == gate.url(AUTHENTICATE_HOST, "")
        assert (await client.get(f"{issuer}/.well-known/openid-configuration")).status_code == 404


async def test_sign_out_everywhere_cuts_an_open_stream(gate: RunningGate) -> None:
    async with gate.client() as browser, gate.client() as agent:
        token = (await tokens_of(gate, browser, OTHER)).access_token
        headers = JSON | {"Authorization": f"Bearer {token}"}
        started = await agent.post(gate.url(OTHER, "/mcp"), json=CALL, headers=headers)
        headers |= {"Mcp-Session-Id": started.headers["mcp-session-id"], "Accept": "text/event-stream"}
        async with agent.stream("GET", gate.url(OTHER, "/mcp"), headers=headers) as stream:
            assert stream.status_code == 200
            await sign_out_everywhere(gate, browser)
            async with asyncio.timeout(20):
                with suppress(httpx.RemoteProtocolError, httpx.ReadError):
                    await stream.aread()
    await eventually_equal(lambda: _status(gate, token, OTHER), 401)


async def sign_out_everywhere(gate: RunningGate, browser: httpx.AsyncClient) -> None:
    page = await browser.get(gate.url(AUTHENTICATE_HOST, "/.gate/sessions"), headers=HTML)
    assert "Connected agents" in page.text
    assert "Ticket agent" in page.text
    (csrf,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    form = {"_gate_csrf": csrf, "gate_everywhere": "yes"}
    await follow(browser, await browser.post(gate.url(AUTHENTICATE_HOST, "/.gate/signout/"), data=form))
