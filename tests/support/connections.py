"""A route to a third-party MCP server whose authorization server is a FakeIdP, and the steps of a connection on the authenticate host."""

import re
from collections.abc import Callable
from typing import Any

from authorize.upstream.account_connections import AccountConnection, UpstreamServer, connection_id, upstream_server
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.records import UPSTREAM_CONNECTION
from tests.support.authenticate_site import APP, ORIGIN, Browser, Response
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, Answer, FakeIdP

RESOURCE, OTHER_RESOURCE = "https://third.example.com/mcp", "https://fourth.example.com"
CALLBACK = f"{ORIGIN}/.gate/connections/callback/third.example.com/mcp"
SESSIONS_PAGE = f"{ORIGIN}/.gate/sessions"


def upstream_oauth(authorization_server: FakeIdP, **changes: Any) -> dict[str, Any]:
    """Return `upstream_oauth` of a route; a key that is changed to None is left out."""
    issuer = authorization_server.issuer
    keys = {
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "scopes": ["tools"],
        "authorization_url": f"{issuer}/authorize",
        "token_url": f"{issuer}/token",
        "revocation_url": f"{issuer}/revoke",
        "issuer": issuer,
        **changes,
    }
    return {key: value for key, value in keys.items() if value is not None}


def routes(authorization_server: FakeIdP, **changes: Any) -> list[dict[str, Any]]:
    oauth, common = upstream_oauth(authorization_server, **changes), {"to": "https://mcp.example.org", "allow_any_authenticated_user": True}
    return [
        {"from": "https://third.example.com", "mcp": {"path": "/mcp", "name": "Third party", "upstream_oauth": oauth}, **common},
        {"from": "https://fourth.example.com", "mcp": {"name": "Fourth", "upstream_oauth": oauth}, **common},
        {"from": APP, "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True},
    ]


def discovered(server: FakeIdP, **changes: Any) -> dict[str, Any]:
    """Return `upstream_oauth` of a route to this machine, whose server names its endpoints."""
    endpoints = dict.fromkeys(("authorization_url", "token_url", "revocation_url", "issuer"))
    return upstream_oauth(server, **{"client_id": None, "client_secret": None, "resource": f"{server.issuer}/mcp", **endpoints, **changes})


def publish(server: FakeIdP, resource: dict[str, Any] | None = None, metadata: dict[str, Any] | None = None) -> None:
    """Serve the metadata of the third-party server and of its authorization server; a member that is changed to None is left out."""
    issuer = server.issuer
    own = {"resource": f"{issuer}/mcp", "authorization_servers": [issuer], **(resource or {})}
    endpoints = {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "revocation_endpoint": f"{issuer}/revoke",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
        **(metadata or {}),
    }
    for path, document in (("/.well-known/oauth-protected-resource/mcp", own), ("/.well-known/oauth-authorization-server", endpoints)):
        server.bend.answers[path] = Answer.json({name: value for name, value in document.items() if value is not None})


def server_in(options: Options, resource: str = RESOURCE) -> UpstreamServer:
    servers = filter(None, map(upstream_server, options.policy))
    return next(server for server in servers if server.resource.uri == resource)


async def stored_connection(broker: BrokerClient, user_id: str = "oidc/alice", resource: str = RESOURCE) -> AccountConnection | None:
    record = await broker.get(UPSTREAM_CONNECTION, connection_id(user_id, resource))
    return AccountConnection.from_record(record) if record is not None else None


async def press(browser: Browser, button: str, resource: str = RESOURCE) -> Response:
    """Press the button of a server on the sessions page."""
    page = await browser.get(SESSIONS_PAGE)
    (token, *_) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    return await browser.post(f"{ORIGIN}/.gate/connections", {"_gate_csrf": token, button: resource})


async def authorization_response(browser: Browser, server: FakeIdP, sub: str = "alice", resource: str = RESOURCE, **more: str) -> str:
    """Start a connection, and return the URL with which the server answers."""
    started = await press(browser, "connect", resource)
    assert started.status == 303, started.text
    return server.pick(started.headers["location"], sub, **more)


def a_connection(server: UpstreamServer, now: Callable[[], float], **changes: Any) -> AccountConnection:
    fields: dict[str, Any] = {
        "user_id": "oidc/alice",
        "issuer": "",
        "resource": server.resource.uri,
        "server_fingerprint": server.fingerprint,
        "connected_at": now(),
        "tokens_received_at": now(),
        "access_token": "access-1",
        "refresh_token": "refresh-1",
        "access_token_expires_at": now() + 3600,
        "authorization_server": str(server.settings.issuer or ""),
    }
    return AccountConnection(**{**fields, **changes})


async def put_connection(broker: BrokerClient, connection: AccountConnection) -> str:
    id = connection_id(connection.user_id, connection.resource)
    await broker.put(UPSTREAM_CONNECTION, id, connection.to_data())
    return id
