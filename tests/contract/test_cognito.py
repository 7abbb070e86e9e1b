"""Amazon Cognito as PyPI `moto` emulates it: its valid tokens authenticate programs, and its invalid tokens sign in no user.

moto has no hosted pages, no token endpoint and no userinfo endpoint: how a browser signs in at a user pool is not seen here.
"""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings
from structlog.testing import capture_logs

from authenticate.bearer_token_verification import BearerSession, BearerTokens
from foundation.auth_challenges import InvalidToken
from tests.support.authenticate_site import Site
from tests.support.cognito import Cognito, Pool
from tests.support.options import make_options


@pytest.fixture(scope="module")
def cognito() -> Iterator[Cognito]:
    with Cognito() as running:
        yield running


@pytest.fixture(scope="module")
def pool(cognito: Cognito) -> Pool:
    found = cognito.new_pool()
    found.add("alice", ["engineering"])
    return found


class World:
    """One route that takes the pool's tokens."""

    def __init__(self, directory: Path, pool: Pool):
        route = {
            "from": "https://app.example.com",
            "to": "http://up",
            "allowed_idp_claims": {"cognito:groups": ["engineering"]},
            "bearer_token": "jwt",
            "bearer_token_issuer": pool.issuer,
            "bearer_token_audience": [pool.client_id],
            "bearer_token_jwks_url": f"{pool.url}/.well-known/jwks.json",
        }
        self.options = make_options(directory, policy=[route])
        self.now = time.time()
        self.tokens = BearerTokens(self.options, lambda: self.now)

    async def ask(self, token: str) -> BearerSession | None:
        return await self.tokens.verify(self.options.policy[0].id, token)


@pytest.fixture
async def world(tmp_path: Path, pool: Pool) -> AsyncIterator[World]:
    world = World(tmp_path, pool)
    yield world
    await world.tokens.close()


async def test_cognito_id_token_has_user_and_groups(world: World, pool: Pool) -> None:
    bearer = await world.ask(pool.tokens_of("alice")["IdToken"])
    assert bearer is not None
    assert bearer.user.id.startswith(f"{pool.issuer}#")
    assert bearer.session.claims["cognito:groups"] == ["engineering"]
    assert bearer.session.claims["cognito:username"] == "alice"


async def test_cognito_access_token_has_no_audience(world: World, pool: Pool) -> None:
    """It has `client_id` and no `aud`."""
    assert isinstance(await world.ask(pool.tokens_of("alice")["AccessToken"]), InvalidToken)


async def test_a_token_of_another_pool_is_refused_though_the_same_key_has_signed_it(world: World, cognito: Cognito) -> None:
    other = cognito.new_pool()
    other.add("alice", ["engineering"])
    assert isinstance(await world.ask(other.tokens_of("alice")["IdToken"]), InvalidToken)


async def test_a_token_for_another_client_of_the_pool_is_refused(tmp_path: Path, pool: Pool) -> None:
    world = World(tmp_path, Pool(pool.cognito, pool.id, "another-client"))
    assert isinstance(await world.ask(pool.tokens_of("alice")["IdToken"]), InvalidToken)
    await world.tokens.close()


async def test_token_is_valid_until_exp(world: World, pool: Pool) -> None:
    token = pool.tokens_of("alice")["IdToken"]
    world.now += 3600 + 120
    assert isinstance(await world.ask(token), InvalidToken)


async def test_cognito_issuer_mismatch_is_refused(tmp_path: Path, pool: Pool) -> None:
    """Wherever moto answers, its documents are Amazon's."""
    settings: dict[str, Any] = {"idp_provider_url": pool.url, "idp_client_id": pool.client_id, "groups_claim": None}
    with override_settings(ROOT_URLCONF="authenticate.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        site = Site(tmp_path, SimpleNamespace(issuer=pool.url, clock=None), ASGIHandler(), **settings)  # type: ignore[arg-type]
        with capture_logs() as logged:
            page = await site.browser().get(site.sign_in_url("https://app.example.com/"))
        await site.service.stop()
    assert page.status == 503
    assert "is not responding" in page.text
    assert any(f"the provider's issuer is '{pool.issuer}'" in str(entry.get("error")) for entry in logged)
