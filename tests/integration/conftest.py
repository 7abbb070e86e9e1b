"""The whole product, started once for the tests that only look at it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.development_provider import DevelopmentProvider
from tests.support.fake_directories import ByName
from tests.support.fake_idp import idp  # noqa: F401 - a fixture
from tests.support.gate import GateBuilder, RunningGate
from tests.support.stage import *  # noqa: F403 - fixtures
from tests.support.upstream import SampleUpstream


@pytest.fixture(scope="session")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    """alice: engineering; bob: sales; carol: no group.  The authenticate host and `elsewhere.test` share no domain."""
    builder = (
        GateBuilder(provider.url)
        .route("app.localhost", to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        .route("other.localhost", to=upstream.url, allow_any_authenticated_user=True)
        .route("elsewhere.test", to=upstream.url, allow_any_authenticated_user=True)
        .route("engineering.localhost", to=upstream.url, allowed_groups=["engineering"])
        .route("public.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
        .setting(groups_claim="groups", admin_allowed_users=["alice@example.com"], jwt_claims_headers=["email", "groups"])
    )
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture
async def directory() -> AsyncIterator[ByName]:
    async with ByName() as running:
        yield running
