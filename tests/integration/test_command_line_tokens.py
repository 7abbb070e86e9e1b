"""Tokens of gate's command line at hosts and TCP tunnels, on each data plane: one resource each, and streams that last as their session."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.consent import allow, authorize_url, post_oauth, redeem
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, RunningGate, follow
from tests.support.mcp_server import McpServer
from tests.support.raw_http import RawResponse
from tests.support.tunnels import TunnelClient
from tests.support.upstream import SampleUpstream, TcpUpstream
from tests.support.websockets import TEXT, RawWebSocket, SocketUpstream

APP, OTHER, TOOLS, SOCKETS, DB = "app.localhost", "other.localhost", "tools.localhost", "sockets.localhost", "db.localhost"
PUBLIC = "public.localhost"
CLIENT: dict[str, Any] = {"id": "ticket-agent", "name": "Ticket agent", "redirect_uris": ["http://127.0.0.1/callback"]}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
PARAMS = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": PARAMS}
WELL_KNOWN = "/.well-known/gate/oauth-protected-resource"
TUNNEL, OTHER_TUNNEL = f"{DB}:5432", f"{DB}:5433"


class TlsWebSocket(RawWebSocket, TunnelClient):
    """WebSocket client over TLS."""

    def open_with(self, host: str, token: str) -> RawResponse:
        return self.open(host, "/polite", f"Authorization: Bearer {token}")

    def echo(self, payload: bytes) -> bytes:
        self.send_frame(TEXT, payload)
        return self.frame().payload


@pytest.fixture(scope="module", params=["embedded", "workers", "envoy"])
def gate(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGate]:
    with McpServer() as server, TcpUpstream(is_echo=True) as echo, SocketUpstream() as sockets:
        anyone = {"allow_any_authenticated_user": True}
        builder = (
            GateBuilder(provider.url)
            .route(APP, to=upstream.url, pass_identity_headers=True, **anyone)
            .route(OTHER, to=upstream.url, **anyone)
            .route(PUBLIC, to=upstream.url, allow_public_unauthenticated_access=True)
            .route(TOOLS, to=server.url, mcp={"path": "/mcp"}, **anyone)
            .route(SOCKETS, to=sockets.url, allow_websockets=True, **anyone)
            .setting(groups_claim="groups", oauth_clients=[CLIENT], jwt_claims_headers=["email"])
            .setting(data_plane="envoy" if request.param == "envoy" else "embedded", workers="2" if request.param == "workers" else "1")
        )
        builder.policy += [
            {"from": f"tcp+https://{TUNNEL}", "to": echo.url, "allowed_groups": ["engineering"]},
            {"from": f"tcp+https://{OTHER_TUNNEL}", "to": echo.url, **anyone},
        ]
        with builder.start(tmp_path_factory.mktemp(request.param)) as running:
            yield running


async def resource_of(gate: RunningGate, host: str, port: str = "") -> str:
    """Return the resource that a host's metadata names, and check the authorization server."""
    async with gate.client() as client:
        answer = await client.get(gate.url(host, f"{WELL_KNOWN}?port={port}"))
        assert answer.status_code == 200, answer.text
        assert answer.json()["authorization_servers"] == [gate.url(AUTHENTICATE_HOST, "")]
        return str(answer.json()["resource"])


async def tokens_of(gate: RunningGate, browser: httpx.AsyncClient, resource: str, user: str = "alice") -> dict[str, str]:
    location = await allow(browser, authorize_url(gate, "gate", resource), user, "gate command line")
    return await redeem(gate, location, "gate", resource)


async def refresh(gate: RunningGate, client_id: str, tokens: dict[str, str]) -> dict[str, str]:
    form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": tokens["refresh_token"]}
    renewed: dict[str, str] = (await post_oauth(gate, "token", **form)).json()
    assert "access_token" in renewed, renewed
    return renewed


async def status(gate: RunningGate, token: str, host: str, path: str = "/") -> int:
    async with gate.client() as client:
        return (await client.post(gate.url(host, path), json=CALL, headers=JSON | {"Authorization": f"Bearer {token}"})).status_code


def tunnel_status(gate: RunningGate, token: str, authority: str, name: str = "Authorization") -> int:
    with TunnelClient(gate.port, DB) as client:
        return client.open(authority, f"{name}: Bearer {token}")


def socket_status(gate: RunningGate, token: str) -> int:
    with TlsWebSocket(gate.port, SOCKETS) as client:
        return client.open_with(f"{SOCKETS}:{gate.port}", token).status


async def statuses(gate: RunningGate, token: str) -> dict[str, int]:
    """Return the status everywhere: 200 or 101 where the token is accepted."""
    return {
        APP: await status(gate, token, APP),
        OTHER: await status(gate, token, OTHER),
        TOOLS: await status(gate, token, TOOLS, "/other"),
        f"{TOOLS}/mcp": await status(gate, token, TOOLS, "/mcp"),
        SOCKETS: await asyncio.to_thread(socket_status, gate, token),
        TUNNEL: await asyncio.to_thread(tunnel_status, gate, token, TUNNEL),
        OTHER_TUNNEL: await asyncio.to_thread(tunnel_status, gate, token, OTHER_TUNNEL),
    }


@pytest.mark.parametrize(
    ("host", "port", "accepted"),
    [
        (APP, "", {APP: 200}),
        (TOOLS, "", {TOOLS: 404}),
        (SOCKETS, "", {SOCKETS: 101}),
        (DB, "5432", {TUNNEL: 200}),
        (DB, "5433", {OTHER_TUNNEL: 200}),
    ],
)
async def test_token_is_for_one_resource(gate: RunningGate, host: str, port: str, accepted: dict[str, int]) -> None:
    resource = await resource_of(gate, host, port)
    async with gate.client() as browser:
        tokens = await tokens_of(gate, browser, resource)
    found = await statuses(gate, tokens["access_token"])
    assert found == dict.fromkeys(found, 401) | accepted
    assert not any(tokens[name] in gate.child.output for name in ("access_token", "refresh_token"))


async def test_token_of_an_mcp_server_is_for_it_alone(gate: RunningGate) -> None:
    resource = gate.url(TOOLS, "/mcp")
    async with gate.client() as browser:
        location = await allow(browser, authorize_url(gate, CLIENT["id"], resource), "alice")
        tokens = await redeem(gate, location, CLIENT["id"], resource)
    found = await statuses(gate, tokens["access_token"])
    assert found == dict.fromkeys(found, 401) | {f"{TOOLS}/mcp": 200}


async def test_upstream_gets_the_identity_and_not_the_token(gate: RunningGate) -> None:
    async with gate.client() as browser, gate.client() as client:
        token = (await tokens_of(gate, browser, await resource_of(gate, APP), "bob"))["access_token"]
        for headers in ({}, {"Content-Type": "application/json"}):  # Envoy forwards the first itself
            answer = await client.get(gate.url(APP, "/x?a=1"), headers={**headers, "Authorization": f"Bearer {token}"})
            received = {name.lower(): value for name, value in answer.json()["headers"]}
            assert received["x-gate-claim-email"] == "bob@example.com"
            assert "authorization" not in received
            assert token not in answer.text
            # No decision is used for a request without the token.
            assert (await client.get(gate.url(APP, "/x?a=1"), headers=headers)).status_code == 401
        public = await client.get(gate.url(PUBLIC), headers={"Authorization": f"Bearer {token}"})
        assert (public.status_code, token in public.text) == (200, False)
    event = gate.wait_for_event("request", lambda event: event.get("client_id") == "gate" and event["host"].startswith(APP))
    assert event["outcome"] == "allowed"


async def test_policy_denies_a_tunnel(gate: RunningGate) -> None:
    async with gate.client() as browser:
        token = (await tokens_of(gate, browser, await resource_of(gate, DB, "5432"), "bob"))["access_token"]
    assert await asyncio.to_thread(tunnel_status, gate, token, TUNNEL) == 403
    assert await asyncio.to_thread(tunnel_status, gate, token, OTHER_TUNNEL) == 401


async def test_streams_continue_after_their_token_and_end_with_the_session(gate: RunningGate) -> None:
    """A record has the last two access tokens only: two refreshes replace that of a stream.  A stream of an MCP server ends then."""
    servers = gate.url(TOOLS, "/mcp")
    async with gate.client() as browser, gate.client() as agent:
        by_tunnel = await tokens_of(gate, browser, await resource_of(gate, DB, "5432"))
        by_socket = await tokens_of(gate, browser, await resource_of(gate, SOCKETS))
        by_agent = await redeem(gate, await allow(browser, authorize_url(gate, CLIENT["id"], servers), "alice"), CLIENT["id"], servers)
        with TunnelClient(gate.port, DB) as tunnel, TlsWebSocket(gate.port, SOCKETS) as socket:
            assert tunnel.open(TUNNEL, f"Proxy-Authorization: Bearer {by_tunnel['access_token']}") == 200
            assert socket.open_with(f"{SOCKETS}:{gate.port}", by_socket["access_token"]).status == 101
            headers = JSON | {"Authorization": f"Bearer {by_agent['access_token']}"}
            started = await agent.post(servers, json=CALL, headers=headers)
            headers |= {"Mcp-Session-Id": started.headers["mcp-session-id"], "Accept": "text/event-stream"}
            async with agent.stream("GET", servers, headers=headers) as stream:
                assert stream.status_code == 200
                newest = [await refresh(gate, "gate", await refresh(gate, "gate", each)) for each in (by_tunnel, by_socket)]
                await refresh(gate, CLIENT["id"], await refresh(gate, CLIENT["id"], by_agent))
                async with asyncio.timeout(60):  # until the open streams were authorized again
                    with suppress(httpx.RemoteProtocolError, httpx.ReadError):
                        await stream.aread()
            assert await asyncio.to_thread(tunnel_status, gate, by_tunnel["access_token"], TUNNEL) == 401
            assert await asyncio.to_thread(tunnel_status, gate, newest[0]["access_token"], TUNNEL) == 200
            assert tunnel.send(b"hello").exactly(5) == b"hello"
            assert await asyncio.to_thread(socket.echo, b"hello") == b"hello"
            assert (await post_oauth(gate, "revoke", client_id="gate", token=newest[0]["refresh_token"])).status_code == 200
            assert await asyncio.to_thread(tunnel.ends) == b""
            assert await asyncio.to_thread(socket.echo, b"again") == b"again", "of another session"
            await sign_out_everywhere(gate, browser)
            await asyncio.to_thread(socket.ends)
        await eventually_equal(lambda: status(gate, newest[1]["access_token"], SOCKETS), 401)


async def sign_out_everywhere(gate: RunningGate, browser: httpx.AsyncClient) -> None:
    page = await browser.get(gate.url(AUTHENTICATE_HOST, "/.gate/sessions"), headers=HTML)
    assert all(text in page.text for text in ("Connected agents", "gate command line", gate.url(SOCKETS, "")))
    (csrf,) = set(re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text))
    form = {"_gate_csrf": csrf, "gate_everywhere": "yes"}
    await follow(browser, await browser.post(gate.url(AUTHENTICATE_HOST, "/.gate/signout/"), data=form))


async def test_device_without_a_browser(gate: RunningGate, tmp_path: Path) -> None:
    resource = await resource_of(gate, DB, "5432")
    assert urlsplit(resource).scheme == "tcp+https"
    async with gate.client() as browser:
        started = (await post_oauth(gate, "device_authorization", client_id="gate", resource=resource)).json()
        page = await follow(browser, await browser.get(started["verification_uri_complete"], headers=HTML))
        page = await follow(browser, await browser.post(page.url, data={"sub": "alice"}))
        for decision in ({}, {"decision": "allow"}):
            fields = dict(re.findall(r'<input type="(?:hidden|text)"(?: id="user_code")? name="([^"]+)" value="([^"]*)"', page.text))
            page = await follow(browser, await browser.post(started["verification_uri"], data={**fields, **decision}))
            assert not decision or 'value="alice"' in page.text or "The device is connected" in page.text
        while 'value="alice"' in page.text:
            page = await follow(browser, await browser.post(page.url, data={"sub": "alice"}))
        form = {"client_id": "gate", "grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": started["device_code"]}
        token = (await post_oauth(gate, "token", **form)).json()["access_token"]
    assert await asyncio.to_thread(tunnel_status, gate, token, TUNNEL) == 200
