"""OAuth clients and agent sessions: each error is reported at its location, and secrets stay hidden."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.conftest import Load, Problems

SECRET = "a-client-secret-of-more-than-32-characters"
CLIENT: dict[str, Any] = {"id": "build-agent", "name": "Build agent", "redirect_uris": ["http://127.0.0.1/cb"]}


def test_defaults(load: Load) -> None:
    options = load()
    assert (options.oauth_clients, options.mcp_client_domains, options.agent_session_expire) == ((), None, None)


def test_clients(load: Load, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    clients = load(oauth_clients=[CLIENT, {**CLIENT, "id": "other", "secret_file": "secret", "agent_session_expire": "1h"}]).oauth_clients
    public, confidential = clients
    assert (public.id, public.name, public.redirect_uris, public.secret) == ("build-agent", "Build agent", ("http://127.0.0.1/cb",), None)
    assert confidential.secret is not None
    assert confidential.secret.reveal() == SECRET
    assert confidential.agent_session_expire == timedelta(hours=1)
    assert SECRET not in repr(confidential)


@pytest.mark.parametrize(
    ("change", "key", "message"),
    [
        ({"id": "https://client.example.com/x"}, "id", "must be a name"),
        ({"id": "a b"}, "id", "must be a name"),
        ({"id": "gate"}, "id", "gate's own command line"),
        ({"redirect_uris": []}, "redirect_uris", "from 1 to"),
        ({"redirect_uris": ["http://app.example.com/cb"]}, "redirect_uris", "must be https"),
        ({"redirect_uris": ["https://app.example.com/cb#x"]}, "redirect_uris", "must be https"),
        ({"redirect_uris": ["app://callback"]}, "redirect_uris", "must be https"),
        ({"secret": "short"}, "secret", "at least 32"),
        ({"secret": "with spaces " * 4}, "secret", "at least 32"),
        ({"agent_session_expire": "0"}, "agent_session_expire", "longer than 0"),
        ({"device_authorization": "maybe"}, "device_authorization", "true or false"),
        ({"scopes": ["x"]}, "scopes", "unknown"),
    ],
)
def test_invalid_clients(problems: Problems, change: dict[str, Any], key: str, message: str) -> None:
    found = problems(oauth_clients=[{**CLIENT, **change}])
    assert list(found) == [f"oauth_clients[0].{key}"]
    assert message in found[f"oauth_clients[0].{key}"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "JSON Web Key Set"),
        ('{"keys": []}', "JSON Web Key Set"),
        ('{"keys": [1]}', "public keys only"),
        ('{"keys": [{"kty": "EC", "d": "x"}]}', "public keys only"),
        ('{"keys": [{"kty": "oct", "k": "x"}]}', "public keys only"),
    ],
)
def test_invalid_keys(problems: Problems, tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    assert message in problems(oauth_clients=[{**CLIENT, "jwks_file": "keys.json"}])["oauth_clients[0].jwks_file"]


def test_keys(load: Load, problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"keys": [{"kty": "EC"}]}')
    (client,) = load(oauth_clients=[{**CLIENT, "jwks_file": "keys.json"}]).oauth_clients
    assert client.keys == ({"kty": "EC"},)
    found = problems(oauth_clients=[{**CLIENT, "jwks_file": "keys.json", "secret": SECRET}])
    assert list(found) == ["oauth_clients[0].jwks_file"]


def test_redirect_uris_are_required_unless_the_client_is_a_device(load: Load, problems: Problems) -> None:
    device = {"id": "build-box", "name": "Build box"}
    (client,) = load(oauth_clients=[{**device, "device_authorization": True}]).oauth_clients
    assert (client.redirect_uris, client.device_authorization) == ((), True)
    for named in ({}, {"device_authorization": False}):
        assert "is required" in problems(oauth_clients=[{**device, **named}])["oauth_clients[0].redirect_uris"]


def test_ids_are_unique(problems: Problems) -> None:
    assert "duplicate id" in problems(oauth_clients=[CLIENT, CLIENT])["oauth_clients[1].id"]


def test_domains(load: Load, problems: Problems) -> None:
    assert load(mcp_client_domains=["Claude.ai", "*.example.com"]).mcp_client_domains == ("claude.ai", "*.example.com")
    assert load(mcp_client_domains=[]).mcp_client_domains == ()
    for value in (["https://claude.ai"], ["a*.example.com"], ["[::1]"]):
        assert list(problems(mcp_client_domains=value)) == ["mcp_client_domains"]
