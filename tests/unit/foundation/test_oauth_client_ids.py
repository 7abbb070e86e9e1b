"""Ids of clients: which are URLs of metadata documents, and the host that published them."""

import pytest

from foundation.oauth_client_ids import document_host


@pytest.mark.parametrize(
    ("client_id", "host"),
    [
        ("https://claude.ai/oauth/client.json", "claude.ai"),
        ("https://claude.ai:8443/x", "claude.ai"),
        ("https://claude.ai/", ""),
        ("https://claude.ai", ""),
        ("https://claude.ai/a/%2E%2e/x", ""),
        ("https://Claude.ai/x", ""),
        ("https://claude.ai\\@evil.example/x", ""),
        ("https://claude.ai/" + "x" * 512, ""),
        ("http://claude.ai/x", ""),
        ("claude.ai", ""),
        ("build-agent", ""),
        ("", ""),
    ],
)
def test_host_of_a_document(client_id: str, host: str) -> None:
    assert document_host(client_id) == host
