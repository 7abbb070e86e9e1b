"""Kind and client of a session, read from its record, whatever the record has."""

from typing import Any

import pytest

from databroker.session_kinds import SessionClient, SessionKind

AGENT = {"client_id": "build-agent", "client_name": "Build", "resource": "https://mcp.example.com/mcp", "scopes": ["read", "write"]}


@pytest.mark.parametrize(
    ("data", "client"),
    [
        ({}, SessionClient()),
        ({"agent": None}, SessionClient(SessionKind.BROWSER)),
        ({"agent": AGENT}, SessionClient(SessionKind.AGENT, "build-agent", "https://mcp.example.com/mcp", ("read", "write"))),
        ({"agent": {**AGENT, "scopes": None, "resource": None}}, SessionClient(SessionKind.AGENT, "build-agent")),
        ({"agent": {**AGENT, "scopes": "read", "resource": ""}}, SessionClient(SessionKind.AGENT, "build-agent")),
        ({"agent": "x"}, SessionClient(SessionKind.AGENT)),
    ],
)
def test_client_of_a_session(data: dict[str, Any], client: SessionClient) -> None:
    assert SessionClient.from_data(data) == client
