"""Connections of users to third-party MCP servers: the sessions page, the redirect to the server, and its answer."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from asgiref.sync import sync_to_async
from structlog.testing import capture_logs

from authenticate.provider import address_scope
from authenticate.upstream_oauth.connection_service import STATE_TEXTS
from authorize.upstream.account_connections import ConnectionState, UpstreamServers
from databroker.audit_log import AuditAction
from databroker.models import AuditEntry
from databroker.records import UPSTREAM_CONNECTION
from foundation.errors import BrokerError
from tests.support.authenticate_site import ORIGIN, Site
from tests.support.connections import (
    CALLBACK,
    OTHER_RESOURCE,
    RESOURCE,
    SESSIONS_PAGE,
    authorization_response,
    discovered,
    press,
    publish,
    routes,
    stored_connection,
)
from tests.support.eventually import eventually_equal
from tests.support.fake_idp import Answer, FakeIdP
from tests.support.options import make_options


async def test_user_connects_and_disconnects(connection_site: Site, server: FakeIdP) -> None:
    browser = connection_site.browser()
    await browser.sign_in()
    page = (await browser.get(SESSIONS_PAGE)).text
    assert page.count(STATE_TEXTS[ConnectionState.NOT_CONNECTED]) == 2
    started = (await press(browser, "connect")).headers["location"]
    assert started.startswith(f"{server.issuer}/authorize?")
    params = {name: values[0] for name, values in parse_qs(urlsplit(started).query).items()}
    assert params.pop("state")
    assert params.pop("code_challenge")
    assert params == {
        "response_type": "code",
        "client_id": "gate",
        "redirect_uri": CALLBACK,
        "code_challenge_method": "S256",
        "resource": "https://mcp.example.org/mcp",
        "scope": "tools",
    }
    with capture_logs() as logs:
        done = await browser.get(server.pick(started, "alice"))
    assert done.location == "/.gate/sessions"
    assert done.headers["cache-control"] == "no-store"
    assert server.requests[-1].form["resource"] == "https://mcp.example.org/mcp"
    connection = await stored_connection(connection_site.broker)
    assert connection is not None
    assert (connection.user_id, connection.resource) == ("oidc/alice", RESOURCE)
    assert not any(connection.access_token in str(entry) or connection.refresh_token in str(entry) for entry in logs)
    assert connection.access_token not in repr(connection)
    assert "Connected since" in (await browser.get(SESSIONS_PAGE)).text
    assert await stored_connection(connection_site.broker, resource=OTHER_RESOURCE) is None
    assert (await press(browser, "disconnect")).headers["location"] == "/.gate/sessions"
    assert await stored_connection(connection_site.broker) is None

    async def revoked() -> list[str]:
        return [request.form["token"] for request in server.requests if request.path == "/revoke"]

    await eventually_equal(revoked, [connection.refresh_token, connection.access_token])

    async def actions() -> list[str]:
        return await sync_to_async(lambda: list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)))()

    await eventually_equal(actions, [AuditAction.CONNECT_SERVER.value, AuditAction.DISCONNECT_SERVER.value])


@pytest.mark.parametrize(
    ("change", "message", "status"),
    [
        (lambda url: re.sub(r"state=[^&]+", "state=x", url), "another browser or session", 400),
        (lambda url: url.replace("&state=", "&other="), "another browser or session", 400),
        (lambda url: f"{url}&code=another", "another browser or session", 400),
        (lambda url: url.replace("third.example.com/mcp", "fourth.example.com"), "Another server sent this response", 400),
        (lambda url: re.sub(r"iss=[^&]+", "iss=https%3A%2F%2Fevil.example", url), "Another server sent this response", 400),
        (lambda url: re.sub(r"code=[^&]+", "error=access_denied", url), "did not allow", 400),
        (lambda url: re.sub(r"code=[^&]+", "error=server_error", url), "did not connect your", 400),
        (lambda url: re.sub(r"code=[^&]+", "x=y", url), "did not connect your", 400),
        (lambda url: re.sub(r"code=[^&]+", "code=x", url), "no longer accepts this code", 400),
    ],
)
async def test_response_that_connects_nothing(connection_site: Site, server: FakeIdP, change: Any, message: str, status: int) -> None:
    browser = connection_site.browser()
    await browser.sign_in()
    url = await authorization_response(browser, server)
    with capture_logs() as logs:
        page = await browser.get(change(url))
    assert page.status == status
    assert message in page.text
    assert [entry["log_level"] for entry in logs if entry["event"] == "upstream connection refused"] == ["warning"]
    assert await connection_site.broker.page(UPSTREAM_CONNECTION, "", 10) == []
    assert server.count("/token") == (1 if "no longer accepts" in message else 0)


async def test_response_is_used_once_and_in_its_session(connection_site: Site, server: FakeIdP) -> None:
    browser, other = connection_site.browser(), connection_site.browser()
    await browser.sign_in()
    await other.sign_in("bob")
    url = await authorization_response(browser, server)
    assert (await other.get(url)).status == 400
    assert (await connection_site.browser().get(url)).status == 400
    # With the cookie of the attempt, but another session: the code of one user is not for another.
    planted = {**other.cookies, **{name: value for name, value in browser.cookies.items() if "_signin_" in name}}
    other.cookies = planted
    assert (await other.get(url)).status == 400
    assert await connection_site.broker.page(UPSTREAM_CONNECTION, "", 10) == []
    attempt = {name: value for name, value in browser.cookies.items() if "_signin_" in name}
    assert (await browser.get(url)).status == 302
    browser.cookies |= attempt
    assert (await browser.get(url)).status == 400
    assert server.count("/token") == 1


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer(503), 503),
        (Answer.json({"error": "invalid_client"}, 401), 503),
        (Answer(200, b"not json"), 503),
        (Answer(200, b"{" + b" " * 300_000 + b"}"), 503),
        (Answer.json({"access_token": "", "token_type": "Bearer"}), 503),
        (Answer.json({"access_token": "a b", "token_type": "Bearer"}), 503),
        (Answer.json({"access_token": "x", "token_type": "DPoP"}), 503),
    ],
)
async def test_server_that_answers_wrongly_connects_nothing(connection_site: Site, server: FakeIdP, answer: Answer, status: int) -> None:
    browser = connection_site.browser()
    await browser.sign_in()
    url = await authorization_response(browser, server)
    server.bend.answers["/token"] = answer
    page = await browser.get(url)
    assert page.status == status
    assert "Nothing was connected" in page.text
    assert await connection_site.broker.page(UPSTREAM_CONNECTION, "", 10) == []


async def test_store_that_is_away_leaves_no_tokens_behind(connection_site: Site, server: FakeIdP) -> None:
    browser = connection_site.browser()
    await browser.sign_in()
    url = await authorization_response(browser, server)
    put = connection_site.broker.put

    async def failing(type: str, id: str, data: Any, **options: Any) -> Any:
        if type == UPSTREAM_CONNECTION:
            raise BrokerError("away")
        return await put(type, id, data, **options)

    connection_site.broker.put = failing
    assert (await browser.get(url)).status == 503

    async def revocations() -> int:
        return server.count("/revoke")

    await eventually_equal(revocations, 2)


async def test_changed_settings_end_the_attempt(
    connection_site: Site, server: FakeIdP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = connection_site.browser()
    await browser.sign_in()
    url = await authorization_response(browser, server)
    changed = [{**route, "to": "https://elsewhere.example.org"} for route in routes(server)]
    policy = make_options(tmp_path, policy=changed).policy
    monkeypatch.setattr(connection_site.service.connections, "servers", UpstreamServers(policy))
    page = await browser.get(url)
    assert "settings of this server" in page.text
    assert server.count("/token") == 0


async def test_button_needs_the_token_of_the_page_and_a_server_that_the_user_may_use(connection_site: Site) -> None:
    browser = connection_site.browser()
    await browser.sign_in()
    assert (await browser.post(f"{ORIGIN}/.gate/connections", {"connect": RESOURCE})).status == 400
    assert (await browser.get(f"{ORIGIN}/.gate/connections")).status == 405
    assert (await press(browser, "connect", "https://app.example.com")).status == 403
    assert (await press(browser, "disconnect", "https://app.example.com")).status == 303
    assert (await connection_site.browser().post(f"{ORIGIN}/.gate/connections", {"connect": RESOURCE})).status == 401


@pytest.fixture
async def discovered_site(tmp_path: Path, idp: FakeIdP, server: FakeIdP, django_pages: Any) -> AsyncIterator[Site]:
    """The authenticate host with a route whose server names its endpoints."""
    (route, *_, app) = routes(server)
    route["mcp"]["upstream_oauth"] = discovered(server)
    site = Site(tmp_path, idp, django_pages, policy=[route, app])
    await site.service.start()
    yield site
    await site.service.stop()


async def test_discovered_server_gets_the_metadata_document_of_gate(discovered_site: Site, server: FakeIdP) -> None:
    publish(server)
    server.bend.answers["/token"] = Answer.json({"access_token": "a", "token_type": "Bearer"})
    browser = discovered_site.browser()
    await browser.sign_in()
    started = (await press(browser, "connect")).headers["location"]
    params = {name: values[0] for name, values in parse_qs(urlsplit(started).query).items()}
    assert params["client_id"] == CALLBACK.replace("/callback/", "/client/")
    assert params["resource"] == f"{server.issuer}/mcp"
    published = await browser.get(params["client_id"])
    assert published.headers["content-type"].startswith("application/json")
    document = json.loads(published.text)
    assert (document["client_id"], document["redirect_uris"]) == (params["client_id"], [CALLBACK])
    assert document["token_endpoint_auth_method"] == "none"
    # RFC 9207: the server announces `iss`, so a response without it is not its own.
    refused = await browser.get(re.sub(r"&iss=[^&]+", "", server.pick(started, "alice")))
    assert refused.status == 400
    done = await browser.get(await authorization_response(browser, server))
    assert done.location == "/.gate/sessions"
    connection = await stored_connection(discovered_site.broker)
    assert connection is not None
    assert connection.authorization_server == server.issuer
    assert server.requests[-1].form["client_id"] == params["client_id"]


async def test_server_that_names_no_usable_endpoints_connects_nothing(
    discovered_site: Site, server: FakeIdP, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address_scope, "_is_local_address", lambda address: address.is_loopback)
    publish(server, {"authorization_servers": ["https://10.1.2.3"]})
    browser = discovered_site.browser()
    await browser.sign_in()
    with capture_logs() as logs:
        page = await press(browser, "connect")
    assert page.status == 503
    assert [entry["event"] for entry in logs if entry["event"].startswith("upstream")] == ["upstream connection refused"]


async def test_changed_authorization_server_gets_no_code(discovered_site: Site, server: FakeIdP) -> None:
    publish(server)
    browser = discovered_site.browser()
    await browser.sign_in()
    url = await authorization_response(browser, server)
    discovered_site.service.connections.client.discovery._caches.clear()
    publish(server, {"authorization_servers": [f"{server.issuer}/other"]})
    server.bend.answers["/.well-known/oauth-authorization-server/other"] = Answer.json(
        {
            "issuer": f"{server.issuer}/other",
            "authorization_endpoint": f"{server.issuer}/a",
            "token_endpoint": f"{server.issuer}/other-token",
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
        }
    )
    assert (await browser.get(url)).status == 400
    assert server.count("/token") + server.count("/other-token") == 0


async def test_document_exists_only_where_it_is_the_client_id(connection_site: Site) -> None:
    browser = connection_site.browser()
    for name in ("third.example.com/mcp", "unknown.example.com/mcp"):
        assert (await browser.get(f"{ORIGIN}/.gate/connections/client/{name}")).status == 404
