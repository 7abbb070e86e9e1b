"""Token and revocation requests to the authorization servers of third-party MCP servers."""

import base64
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.provider.tokens.token_response import InvalidGrant
from authenticate.upstream_oauth.token_client import UpstreamTokenClient
from authorize.upstream.account_connections import UpstreamServer
from foundation.errors import ProviderError
from tests.support.authenticate_site import Clock
from tests.support.connections import a_connection, routes, server_in
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, Answer, FakeIdP
from tests.support.options import make_options

TOKENS = {"access_token": "a", "refresh_token": "r", "token_type": "Bearer", "expires_in": 60}


async def client_for(directory: Path, server: FakeIdP, **changes: Any) -> tuple[UpstreamTokenClient, UpstreamServer]:
    options = make_options(directory, policy=routes(server, **changes))
    return UpstreamTokenClient(options, Clock()), server_in(options)


@pytest.mark.parametrize(
    ("changes", "authorization", "form"),
    [
        ({}, "Basic " + base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode(), {}),
        ({"client_id": "a:b", "client_secret": "c d"}, "Basic " + base64.b64encode(b"a%3Ab:c%20d").decode(), {"client_id": "a:b"}),
        ({"client_auth_method": "client_secret_post"}, None, {"client_secret": CLIENT_SECRET}),
        ({"client_secret": None}, None, {}),
    ],
)
async def test_client_authentication(
    tmp_path: Path, server: FakeIdP, changes: dict[str, Any], authorization: str | None, form: dict[str, str]
) -> None:
    client, target = await client_for(tmp_path, server, **changes)
    server.bend.answers["/token"] = Answer.json(TOKENS)
    endpoints = await client.discovery.find(target)
    tokens = await client.exchange_code(target, endpoints, "the code", "the verifier")
    assert (tokens.access_token, tokens.refresh_token) == ("a", "r")
    (request,) = server.requests
    assert request.headers.get("authorization") == authorization
    assert request.form == {
        "grant_type": "authorization_code",
        "code": "the code",
        "code_verifier": "the verifier",
        "redirect_uri": client.redirect_uri(target),
        "resource": "https://mcp.example.org/mcp",
        "client_id": CLIENT_ID,
        **form,
    }
    await client.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer.json({"error": "invalid_grant"}, 400), InvalidGrant),
        (Answer.json({"error": "invalid_client"}, 401), ProviderError),
        (Answer(302, headers={"Location": "http://127.0.0.1:1/"}), ProviderError),
        (Answer(200, b"x" * 300_000), ProviderError),
    ],
)
async def test_refresh_that_fails(tmp_path: Path, server: FakeIdP, answer: Answer, error: type[Exception]) -> None:
    client, target = await client_for(tmp_path, server)
    server.bend.answers["/token"] = answer
    with pytest.raises(error) as raised:
        await client.refresh(target, await client.discovery.find(target), "the refresh token")
    assert "the refresh token" not in str(raised.value)
    assert CLIENT_SECRET not in str(raised.value)
    assert server.requests[0].form["grant_type"] == "refresh_token"
    await client.close()


@pytest.mark.parametrize(
    ("changes", "answer", "tokens", "failures"),
    [
        ({}, Answer(), ["refresh-1", "access-1"], 0),
        ({}, Answer.json({"error": "unsupported_token_type"}, 400), ["refresh-1", "access-1"], 0),
        ({}, Answer(503), ["refresh-1"], 1),
        ({"revocation_url": None}, Answer(), [], 0),
    ],
)
async def test_revocation(
    tmp_path: Path, server: FakeIdP, changes: dict[str, Any], answer: Answer, tokens: list[str], failures: int
) -> None:
    client, target = await client_for(tmp_path, server, **changes)
    server.bend.answers["/revoke"] = answer
    with capture_logs() as logs:
        await client.revoke(target, a_connection(target, Clock()))
    assert [request.form["token"] for request in server.requests] == tokens
    assert len([entry for entry in logs if entry["event"] == "upstream token revocation failed"]) == failures
    assert "refresh-1" not in str(logs)
    await client.close()
