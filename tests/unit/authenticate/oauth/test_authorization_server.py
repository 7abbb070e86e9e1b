"""The state machine on values alone: which session a request refers to, and that nothing is decided without one."""

from pathlib import Path

import pytest

from authenticate.oauth.authorization_server import GateAuthorizationServer, OAuthRequest, token_session_id
from authenticate.oauth.oauth_client import OAuthClient, Registration
from authorize.protected_resources import ProtectedResources
from foundation.crypto.agent_token import AgentTokenKind, RefreshTokens, new_token
from tests.support.agents import REDIRECT_URI, ROUTES, refresh_form, token_form
from tests.support.options import make_options

ID = "s" * 43
CODE, ACCESS = (new_token(kind, ID).token for kind in (AgentTokenKind.CODE, AgentTokenKind.ACCESS))


@pytest.mark.parametrize(
    ("params", "session_id"),
    [
        ({"code": CODE}, ID),
        ({"token": ACCESS}, ID),
        ({"code": ACCESS}, ""),
        ({"refresh_token": CODE}, ""),
        ({"token": CODE}, ""),
        ({"token": "x"}, ""),
        ({}, ""),
    ],
)
def test_session_of_a_request(params: dict[str, str], session_id: str) -> None:
    assert token_session_id(params) == session_id


@pytest.mark.parametrize("form", [token_form(CODE), refresh_form("gate_rt_x"), {"grant_type": "refresh_token"}, {}])
def test_nothing_is_issued_without_a_session(tmp_path: Path, form: dict[str, str]) -> None:
    options = make_options(tmp_path, policy=ROUTES)
    client = OAuthClient("ticket-agent", "Ticket agent", (REDIRECT_URI,), Registration.CONFIGURED)
    server = GateAuthorizationServer(
        "https://auth.example.com", ProtectedResources(options.policy), RefreshTokens(options), 1000.0, client, None
    )
    response = server.create_token_response(OAuthRequest("POST", form))
    assert response.status in (400, 401)
    assert (server.issued, server.reused, server.is_revoked) == (None, "", False)
