"""Authorization of an agent in its session record: survives a round trip, and browser sessions have no trace of it."""

from typing import Any

import pytest

from databroker.agent_records import AccessToken, AgentAuthorization, AuthorizationCode, SessionClient, SessionKind
from databroker.records import SESSION, Record, SessionRecord

CODE = AuthorizationCode("c" * 64, 60.0, "https://client.example.com/cb", "challenge", 30.0)
AGENT = AgentAuthorization(
    "ticket-agent",
    "Ticket agent",
    "https://mcp.example.com",
    ("read",),
    10.0,
    3600.0,
    CODE,
    (AccessToken("a" * 64, 70.0, ("read",)),),
    "r" * 64,
    20.0,
)
BROWSER = SessionRecord("id", "oidc/alice", "alice", "oidc", 1.0, 2.0)
AGENT_SESSION = SessionRecord("id", "oidc/alice", "alice", "oidc", 1.0, 2.0, agent=AGENT)
LISTED = {"client_id": "build-agent", "client_name": "Build", "resource": "https://mcp.example.com/mcp", "scopes": ["read", "write"]}


def record(data: dict[str, Any]) -> Record:
    return Record(SESSION, "id", data, 1, 0.0)


@pytest.mark.parametrize("session", [BROWSER, AGENT_SESSION])
def test_round_trip(session: SessionRecord) -> None:
    assert SessionRecord.from_record(record(session.to_data())) == session


def test_browser_sessions_have_no_agent_field() -> None:
    assert "agent" not in BROWSER.to_data()


def test_end_of_the_session() -> None:
    assert AGENT.expires_at == 3610.0


def test_secrets_are_not_in_logs() -> None:
    assert not any(secret in repr(AGENT_SESSION) for secret in ("c" * 64, "a" * 64, "r" * 64))


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": ""},
        {"resource": None},
        {"client_name": 3},
        {"authorized_at": float("nan")},
        {"lifetime_seconds": float("inf")},
        {"scopes": None},
    ],
)
def test_malformed_authorizations_make_no_session(change: dict[str, Any]) -> None:
    data = AGENT_SESSION.to_data()
    assert SessionRecord.parse(record({**data, "agent": {**data["agent"], **change}})) is None
    assert SessionRecord.parse(record({**data, "agent": {}})) is None


@pytest.mark.parametrize(
    ("data", "client"),
    [
        ({}, SessionClient()),
        ({"agent": None}, SessionClient(SessionKind.BROWSER)),
        ({"agent": LISTED}, SessionClient(SessionKind.AGENT, "build-agent", "https://mcp.example.com/mcp", ("read", "write"))),
        ({"agent": {**LISTED, "scopes": None, "resource": None}}, SessionClient(SessionKind.AGENT, "build-agent")),
        ({"agent": {**LISTED, "scopes": "read", "resource": ""}}, SessionClient(SessionKind.AGENT, "build-agent")),
        ({"agent": "x"}, SessionClient(SessionKind.AGENT)),
    ],
)
def test_client_of_a_session(data: dict[str, Any], client: SessionClient) -> None:
    assert SessionClient.from_data(data) == client
