"""Challenges of routes with `mcp`: where to get a token, which scopes to ask for, and readable from any origin."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import decide
from authorize.policy.identity import Identity
from config.routes.route import Route
from proxy.responses.resource_challenges import denied_token_challenge, resource_challenge
from tests.support.agents import ROUTES
from tests.support.asgi import CURL, NAVIGATION, SCRIPT, Answer, incoming_from
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, request, table, user
from tests.unit.proxy.responses.test_denials import answered

HOST = "mcp.example.com"
METADATA = 'resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"'
SCOPE = 'scope="tickets:read tickets:write"'
TOKEN = {"authorization": f"Bearer gate_at_{'s' * 43}.{'t' * 43}"}
PAGE = {"origin": "http://localhost:6274", **SCRIPT}


def checked(identity: Identity | None, *, path: str = "/mcp", **keys: Any) -> AuthorizationResult:
    route = Route.model_validate({**ROUTES[0], **keys})
    return AuthorizationResult(decide(request(path, host=HOST, method="POST"), identity, table(route), NOW), identity)


async def posted(tmp_path: Path, authorization: AuthorizationResult, /, **headers: str) -> Answer:
    incoming = incoming_from(f"https://{HOST}/mcp", method="POST", headers=headers)
    incoming.request = replace(incoming.request, headers=incoming.scope["headers"])
    return await answered(make_options(tmp_path, policy=ROUTES), incoming, authorization)


@pytest.mark.parametrize(
    ("route", "challenge"),
    [
        (ROUTES[0], f'Bearer realm="gate", {SCOPE}, {METADATA}'),
        (ROUTES[1], 'Bearer realm="gate", resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource"'),
        (ROUTES[2], ""),
    ],
)
def test_challenge_of_a_route(route: dict[str, Any], challenge: str) -> None:
    (compiled,) = table(Route.model_validate(route)).routes()
    host = route["from"].removeprefix("https://")
    assert resource_challenge(compiled, host) == challenge
    assert ('error="invalid_token"' in resource_challenge(compiled, host, error="invalid_token")) is bool(challenge)
    assert resource_challenge(None, host) == ""


async def test_client_without_a_token_learns_where_to_get_one(tmp_path: Path) -> None:
    answer = await posted(tmp_path, checked(None), **CURL)
    assert answer.status == 401
    assert answer.header("www-authenticate") == f'Bearer realm="gate", {SCOPE}, {METADATA}'


@pytest.mark.parametrize("is_recognized", [False, True])
async def test_invalid_token(tmp_path: Path, is_recognized: bool) -> None:
    """Whether the deciding process or the proxy notices it."""
    authorization = checked(None)
    authorization.challenge = 'Bearer realm="gate", error="invalid_token"' if is_recognized else ""
    answer = await posted(tmp_path, authorization, **CURL, **TOKEN)
    assert answer.status == 401
    assert answer.header("www-authenticate") == f'Bearer realm="gate", error="invalid_token", {SCOPE}, {METADATA}'


async def test_page_of_any_origin_may_read_the_challenge(tmp_path: Path) -> None:
    answer = await posted(tmp_path, checked(None), **PAGE)
    assert answer.header("access-control-allow-origin") == "*"
    exposed = answer.header("access-control-expose-headers")
    assert "WWW-Authenticate" in exposed
    assert "Mcp-Session-Id" in exposed
    assert answer.values("access-control-allow-credentials") == []


async def test_browser_is_redirected_to_sign_in(tmp_path: Path) -> None:
    incoming = incoming_from(f"https://{HOST}/mcp", headers=NAVIGATION)
    answer = await answered(make_options(tmp_path, policy=ROUTES), incoming, checked(None))
    assert answer.status == 302


@pytest.mark.parametrize(
    ("scopes", "missing", "named"),
    [
        ((), ("tickets:write",), "tickets:write"),
        (("tickets:read",), ("tickets:write",), "tickets:read tickets:write"),
        (("other",), ("tickets:read",), "tickets:read"),
        (("tickets:read",), (), ""),
        ((), (), ""),
    ],
)
async def test_denied_token(tmp_path: Path, scopes: tuple[str, ...], missing: tuple[str, ...], named: str) -> None:
    """The challenge has the scopes that help and those of the token; without any that help there is none."""
    identity = user(client_id="ticket-agent", scopes=frozenset(scopes))
    authorization = checked(identity, allow_any_authenticated_user=False, allowed_users=["boss@corp.com"])
    authorization.missing_scopes = missing
    answer = await posted(tmp_path, authorization, **CURL, **TOKEN)
    assert answer.status == 403
    expected = [f'Bearer realm="gate", error="insufficient_scope", scope="{named}", {METADATA}'] if named else []
    assert answer.values("www-authenticate") == expected


def test_denied_browser_and_denied_token_of_the_provider() -> None:
    keys = {"allow_any_authenticated_user": False, "allowed_users": ["boss@corp.com"]}
    assert denied_token_challenge(checked(user(), **keys), HOST) == ""
    assert "insufficient_scope" in denied_token_challenge(checked(user(session_id="bearer/1"), **keys), HOST)
