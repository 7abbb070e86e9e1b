"""The code is displayed, and the server is polled as it says until the user has decided."""

import asyncio

import pytest

from gateproject.tunnel.device_sign_in import sign_in
from gateproject.tunnel.oauth_client import DEVICE_CODE, discover
from gateproject.tunnel.tls_connection import TunnelError
from tests.support.consent import device_code_of
from tests.support.fake_gate import TUNNEL, FakeGate


@pytest.fixture
def gate(tmp_path):
    with FakeGate(tmp_path) as running:
        yield running


class Waits:
    """Records how long the client waits, and changes the server's answer before each poll."""

    def __init__(self, gate: FakeGate, errors: list[str]):
        self.gate, self.errors, self.seconds = gate, iter([*errors, ""]), list[float]()

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        error = next(self.errors)
        self.gate.failing = {DEVICE_CODE: error} if error else {}
        await asyncio.sleep(0)


async def test_code_is_displayed_and_polled_until_the_user_allows(gate):
    waits, messages = Waits(gate, ["authorization_pending", "slow_down", "authorization_pending"]), []
    stored = await sign_in(await discover(gate.gate, TUNNEL), messages.append, waits.sleep)
    assert stored.access_token == "access-1"
    assert [device_code_of(message) for message in messages] == [(f"{gate.issuer}/device", "WDJB-MJHT")]
    assert waits.seconds == [1.0, 1.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("access_denied", "access was denied"),
        ("expired_token", "the code expired"),
        ("invalid_grant", "refused: invalid_grant"),
    ],
)
async def test_decision_of_the_user_ends_it(gate, error: str, message: str):
    waits = Waits(gate, ["authorization_pending", error])
    with pytest.raises(TunnelError, match=message):
        await sign_in(await discover(gate.gate, TUNNEL), lambda message: None, waits.sleep)
    assert len(waits.seconds) == 2


@pytest.mark.parametrize("error", ["temporarily_unavailable", "no JSON"])
async def test_unavailable_server_is_polled_less_often(gate, error: str):
    waits = Waits(gate, [error, "authorization_pending"])
    await sign_in(await discover(gate.gate, TUNNEL), lambda message: None, waits.sleep)
    assert waits.seconds == [1.0, 2.0, 2.0]


async def test_unreachable_server_is_polled_less_often(gate, monkeypatch):
    waits, server = Waits(gate, ["", ""]), await discover(gate.gate, TUNNEL)
    working = type(server).request_tokens

    async def fail_once(self, *args, **params):
        monkeypatch.setattr(type(server), "request_tokens", working)
        raise TunnelError("can't be reached")

    monkeypatch.setattr(type(server), "request_tokens", fail_once)
    assert (await sign_in(server, lambda message: None, waits.sleep)).access_token == "access-1"
    assert waits.seconds == [1.0, 2.0]


@pytest.mark.parametrize(("changed", "interval"), [({"interval": None}, 5.0), ({"interval": 0.001}, 1.0)])
async def test_interval_is_bounded(gate, changed, interval: float):
    gate.changed["/device"] = changed
    waits = Waits(gate, [])
    await sign_in(await discover(gate.gate, TUNNEL), lambda message: None, waits.sleep)
    assert waits.seconds == [interval]


async def test_expired_code_is_not_polled(gate):
    gate.changed["/device"] = {"expires_in": 1, "interval": 1}
    with pytest.raises(TunnelError, match="the code expired"):
        await sign_in(await discover(gate.gate, TUNNEL), lambda message: None)
    assert gate.count(DEVICE_CODE) == 0
