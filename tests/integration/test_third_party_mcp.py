"""A third-party MCP server behind gate, with the authorization server of the official SDK: each user's own account, on each data plane."""

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from authenticate.upstream_oauth.connection_service import STATE_TEXTS
from authorize.upstream.account_connections import ConnectionState
from tests.integration.test_agents import CLIENT, sdk_client
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import eventually_equal
from tests.support.fork_server import run
from tests.support.gate import AUTHENTICATE_HOST, HTML, GateBuilder, RunningGate, follow, sign_in
from tests.support.mcp_client import ClientStorage
from tests.support.third_party_server import CLIENT_SECRET, ThirdPartyServer

THIRD, OTHER, DISCOVERED = "third.localhost", "other.localhost", "discovered.localhost"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HEADERS = JSON | {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "whoami"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}, "_meta": META}}
PAGE = "/.gate/sessions"


@pytest.fixture(scope="module", params=["embedded", "workers", "envoy"])
def stage(
    request: pytest.FixtureRequest, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningGate, ThirdPartyServer]]:
    builder = GateBuilder(provider.url)
    callback = builder.url(AUTHENTICATE_HOST, "/.gate/connections/callback/")
    with ThirdPartyServer(*(f"{callback}{host}:{builder.port}/mcp" for host in (THIRD, OTHER))) as server:
        accounts = {"allowed_users": ["service_account/agent"], "allowed_domains": ["example.com"]}
        for host in (THIRD, OTHER):
            mcp = {"path": "/mcp", "name": f"The {host}", "upstream_oauth": server.settings}
            builder.route(host, to=server.url, mcp=mcp, **accounts)
        builder.route(DISCOVERED, to=server.url, mcp={"path": "/mcp", "upstream_oauth": {"scopes": ["tools"]}}, **accounts)
        builder.setting(grpc_address=f"127.0.0.1:{free_port()}", oauth_clients=[CLIENT], admin_allowed_users=["bob@example.com"])
        builder.setting(data_plane="envoy" if request.param == "envoy" else "embedded", workers="2" if request.param == "workers" else "1")
        with builder.start(tmp_path_factory.mktemp(request.param)) as gate:
            yield gate, server


@pytest.fixture(autouse=True)
def usual(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    stage[1].control(lifetime=3600, denies=False)


async def whoami(gate: RunningGate, browser: httpx.AsyncClient, host: str = THIRD, **headers: str) -> httpx.Response:
    return await browser.post(gate.url(host, "/mcp"), json=CALL, headers=HEADERS | headers)


async def account(gate: RunningGate, browser: httpx.AsyncClient, host: str = THIRD) -> str:
    """Return the account at the server, or the status of another response."""
    answer = await whoami(gate, browser, host)
    found = re.findall(r"account-\d+", answer.text)
    return found[0] if answer.status_code == 200 else str(answer.status_code)


async def signed_in(gate: RunningGate, browser: httpx.AsyncClient, sub: str = "alice") -> None:
    await sign_in(browser, gate.url(AUTHENTICATE_HOST, PAGE), sub)
    await follow(browser, await browser.get(gate.url(THIRD, "/nothing"), headers=HTML))
    await follow(browser, await browser.get(gate.url(OTHER, "/nothing"), headers=HTML))
    for host in (THIRD, OTHER):  # of another test
        page = await browser.get(gate.url(AUTHENTICATE_HOST, PAGE), headers=HTML)
        if f'name="disconnect" value="{gate.url(host, "/mcp")}"' in page.text:
            await press(gate, browser, "disconnect", host)


async def press(gate: RunningGate, browser: httpx.AsyncClient, button: str, host: str = THIRD) -> httpx.Response:
    page = await browser.get(gate.url(AUTHENTICATE_HOST, PAGE), headers=HTML)
    assert f'name="{button}" value="{gate.url(host, "/mcp")}"' in page.text, page.text
    (token, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    form = {"_gate_csrf": token, button: gate.url(host, "/mcp")}
    return await browser.post(gate.url(AUTHENTICATE_HOST, "/.gate/connections"), data=form)


async def connect(gate: RunningGate, browser: httpx.AsyncClient, host: str = THIRD) -> httpx.Response:
    return await follow(browser, await press(gate, browser, "connect", host))


async def test_each_user_calls_with_an_account_of_their_own(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    async with gate.client() as alice, gate.client() as bob:
        await signed_in(gate, alice)
        await signed_in(gate, bob, "bob")
        refused = await whoami(gate, alice)
        assert refused.status_code == 401
        assert "resource_metadata=" in refused.headers["www-authenticate"]
        error = refused.json()["error"]
        assert "is not connected" in error["message"]
        assert error["data"]["connect_url"] == gate.url(AUTHENTICATE_HOST, "/.gate/sessions#servers")
        assert "Connected since" in (await connect(gate, alice)).text
        first = await account(gate, alice)
        assert (await whoami(gate, bob)).status_code == 401, "a connection is one user's"
        await connect(gate, bob)
        second = await account(gate, bob)
        assert first.startswith("account-")
        assert second.startswith("account-")
        assert first != second
        assert await account(gate, alice, OTHER) == "401", "a connection is one route's"
        cookies = [value for cookie in (*alice.cookies.jar, *bob.cookies.jar) if len(value := cookie.value or "") > 20]
    received = server.control()
    sent = [value for headers in received["headers"] for _, value in headers]
    assert not any(cookie in value for cookie in cookies for value in sent)
    gate.wait_for_event("upstream connected")
    assert not any(secret in gate.child.output for secret in (*received["tokens"], CLIENT_SECRET))


async def test_token_is_refreshed_once_before_it_expires(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    server.control(lifetime=1)
    async with gate.client() as browser:
        await signed_in(gate, browser)
        await connect(gate, browser, OTHER)
        before = server.control(lifetime=3600)["refreshes"]
        first = await account(gate, browser, OTHER)

        async def refreshed() -> int:
            assert await account(gate, browser, OTHER) == first
            return int(server.control()["refreshes"]) - before

        await eventually_equal(refreshed, 1)
        assert await account(gate, browser, OTHER) == first
        assert server.control()["refreshes"] == before + 1


async def test_rejected_token_is_replaced_or_the_connection_ends(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    async with gate.client() as browser:
        await signed_in(gate, browser)
        await connect(gate, browser)
        assert (await account(gate, browser)).startswith("account-")
        server.control(forgets_all=True)
        refused = await whoami(gate, browser)
        assert refused.status_code == 401
        assert gate.url(AUTHENTICATE_HOST, "") not in refused.headers["www-authenticate"].partition("resource_metadata")[0]
        assert str(server.port) not in refused.headers["www-authenticate"]
        for path in (PAGE, "/.gate/"):
            page = await browser.get(gate.url(AUTHENTICATE_HOST, path), headers=HTML)
            assert f'name="connect" value="{gate.url(THIRD, "/mcp")}"' in page.text
            assert STATE_TEXTS[ConnectionState.EXPIRED] in page.text


async def test_administrator_disconnects_the_account_of_a_user(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    accounts = gate.url(AUTHENTICATE_HOST, "/.gate/admin/databroker/connectedaccount/")
    async with gate.client() as alice, gate.client() as administrator:
        await signed_in(gate, alice)
        await connect(gate, alice)
        assert (await account(gate, alice)).startswith("account-")
        await signed_in(gate, administrator, "bob")

        async def listed() -> bool:
            page = await follow(administrator, await administrator.get(accounts, headers=HTML))
            assert not any(token in page.text for token in server.control()["tokens"])
            return gate.url(THIRD, "/mcp") in page.text

        await eventually_equal(listed, True)
        page = await administrator.get(accounts, headers=HTML)
        form = {
            "csrfmiddlewaretoken": re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[0],
            "_selected_action": re.findall(r'name="_selected_action" value="([^"]+)"', page.text),
            "action": "disconnect",
        }
        done = await administrator.post(accounts, data=form, headers={"Referer": accounts})
        assert done.status_code == 302, done.text
        assert await account(gate, alice) == "401"
        assert not await listed()


async def test_disconnect_revokes_at_the_server(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    async with gate.client() as browser:
        await signed_in(gate, browser)
        await connect(gate, browser)
        mine = await account(gate, browser)
        assert mine in server.control()["subjects"]
        assert (await press(gate, browser, "disconnect")).status_code == 303

        async def is_known() -> bool:
            return mine in server.control()["subjects"]

        await eventually_equal(is_known, False)
        await eventually_equal(lambda: account(gate, browser), "401")


async def test_denied_consent_connects_nothing(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    server.control(denies=True)
    async with gate.client() as browser:
        await signed_in(gate, browser, "carol")
        page = await connect(gate, browser)
        assert page.status_code == 400
        assert "did not allow" in page.text
        assert (await whoami(gate, browser)).status_code == 401


async def _answer_of(gate: RunningGate, browser: httpx.AsyncClient) -> str:
    """Return the authorization response of the server, which the browser does not follow."""
    started = await press(gate, browser, "connect")
    response = await browser.send(started.next_request)
    return str(response.headers["location"])


async def test_authorization_response_is_for_one_session_and_one_use(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, _ = stage
    async with gate.client() as victim, gate.client() as attacker, gate.client() as stranger:
        await signed_in(gate, victim)
        await signed_in(gate, attacker, "bob")
        answer = await _answer_of(gate, attacker)
        for browser in (victim, stranger):
            page = await browser.get(answer, headers=HTML)
            assert page.status_code == 400, "a code of another user connects nothing"
        assert (await whoami(gate, victim)).status_code == 401
        # A response of another server, by its redirect URI or its issuer.
        for old, new in ((f"/{THIRD}:", f"/{OTHER}:"), (r"iss=[^&]+", "iss=https%3A%2F%2Fevil.example")):
            answer = await _answer_of(gate, attacker)
            foreign = re.sub(old, new, answer)
            assert foreign != answer
            page = await attacker.get(foreign, headers=HTML)
            assert page.status_code == 400
            assert "Another server" in page.text
        answer = await _answer_of(gate, attacker)
        assert (await follow(attacker, await attacker.get(answer, headers=HTML))).status_code == 200
        assert (await attacker.get(answer, headers=HTML)).status_code == 400, "used once"


async def test_client_of_the_sdk_leads_its_user_to_connect(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    """Also a second time, after the user has disconnected: the challenge makes the client authorize again."""
    gate, _ = stage
    storage, accounts = ClientStorage(CLIENT["id"]), []
    async with gate.client() as browser:
        await signed_in(gate, browser)
        async with sdk_client(gate, storage, browser, THIRD) as client:
            accounts.append((await client.call_tool("whoami", {})).content[0].text)
            await press(gate, browser, "disconnect")
            await eventually_equal(lambda: account(gate, browser), "401")
            accounts.append((await client.call_tool("whoami", {})).content[0].text)
        assert await account(gate, browser) == accounts[1]
    assert all(re.fullmatch(r"account-\d+", each) for each in accounts)
    assert accounts[0] != accounts[1]


async def test_server_without_settings_is_discovered(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    """gate is known there by its metadata document, and the server's metadata name the endpoints."""
    gate, server = stage
    async with gate.client() as browser:
        await signed_in(gate, browser)
        await follow(browser, await browser.get(gate.url(DISCOVERED, "/nothing"), headers=HTML))
        started = await press(gate, browser, "connect", DISCOVERED)
        query = parse_qs(urlsplit(started.headers["location"]).query)
        assert query["client_id"] == [gate.url(AUTHENTICATE_HOST, f"/.gate/connections/client/{DISCOVERED}:{gate.port}/mcp")]
        assert (await follow(browser, started)).status_code == 200
        mine = await account(gate, browser, DISCOVERED)
        assert mine in server.control()["subjects"]
        await press(gate, browser, "disconnect", DISCOVERED)
        await eventually_equal(lambda: account(gate, browser, DISCOVERED), "401")


async def test_service_account_has_no_account_at_the_server(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, _ = stage
    done = run("manage.py", "serviceaccount", "create", "agent", "--expires", "1h", "-config", gate.config_file)
    async with gate.client() as client:
        refused = await whoami(gate, client, Authorization=f"Bearer {done.stdout.strip()}")
    assert refused.status_code == 403
    assert "service accounts" in refused.json()["error"]["message"]


async def test_request_to_the_server_has_pkce_and_resource(stage: tuple[RunningGate, ThirdPartyServer]) -> None:
    gate, server = stage
    async with gate.client() as browser:
        await signed_in(gate, browser, "carol")
        started = await press(gate, browser, "connect")
    query: dict[str, Any] = {name: values[0] for name, values in parse_qs(urlsplit(started.headers["location"]).query).items()}
    assert query["resource"] == f"{server.url}/mcp"
    assert query["code_challenge_method"] == "S256"
    assert query["redirect_uri"] == gate.url(AUTHENTICATE_HOST, f"/.gate/connections/callback/{THIRD}:{gate.port}/mcp")
    assert unescape(query["scope"]) == "tools"
