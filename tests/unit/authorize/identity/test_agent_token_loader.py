"""An access token is valid at its resource alone, until it expires or its session ends; a session is never valid as another kind."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import Outcome
from authorize.policy.policy_request import PolicyRequest
from authorize.service import AuthorizeService
from config.settings.oauth_settings import COMMAND_LINE_ID
from databroker.agent_records import AccessToken, AgentAuthorization
from databroker.records import SESSION, SessionRecord
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.agent_token import AgentTokenKind, NewToken, new_token
from foundation.crypto.programmatic import ProgrammaticTokens
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.tasks import spawn
from tests.support.agents import CLIENT, OTHER_RESOURCE, RESOURCE, SETTINGS
from tests.support.cookies import signed_in
from tests.support.eventually import eventually
from tests.support.options import make_options
from tests.support.signed_in import put_session
from tests.unit.authorize.broker import settled

NOW = 1_800_000_000.0
SESSION_ID = "s" * 43


class World:
    """Authorize service with one agent session; `clock` is the time in Unix seconds."""

    def __init__(self, directory: Path, **settings: Any):
        self.clock = NOW
        self.options = make_options(directory, **{**SETTINGS, **settings})
        self.store = MemoryStore(lambda: self.clock)
        self.replica = Replica(self.store, clock=lambda: self.clock)
        key = SigningKey.from_options(self.options)
        self.service = AuthorizeService(self.options, self.replica, key, lambda: self.clock, broker=self.store)

    async def put_agent(
        self, *tokens: NewToken, resource: str = RESOURCE, client: str = CLIENT, seconds: float = 3600.0, **changed: Any
    ) -> SessionRecord:
        access = tuple(AccessToken(token.hash, NOW + seconds, ("tickets:read",)) for token in tokens)
        agent = AgentAuthorization(client, "Ticket agent", resource, ("tickets:read",), NOW, 7200.0, access_tokens=access)
        session = SessionRecord(
            SESSION_ID, "oidc/alice", "alice", "oidc", NOW, NOW + 7200, agent=agent, issuer=self.options.first_provider.issuer
        )
        session = replace(session, **changed)
        await put_session(self.store, session.id, session.to_data())
        return session

    async def check(self, token: str, url: str = RESOURCE, *, scheme: str = "Bearer", **more: Any) -> AuthorizationResult:
        scheme_of_url, _, rest = url.partition("://")
        authority, _, path = rest.partition("/")
        host, _, port = authority.partition(":")
        method = "CONNECT" if scheme_of_url == "tcp+https" else "POST"
        headers = ((b"authorization", f"{scheme} {token}".encode()),) if token else ()
        cookies = more.pop("cookies", ())
        request = PolicyRequest(method, host, int(port) if port else None, f"/{path}", headers=headers, **more)
        return await self.service.check(request, cookies)


KEYS: dict[str, Any] = {"to": "http://127.0.0.1:1", "allow_any_authenticated_user": True, "mcp": {}}
TWO_ROUTES = [{"from": "https://mcp.example.com", "prefix": prefix, **KEYS} for prefix in ("/a", "/b")]
HOST, TUNNEL = "https://app.example.com", "tcp+https://app.example.com:5432"
ANY_USER: dict[str, Any] = {"to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}
TCP_ROUTE: dict[str, Any] = {**ANY_USER, "to": "tcp://127.0.0.1:1"}
HOSTS_AND_TUNNELS = [
    {"from": HOST, "prefix": "/a", **ANY_USER},
    {"from": HOST, "prefix": "/b", **ANY_USER},
    {"from": HOST, "path": "/mcp", **KEYS},
    {"from": "https://app.example.com:5432", **ANY_USER},
    {"from": "https://other.example.com", **ANY_USER},
    {"from": "https://both.example.com", "prefix": "/app", **ANY_USER},
    {"from": "https://both.example.com", **KEYS},
    *({"from": f"tcp+https://{address}", **TCP_ROUTE} for address in ("app.example.com:5432", "app.example.com:22", "*.example.com:5432")),
]
WILDCARD = [{"from": "https://*.wild.example.com", **KEYS}]


@pytest.fixture
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    world = World(tmp_path, **getattr(request, "param", {}))
    following = spawn(world.replica.run(), name="replica")
    await eventually(lambda: world.replica.is_following, "the replica follows")
    yield world
    following.cancel()


def access_token() -> NewToken:
    return new_token(AgentTokenKind.ACCESS, SESSION_ID)


async def test_token_is_the_user_at_its_resource(world: World) -> None:
    token = access_token()
    await world.put_agent(token)
    for _ in range(2):  # verified, then from the cache
        result = await world.check(token.token)
        assert result.decision.outcome is Outcome.ALLOWED
        identity = result.identity
        assert identity is not None
        assert (identity.user_id, identity.client_id, identity.scopes) == ("oidc/alice", CLIENT, {"tickets:read"})
        assert identity.has_oauth_token
        assert result.valid_until == NOW + 3600
    assert (await world.check(token.token, f"{RESOURCE}/messages")).decision.is_allowed


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (OTHER_RESOURCE, "another resource"),
        (f"{OTHER_RESOURCE}/mcp", "another resource"),
        ("https://mcp.example.com/", "another resource"),
        ("https://mcp.example.com/mcpx", "another resource"),
        ("https://app.example.com/", "another resource"),
    ],
)
async def test_token_is_refused_elsewhere(world: World, url: str, reason: str) -> None:
    token = access_token()
    await world.put_agent(token)
    await world.check(token.token)  # in the cache
    result = await world.check(token.token, url)
    assert result.decision.outcome is Outcome.SIGN_IN
    assert result.identity is None
    assert reason in result.token_error
    assert "invalid_token" in result.challenge


@pytest.mark.parametrize(
    ("world", "resource", "other"),
    [
        ({"policy": TWO_ROUTES}, "https://mcp.example.com/a", "https://mcp.example.com/b"),
        ({"policy": WILDCARD}, "https://a.wild.example.com", "https://b.wild.example.com"),
    ],
    indirect=["world"],
)
async def test_cached_token_is_refused_at_another_route_or_host(world: World, resource: str, other: str) -> None:
    token = access_token()
    await world.put_agent(token, resource=resource)
    for _ in range(2):
        assert (await world.check(token.token, f"{resource}/")).decision.is_allowed
    assert "another resource" in (await world.check(token.token, f"{other}/")).token_error
    assert (await world.check(token.token, f"{resource}/")).decision.is_allowed


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token[:-1],
        lambda token: token.replace("gate_at_", "gate_rt_"),
        lambda token: token.replace("s" * 43, "t" * 43),
        lambda token: f"Gate-{token}",
    ],
)
async def test_other_tokens_are_refused(world: World, change: Any) -> None:
    token = access_token()
    await world.put_agent(token)
    assert not (await world.check(change(token.token))).decision.is_allowed


async def test_token_is_accepted_in_a_bearer_header_only(world: World) -> None:
    token = access_token()
    await world.put_agent(token)
    assert not (await world.check(token.token, scheme="Gate")).decision.is_allowed
    assert not (await world.check(token.token, scheme="Basic")).decision.is_allowed
    for query in (f"access_token={token.token}", f"gate_session={token.token}"):
        assert not (await world.check("", query=query)).decision.is_allowed


async def test_expired_tokens_and_sessions(world: World) -> None:
    token = access_token()
    await world.put_agent(token)
    assert (await world.check(token.token)).decision.is_allowed
    world.clock = NOW + 3600
    result = await world.check(token.token)
    assert (result.identity, "expired" in result.token_error) == (None, True)
    await world.put_agent(token, seconds=9000.0)
    world.clock = NOW + 7200
    assert not (await world.check(token.token)).decision.is_allowed


async def test_replaced_and_ended(world: World) -> None:
    first, second = access_token(), access_token()
    await world.put_agent(first)
    assert (await world.check(first.token)).decision.is_allowed
    await world.put_agent(second, first)
    # Also before the change stream has told the replica.
    assert (await world.check(second.token)).decision.is_allowed
    assert (await world.check(first.token)).decision.is_allowed
    await world.put_agent(second)
    await settled()
    assert not (await world.check(first.token)).decision.is_allowed
    assert (await world.check(second.token)).decision.is_allowed
    await world.store.delete(SESSION, SESSION_ID)
    await settled()
    assert not (await world.check(second.token)).decision.is_allowed


async def test_sessions_of_another_provider_are_refused(world: World) -> None:
    token = access_token()
    await world.put_agent(token, issuer="https://other.example.com")
    assert not (await world.check(token.token)).decision.is_allowed


async def test_browser_session_is_no_bearer_token(world: World) -> None:
    token = access_token()
    await world.put_agent(token, agent=None)
    assert not (await world.check(token.token)).decision.is_allowed


async def test_agent_session_is_no_browser_session(world: World) -> None:
    """Not even with a cookie or a programmatic token that gate sealed."""
    session = await world.put_agent(access_token())
    cookie = signed_in(SessionCookies(world.options), session.id, "mcp.example.com", issued=NOW, expires=NOW + 3600)
    assert not (await world.check("", cookies=[cookie.encode()])).decision.is_allowed
    assert await world.service.identify([cookie.encode()], "mcp.example.com") is None
    sealed = ProgrammaticTokens(world.options).seal(session.id, "mcp.example.com", NOW, NOW + 3600)
    assert not (await world.check(sealed, scheme="Gate")).decision.is_allowed


@pytest.mark.parametrize("world", [{"policy": HOSTS_AND_TUNNELS}], indirect=True)
@pytest.mark.parametrize(
    ("client", "resource", "allowed"),
    [
        (COMMAND_LINE_ID, HOST, {f"{HOST}/a", f"{HOST}/b"}),
        (COMMAND_LINE_ID, f"{HOST}:5432", {f"{HOST}:5432/"}),
        (COMMAND_LINE_ID, TUNNEL, {TUNNEL}),
        (COMMAND_LINE_ID, "tcp+https://db.example.com:5432", {"tcp+https://db.example.com:5432"}),
        (COMMAND_LINE_ID, "tcp+https://*.example.com:5432", set()),
        (COMMAND_LINE_ID, f"{HOST}/mcp", set()),
        (COMMAND_LINE_ID, "https://both.example.com", {"https://both.example.com/app"}),
        (CLIENT, "https://both.example.com", {"https://both.example.com/"}),
        (CLIENT, f"{HOST}/mcp", {f"{HOST}/mcp"}),
        (CLIENT, HOST, set()),
        (CLIENT, TUNNEL, set()),
        (CLIENT, "https://other.example.com", set()),
    ],
)
async def test_hosts_and_tunnels_are_for_the_command_line(world: World, client: str, resource: str, allowed: set[str]) -> None:
    """With the token in the cache and without, at every address of the configuration."""
    token = access_token()
    await world.put_agent(token, resource=resource, client=client)
    urls = [f"{HOST}/{path}" for path in ("a", "b", "mcp")]
    urls += [f"{HOST}:5432/", "https://other.example.com/", "https://both.example.com/app", "https://both.example.com/"]
    urls += [TUNNEL, "tcp+https://app.example.com:22", "tcp+https://db.example.com:5432", "tcp+https://other.example.com:5432"]
    for _ in range(2):
        found = {url: await world.check(token.token, url) for url in urls}
        assert {url for url, result in found.items() if result.decision.is_allowed} == allowed
        assert all("another resource" in result.token_error for url, result in found.items() if url not in allowed)
    # In the cache for all routes of a host, and of no use where no route is known.
    identities = {
        id(identity): identity for url in allowed for _ in range(2) if (identity := (await world.check(token.token, url)).identity)
    }
    assert [(each.client_id, each.has_oauth_token) for each in identities.values()] == [(client, True)] * bool(allowed)
    page = PolicyRequest("GET", "app.example.com", None, "/a", headers=((b"authorization", f"Bearer {token.token}".encode()),))
    assert (await world.service.attest(page, [])).identity is None


@pytest.mark.parametrize("world", [{"policy": HOSTS_AND_TUNNELS}], indirect=True)
async def test_a_stream_continues_after_its_token(world: World) -> None:
    """Its token has expired and was replaced.  It ends with the session, and it is allowed at its own resource only."""
    session = await world.put_agent(access_token(), resource=TUNNEL, client=COMMAND_LINE_ID)
    world.clock = NOW + 5000
    streams = {"stream_session_id": session.id}
    for token in ("", access_token().token):
        result = await world.check(token, TUNNEL, **streams)
        assert result.decision.is_allowed
        assert result.identity is not None
        assert (result.identity.session_id, result.identity.client_id) == (session.id, COMMAND_LINE_ID)
        assert result.valid_until == NOW + 7200
    for url in ("tcp+https://app.example.com:22", f"{HOST}:5432/", f"{HOST}/a", f"{HOST}/mcp", "https://unknown.example.com/"):
        assert not (await world.check("", url, **streams)).decision.is_allowed
    world.clock = NOW + 7200
    assert not (await world.check("", TUNNEL, **streams)).decision.is_allowed


@pytest.mark.parametrize("world", [{"policy": HOSTS_AND_TUNNELS}], indirect=True)
@pytest.mark.parametrize("change", ["deleted", "a browser's", "of another resource", "of another client", "unknown"])
async def test_a_stream_ends_with_its_session(world: World, change: str) -> None:
    session = await world.put_agent(access_token(), resource=TUNNEL, client=COMMAND_LINE_ID)
    assert (await world.check("", TUNNEL, stream_session_id=session.id)).decision.is_allowed
    match change:
        case "deleted":
            await world.store.delete(SESSION, session.id)
        case "a browser's":
            await world.put_agent(agent=None)
        case "of another resource":
            await world.put_agent(resource="tcp+https://app.example.com:22", client=COMMAND_LINE_ID)
        case "of another client":
            await world.put_agent(resource=TUNNEL)
    await settled()
    # A valid cookie does not replace the session that opened the stream.
    other = SessionRecord("o" * 43, "oidc/bob", "bob", "oidc", NOW, NOW + 7200, issuer=world.options.first_provider.issuer)
    await put_session(world.store, other.id, other.to_data())
    cookie = signed_in(SessionCookies(world.options), other.id, "app.example.com", issued=NOW, expires=NOW + 3600).encode()
    assert (await world.check("", TUNNEL, cookies=[cookie])).decision.is_allowed
    id = "u" * 43 if change == "unknown" else session.id
    assert not (await world.check("", TUNNEL, stream_session_id=id, cookies=[cookie])).decision.is_allowed
