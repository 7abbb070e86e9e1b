"""What Envoy says in its access log counts for the request that it is about, if our Envoy says it."""

import asyncio

import grpc
import pytest

from proxy.envoy import timeouts
from proxy.envoy.timeouts import EnvoyTimeout, EnvoyTimeouts
from proxy.forwarding.http import Ending
from tests.unit.proxy.envoy.stage import TOKEN, Aborted, Envoy


async def hear(made: EnvoyTimeouts, envoy_timeout: EnvoyTimeout, flag: str) -> None:
    """Twice: a second time changes nothing."""
    envoy = Envoy()
    for _ in range(2):
        envoy.logs(flag, envoy_timeout.metadata)
    envoy.ends()
    await made.listen(None, envoy)  # type: ignore[arg-type]


@pytest.mark.parametrize(("flag", "ending"), [("stream_idle_timeout", Ending.SILENT), ("upstream_request_timeout", Ending.TIMED_OUT)])
async def test_a_cut_is_told_of_its_request_alone(flag: str, ending: Ending, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeouts, "_PATIENCE", 0.01)
    made = EnvoyTimeouts(TOKEN)
    one, other = made.begin(), made.begin()
    await hear(made, one, flag)
    assert (await one.ending(), await other.ending()) == (ending, None)


async def test_it_may_be_told_a_moment_after_the_end() -> None:
    made = EnvoyTimeouts(TOKEN)
    envoy_timeout = made.begin()
    asked = asyncio.ensure_future(envoy_timeout.ending())
    await asyncio.sleep(0)
    await hear(made, envoy_timeout, "stream_idle_timeout")
    assert await asked is Ending.SILENT


async def test_what_is_over_is_forgotten() -> None:
    made = EnvoyTimeouts(TOKEN)
    envoy_timeout = made.begin()
    made.forget(envoy_timeout)
    await hear(made, envoy_timeout, "stream_idle_timeout")
    assert repr(made) == "<EnvoyTimeouts of 0 carried>"


async def test_nobody_else_tells_of_cuts() -> None:
    made = EnvoyTimeouts(TOKEN)
    envoy_timeout, envoy = made.begin(), Envoy("x" * 43)
    with pytest.raises(Aborted):
        await asyncio.wait_for(made.listen(None, envoy), 5)  # type: ignore[arg-type]
    assert envoy.aborted is grpc.StatusCode.UNAUTHENTICATED
    assert not envoy_timeout._heard.done()
