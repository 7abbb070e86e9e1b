"""Endpoints that third-party servers name: followed where they are sound, and nowhere else."""

from pathlib import Path
from typing import Any

import pytest

from authenticate.provider import address_scope
from authenticate.upstream_oauth import server_discovery
from authenticate.upstream_oauth.server_discovery import ServerDiscovery, ServerEndpoints, parse_resource_metadata, parse_server_metadata
from authorize.upstream.account_connections import UpstreamServer
from foundation.errors import ProviderError
from tests.support.authenticate_site import Clock
from tests.support.connections import discovered, publish, routes, server_in
from tests.support.fake_idp import Answer, FakeIdP
from tests.support.options import make_options

URI, ISSUER = "https://mcp.example.org/a/mcp", "https://login.example.org/t"
METADATA = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "code_challenge_methods_supported": ["plain", "S256"],
    "client_id_metadata_document_supported": True,
}


@pytest.fixture(autouse=True)
def _no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_scope, "_is_local_address", lambda address: address.is_loopback)


def prepared(directory: Path, server: FakeIdP, **changes: Any) -> tuple[ServerDiscovery, UpstreamServer]:
    route = routes(server)[0]
    route["mcp"]["upstream_oauth"] = discovered(server, **changes)
    options = make_options(directory, policy=[route])
    return ServerDiscovery(options, Clock()), server_in(options)


async def test_configured_endpoints_need_no_request(tmp_path: Path, server: FakeIdP) -> None:
    options = make_options(tmp_path, policy=routes(server))
    found = await ServerDiscovery(options, Clock()).find(server_in(options))
    issuer = server.issuer
    expected = ServerEndpoints(issuer, "https://mcp.example.org/mcp", f"{issuer}/authorize", f"{issuer}/token", f"{issuer}/revoke")
    assert found == expected
    assert server.requests == []


async def test_discovery_is_made_once(tmp_path: Path, server: FakeIdP) -> None:
    discovery, target = prepared(tmp_path, server)
    publish(server)
    found = [await discovery.find(target) for _ in range(3)]
    issuer = server.issuer
    expected = ServerEndpoints(issuer, f"{issuer}/mcp", f"{issuer}/authorize", f"{issuer}/token", f"{issuer}/revoke", sends_iss=True)
    assert found == [expected] * 3
    assert len(server.requests) == 2
    await discovery.close()


@pytest.mark.parametrize("missing", [404, 401, 302])
async def test_other_well_known_urls_are_tried(tmp_path: Path, server: FakeIdP, missing: int) -> None:
    discovery, target = prepared(tmp_path, server)
    publish(server, {"resource": server.issuer})
    answers = server.bend.answers
    answers["/.well-known/oauth-protected-resource"] = answers.pop("/.well-known/oauth-protected-resource/mcp")
    answers["/.well-known/openid-configuration"] = answers.pop("/.well-known/oauth-authorization-server")
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"):
        answers[path] = Answer(missing, headers={"Location": "http://127.0.0.1:1/"})
    assert (await discovery.find(target)).resource == server.issuer
    await discovery.close()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404),
        Answer(503),
        Answer(200, b"[]"),
        Answer(200, b"{"),
        Answer(200, b'{"resource": "x", "resource": "y"}'),
        Answer(200, b"{}", content_type="text/html"),
        Answer(200, b"{" + b" " * 70_000 + b"}"),
    ],
)
@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"])
async def test_documents_that_are_none(tmp_path: Path, server: FakeIdP, path: str, answer: Answer) -> None:
    discovery, target = prepared(tmp_path, server)
    publish(server)
    server.bend.answers[path] = answer
    with pytest.raises(ProviderError):
        await discovery.find(target)
    await discovery.close()


async def test_slow_server_ends_the_discovery(tmp_path: Path, server: FakeIdP, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_discovery, "TIMEOUT", 0.05)
    discovery, target = prepared(tmp_path, server)
    server.bend.answers["/.well-known/oauth-protected-resource/mcp"] = Answer(delay=30)
    with pytest.raises(ProviderError):
        await discovery.find(target)
    await discovery.close()


@pytest.mark.parametrize("host", ["10.1.2.3", "169.254.169.254", "[::ffff:10.1.2.3]", "192.168.0.1"])
async def test_named_server_in_another_network_gets_no_request(tmp_path: Path, server: FakeIdP, host: str) -> None:
    """The server is at a loopback address, so it may name others there, but none in a network that it is not in."""
    discovery, target = prepared(tmp_path, server)
    publish(server, {"authorization_servers": [f"https://{host}"]})
    with pytest.raises(ProviderError, match="Nothing was sent there"):
        await discovery.find(target)
    await discovery.close()


async def test_token_endpoint_in_another_network_gets_no_code(tmp_path: Path, server: FakeIdP) -> None:
    discovery, target = prepared(tmp_path, server)
    publish(server, metadata={"token_endpoint": "https://10.1.2.3/token"})
    endpoints = await discovery.find(target)
    with pytest.raises(ProviderError, match="Nothing was sent there"):
        await discovery.http_for(target).post(endpoints.token_endpoint, {"code": "x"})
    await discovery.close()


@pytest.mark.parametrize(
    ("document", "configured", "outcome"),
    [
        ({"resource": URI, "authorization_servers": [ISSUER]}, None, (URI, ISSUER)),
        ({"resource": f"{URI}/", "authorization_servers": [ISSUER]}, None, (URI, ISSUER)),
        ({"resource": "https://mcp.example.org/a", "authorization_servers": [ISSUER]}, None, ("https://mcp.example.org/a", ISSUER)),
        ({"resource": URI, "authorization_servers": ["http://x.example.org", ISSUER]}, None, (URI, ISSUER)),
        ({"resource": URI, "authorization_servers": ["https://first.example.org", ISSUER]}, ISSUER, (URI, ISSUER)),
        ({"resource": URI, "authorization_servers": ["https://first.example.org"]}, ISSUER, None),
        ({"resource": "https://mcp.example.org/a/mc", "authorization_servers": [ISSUER]}, None, None),
        ({"resource": "https://evil.example.org/a/mcp", "authorization_servers": [ISSUER]}, None, None),
        ({"resource": "https:", "authorization_servers": [ISSUER]}, None, None),
        ({"authorization_servers": [ISSUER]}, None, None),
        ({"resource": URI}, None, None),
        ({"resource": URI, "authorization_servers": ISSUER}, None, None),
        ({"resource": URI, "authorization_servers": ["http://127.0.0.1"]}, None, None),
        ({"resource": URI, "authorization_servers": ["https://u@login.example.org"]}, None, None),
        ({"resource": URI, "authorization_servers": [f"{ISSUER}?x=1"]}, None, None),
        ({"resource": URI, "authorization_servers": ["https://" + "x" * 2000]}, None, None),
        ({"resource": URI, "authorization_servers": [7]}, None, None),
    ],
)
def test_resource_metadata(document: dict[str, Any], configured: str | None, outcome: tuple[str, str] | None) -> None:
    if outcome is not None:
        assert parse_resource_metadata(document, URI, configured) == outcome
        return
    with pytest.raises(ProviderError):
        parse_resource_metadata(document, URI, configured)


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": f"{ISSUER}/"},
        {"issuer": None},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": None},
        {"response_types_supported": ["token"]},
        {"client_id_metadata_document_supported": False},
        {"client_id_metadata_document_supported": "true"},
        {"authorization_endpoint": "http://login.example.org/a"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": "http://127.0.0.1/token"},
        {"token_endpoint": None},
    ],
)
def test_server_metadata_without_what_gate_needs(changes: dict[str, Any]) -> None:
    with pytest.raises(ProviderError):
        parse_server_metadata({**METADATA, **changes}, ISSUER, URI, needs_document=True)


def test_server_metadata() -> None:
    found = parse_server_metadata({**METADATA, "revocation_endpoint": "http://evil.example.org/r"}, ISSUER, URI, needs_document=True)
    assert found == ServerEndpoints(ISSUER, URI, f"{ISSUER}/authorize", f"{ISSUER}/token")
    without = {**METADATA, "client_id_metadata_document_supported": False}
    assert parse_server_metadata(without, ISSUER, URI, needs_document=False).issuer == ISSUER
