"""A congested side pauses reading from its peer only."""

import asyncio

import pytest

from proxy.forwarding import tunnel
from proxy.forwarding.tunnel import CONGESTED, RATE, TunnelSide


class Recorder:
    """Connection that records its calls."""

    def __init__(self):
        self.written = b""
        self.is_reading = True
        self.ends = []
        self.socket = None

    def write(self, data):
        self.written += data

    def pause_reading(self):
        self.is_reading = False

    def resume_reading(self):
        self.is_reading = True

    def close(self):
        self.ends.append("close")

    def abort(self):
        self.ends.append("abort")

    def get_extra_info(self, name):
        return self.socket


def connected() -> tuple[TunnelSide, TunnelSide]:
    sides = (TunnelSide(), TunnelSide())
    sides[0].peer, sides[1].peer = sides[1], sides[0]
    for side in sides:
        side.connection = Recorder()
    return sides


async def test_congested_side_pauses_its_peer():
    first, second = connected()
    first.pause_writing()
    assert (second.connection.is_reading, first.connection.is_reading) == (False, True)
    assert first.is_congested
    first.resume_writing()
    assert second.connection.is_reading
    assert not first.is_congested


async def test_resumes_after_every_pause_reason_is_released():
    side, _ = connected()
    side.pause(CONGESTED)
    side.pause(RATE)
    side.resume(CONGESTED)
    assert not side.connection.is_reading
    side.resume(RATE)
    assert side.connection.is_reading


@pytest.mark.parametrize(("reads_again", "ends"), [(False, ["abort"]), (True, [])])
async def test_stalled_side_is_aborted(monkeypatch, reads_again, ends):
    monkeypatch.setattr(tunnel, "STALL_TIMEOUT", 0.01)
    first, _ = connected()
    first.pause_writing()
    if reads_again:
        first.resume_writing()
    await asyncio.sleep(0.03)
    assert first.connection.ends == ends
