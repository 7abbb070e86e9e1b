"""Who is not our Envoy is told nothing, and tells nothing."""

import asyncio

import grpc
import pytest

from proxy.envoy.authentication import grpc_service, require_our_envoy
from tests.unit.proxy.envoy.stage import TOKEN, Aborted, Envoy


@pytest.mark.parametrize("token", ["", "x" * 43, TOKEN[:-1], TOKEN + "t"])
async def test_who_has_another_token_is_sent_away(token: str) -> None:
    envoy = Envoy(token)
    with pytest.raises(Aborted):
        await require_our_envoy(envoy, TOKEN)  # type: ignore[arg-type]
    assert envoy.aborted is grpc.StatusCode.UNAUTHENTICATED


def test_who_asks_as_the_listener_says_is_our_envoy() -> None:
    (proof,) = grpc_service(TOKEN)["initial_metadata"]
    envoy = Envoy(proof["value"].removeprefix("Bearer "))
    asyncio.run(require_our_envoy(envoy, TOKEN))  # type: ignore[arg-type]
    assert envoy.aborted is None
