"""Access token of a service account: valid at its resource alone, and only while the account and its secret are."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.policy.decision import Outcome
from authorize.policy.policy_request import PolicyRequest
from authorize.service import AuthorizeService
from databroker.records import SERVICE_ACCOUNT, SERVICE_ACCOUNT_TOKEN
from databroker.replica import Replica
from databroker.service_account_store import ServiceAccounts, ServiceAccountToken
from databroker.store.memory import MemoryStore
from foundation.crypto.agent_token import AgentTokenKind, NewToken, new_token
from foundation.crypto.service_account_token import hash_token
from foundation.crypto.signing_key import SigningKey
from foundation.tasks import spawn
from tests.support.agents import OTHER_RESOURCE, RESOURCE, SETTINGS
from tests.support.eventually import eventually
from tests.support.options import make_options
from tests.unit.authorize.broker import settled

NOW = 1_800_000_000.0
TOKEN_ID = "t" * 43


class World:
    """Authorize service with one service account; `clock` is the time in Unix seconds."""

    def __init__(self, directory: Path):
        self.clock = NOW
        self.store = MemoryStore(lambda: self.clock)
        self.replica = Replica(self.store, clock=lambda: self.clock)
        self.accounts = ServiceAccounts(self.store, lambda: self.clock)
        options = make_options(directory, **SETTINGS)
        key = SigningKey.from_options(options)
        self.service = AuthorizeService(options, self.replica, key, lambda: self.clock, broker=self.store)

    async def issue(self, secret: str, resource: str = RESOURCE, account: str = "bot") -> NewToken:
        token = new_token(AgentTokenKind.SERVICE_ACCOUNT, TOKEN_ID)
        record = ServiceAccountToken(account, hash_token(secret), token.hash, resource, ("tickets:read",), NOW, NOW + 3600)
        await self.store.put(SERVICE_ACCOUNT_TOKEN, TOKEN_ID, record.to_data(), expires=record.expires_at)
        return token

    async def check(self, token: str, url: str = RESOURCE, *, scheme: str = "Bearer", **more: Any) -> AuthorizationResult:
        host, _, path = url.removeprefix("https://").partition("/")
        headers = ((b"authorization", f"{scheme} {token}".encode()),) if token else ()
        return await self.service.check(PolicyRequest("POST", host, None, f"/{path}", headers=headers, **more), ())


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    following = spawn(world.replica.run(), name="replica")
    await eventually(lambda: world.replica.is_following, "the replica follows")
    yield world
    following.cancel()


async def test_token_is_the_account_with_its_scopes(world: World) -> None:
    secret = await world.accounts.create("bot", ["deployers"], 86400.0, "admin")
    token = await world.issue(secret)
    for _ in range(3):  # loaded, then from the cache
        result = await world.check(token.token)
        assert result.decision.outcome is Outcome.ALLOWED
        identity = result.identity
        assert identity is not None
        assert (identity.user_id, identity.group_ids, identity.scopes) == ("service_account/bot", {"deployers"}, {"tickets:read"})
        assert (identity.client_id, identity.has_oauth_token) == ("service_account/bot", True)
        assert result.valid_until == NOW + 3600
    own = (await world.check(secret)).identity
    assert own is not None
    assert (own.client_id, own.scopes) == ("", frozenset()), "its own secret is no OAuth token"


@pytest.mark.parametrize("url", [OTHER_RESOURCE, "https://mcp.example.com/", "https://app.example.com/"])
async def test_token_is_refused_elsewhere(world: World, url: str) -> None:
    token = await world.issue(await world.accounts.create("bot", [], 86400.0, "admin"))
    for _ in range(2):
        result = await world.check(token.token, url)
        assert (result.decision.outcome, result.identity) == (Outcome.SIGN_IN, None)
        assert "another resource" in result.token_error
        assert "invalid_token" in result.challenge
        assert (await world.check(token.token)).decision.is_allowed


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1] + ("A" if token[-1] != "A" else "B"),
        lambda token: token[:-1],
        lambda token: token.replace("gate_st_", "gate_at_"),
        lambda token: token.replace("t" * 43, "u" * 43),
        lambda token: f"Gate-{token}",
    ],
)
@pytest.mark.parametrize("is_cached", [False, True])
async def test_other_tokens_are_refused(world: World, change: Any, is_cached: bool) -> None:
    token = await world.issue(await world.accounts.create("bot", [], 86400.0, "admin"))
    if is_cached:
        assert (await world.check(token.token)).decision.is_allowed
    assert not (await world.check(change(token.token))).decision.is_allowed


async def test_token_is_accepted_in_a_bearer_header_only(world: World) -> None:
    token = await world.issue(await world.accounts.create("bot", [], 86400.0, "admin"))
    assert not (await world.check(token.token, scheme="Gate")).decision.is_allowed
    for query in (f"access_token={token.token}", f"gate_session={token.token}"):
        assert not (await world.check("", query=query)).decision.is_allowed


async def test_expiry_of_the_token(world: World) -> None:
    token = await world.issue(await world.accounts.create("bot", [], 86400.0, "admin"))
    assert (await world.check(token.token)).decision.is_allowed
    world.clock = NOW + 3600
    assert not (await world.check(token.token)).decision.is_allowed


@pytest.mark.parametrize("ending", ["revoked", "expired", "rotated", "deleted token", "creator rotated"])
@pytest.mark.parametrize("checks", [0, 1, 3])  # the first loads the records, the second compares their versions
async def test_token_ends_with_its_account_and_secret(world: World, ending: str, checks: int) -> None:
    creator = await world.accounts.create("ci", [], 600.0, "admin")
    secret = await world.accounts.create("ci--bot", [], 600.0, "service_account/ci", creator_secret_hash=hash_token(creator))
    token = await world.issue(secret, account="ci--bot")
    for _ in range(checks):
        assert (await world.check(token.token)).decision.is_allowed
    if ending == "revoked":
        await world.accounts.revoke("ci--bot")
    elif ending == "rotated":
        await world.accounts.rotate("ci--bot")
    elif ending == "creator rotated":
        await world.accounts.rotate("ci")
    elif ending == "deleted token":
        await world.store.delete(SERVICE_ACCOUNT_TOKEN, TOKEN_ID)
    else:
        world.clock = NOW + 600
    await settled()
    result = await world.check(token.token)
    assert (result.decision.outcome, result.identity) == (Outcome.SIGN_IN, None)
    assert result.token_error


async def test_overlap_of_a_rotation(world: World) -> None:
    token = await world.issue(await world.accounts.create("bot", [], 86400.0, "admin"))
    await world.accounts.rotate("bot", overlap=60.0)
    await settled()
    for _ in range(3):
        assert (await world.check(token.token)).decision.is_allowed
    world.clock = NOW + 60
    assert not (await world.check(token.token)).decision.is_allowed


async def test_groups_are_those_of_the_account_now(world: World) -> None:
    token = await world.issue(await world.accounts.create("bot", ["a"], 86400.0, "admin"))
    assert (await world.check(token.token)).identity
    record = await world.store.get(SERVICE_ACCOUNT, "bot")
    assert record is not None
    await world.store.put(SERVICE_ACCOUNT, "bot", {**record.data, "groups": ["b"]}, expires=record.expires)
    await settled()
    identity = (await world.check(token.token)).identity
    assert identity is not None
    assert identity.group_ids == {"b"}


async def test_account_of_the_same_name_does_not_inherit_tokens(world: World) -> None:
    token = await world.issue(await world.accounts.create("bot", [], 86400.0, "admin"))
    await world.accounts.revoke("bot")
    await world.accounts.create("bot", [], 86400.0, "admin")
    await settled()
    assert not (await world.check(token.token)).decision.is_allowed
