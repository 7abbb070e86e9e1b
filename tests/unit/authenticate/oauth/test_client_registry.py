"""Registry of clients: which are known to whom, and without which network request."""

from pathlib import Path
from typing import Any

import pytest

from authenticate.oauth.client_documents import ClientDocumentError, parse_document
from authenticate.oauth.client_registry import OAuthClients
from authenticate.oauth.oauth_client import Registration
from databroker.agent_records import AgentAuthorization
from databroker.records import SessionRecord
from databroker.store.memory import MemoryStore
from tests.support.agents import CLIENT, RESOURCE, SECRET_CLIENT, SETTINGS
from tests.support.options import make_options

URL = "https://published.example.com/client.json"
AGENT = AgentAuthorization(URL, "Published", RESOURCE, (), 1.0, 2.0)
SESSION = SessionRecord("id", "oidc/alice", "alice", "oidc", 1.0, 2.0, agent=AGENT)


def registry(tmp_path: Path, **settings: Any) -> OAuthClients:
    return OAuthClients(make_options(tmp_path, **{**SETTINGS, **settings}), MemoryStore(lambda: 1000.0), lambda: 1000.0)


async def test_configured_clients(tmp_path: Path) -> None:
    clients = registry(tmp_path)
    client = await clients.find(SECRET_CLIENT, may_fetch=True)
    assert client is not None
    assert (client.name, client.session_seconds, client.registration) == ("Build agent", 1800.0, Registration.CONFIGURED)
    for unknown in ("", "unknown", "Ticket-Agent", "https://published.example.com/"):
        assert await clients.find(unknown, may_fetch=True) is None
        assert clients.find_for_session(unknown, SESSION) is None
    assert not clients.needs_document(CLIENT)
    assert clients.find_for_session(CLIENT, None) is not None
    await clients.documents.close()


async def test_document_is_fetched_for_signed_in_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clients = registry(tmp_path)

    async def fetch(url: str) -> tuple[bytes, float]:
        return f'{{"client_id": "{URL}", "client_name": "Published", "redirect_uris": ["https://client.example.com/cb"]}}'.encode(), 60.0

    monkeypatch.setattr(clients.documents, "_fetch", fetch)
    assert clients.needs_document(URL)
    assert await clients.find(URL, may_fetch=False) is None
    client = await clients.find(URL, may_fetch=True)
    assert client == parse_document(URL, (await fetch(URL))[0])
    assert not clients.needs_document(URL)
    assert await clients.find(URL, may_fetch=False) == client
    await clients.documents.close()


async def test_token_request_needs_no_document(tmp_path: Path) -> None:
    clients = registry(tmp_path)
    client = clients.find_for_session(URL, SESSION)
    assert client is not None
    assert (client.client_id, client.name, client.secret) == (URL, "Published", None)
    await clients.documents.close()


async def test_host_that_is_no_longer_allowed(tmp_path: Path) -> None:
    clients = registry(tmp_path, mcp_client_domains=["other.example.com"])
    assert clients.find_for_session(URL, SESSION) is None
    with pytest.raises(ClientDocumentError):
        await clients.find(URL, may_fetch=True)
    await clients.documents.close()
