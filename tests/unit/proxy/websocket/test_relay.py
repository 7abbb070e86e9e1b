"""Websocket relay: frames pass both ways until the connection is ended, and none after that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from proxy.forwarding import tunnel
from proxy.forwarding.forward_result import TerminationReason
from proxy.websocket import relay
from tests.support.eventually import eventually
from tests.support.websockets import ACCEPT, BINARY, CLOSE, PING, TEXT, frames_in, from_client, from_server
from tests.unit.proxy.test_upgrades import Upgraded
from tests.unit.proxy.websocket.test_handshake import ANSWER, offer


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(relay, "CLOSE_HANDSHAKE_SECONDS", 0.1)


def relaying(**options: Any) -> Upgraded:
    return Upgraded(offer(), ANSWER, **{"sent_ahead": b"", "answered_ahead": b"", **options})


async def test_frames_pass_both_ways_as_they_are():
    async with relaying(sent_ahead=from_client(TEXT, b"ahead")) as running:
        running.client.data_received(from_client(BINARY, b"up"))
        running.upstream.data_received(from_server(PING, b"down"))
        assert running.to_upstream.written == from_client(TEXT, b"ahead") + from_client(BINARY, b"up")
        assert running.to_client.written == from_server(PING, b"down")
        assert running.headers[b"sec-websocket-accept"] == ACCEPT
        running.upstream.connection_lost(None)
        result = await running.ended()
    assert (result.status, result.termination, result.downstream_bytes_sent, result.downstream_bytes_received) == (
        101,
        TerminationReason.UPSTREAM_RESET,
        6,
        19,
    )
    assert "close" in running.to_client.ends


async def test_a_revocation_puts_1008_into_both_directions_and_nothing_passes_after_it():
    async with relaying() as running:
        running.handle.revoke()
        running.client.data_received(from_client(TEXT, b"too late"))
        running.upstream.data_received(from_server(TEXT, b"too late"))
        for written, is_masked in ((running.to_client.written, False), (running.to_upstream.written, True)):
            (frame,) = frames_in(written)
            assert (frame.opcode, frame.close_code, frame.is_masked) == (CLOSE, 1008, is_masked)
        assert (await running.ended()).termination is TerminationReason.ACCESS_ENDED


async def test_sent_close_waits_for_end_of_current_frame():
    async with relaying() as running:
        whole = from_server(BINARY, b"x" * 50)
        running.upstream.data_received(whole[:20])
        running.handle.revoke()
        assert running.to_client.written == whole[:20]
        running.upstream.data_received(whole[20:] + from_server(TEXT, b"too late"))
        last, close = frames_in(running.to_client.written)
        assert (last.payload, close.close_code) == (b"x" * 50, 1008)


async def test_a_frame_that_never_ends_does_not_keep_a_revoked_websocket_open():
    async with relaying() as running:
        running.upstream.data_received(from_server(BINARY, b"x" * 50)[:20])
        running.handle.revoke()
        assert (await running.ended()).termination is TerminationReason.ACCESS_ENDED
    assert "abort" in running.to_client.ends


async def test_peers_answering_close_are_released_immediately():
    async with relaying() as running:
        running.handle.revoke()
        running.client.data_received(from_client(CLOSE, b"\x03\xf0"))
        assert running.to_client.ends == ["close"]
        running.upstream.data_received(from_server(CLOSE, b"\x03\xf0"))
        async with asyncio.timeout(relay.CLOSE_HANDSHAKE_SECONDS / 2):
            await asyncio.shield(running.task)


async def test_a_revocation_ends_a_websocket_that_is_closing_slowly():
    async with relaying() as running:
        running.client.data_received(from_client(CLOSE, b"\x03\xe8"))
        running.upstream.data_received(from_server(TEXT, b"still here"))
        running.handle.revoke()
        assert [frame.opcode for frame in frames_in(running.to_client.written)] == [TEXT, CLOSE]
        assert [frame.opcode for frame in frames_in(running.to_upstream.written)] == [CLOSE]
        assert (await running.ended()).termination is TerminationReason.ACCESS_ENDED


async def test_close_of_peer_is_forwarded_and_connection_ends_soon_after(monkeypatch):
    monkeypatch.setattr(relay, "CLOSE_SECONDS", 0.02)
    async with relaying() as running:
        running.client.data_received(from_client(CLOSE, b"\x03\xe8"))
        assert (await running.ended()).termination is TerminationReason.COMPLETE
    assert frames_in(running.to_upstream.written)[0].close_code == 1000


async def test_an_upstream_that_takes_nothing_keeps_no_connection_of_a_websocket_that_has_ended(monkeypatch):
    """Less than what makes it congested may still wait to be sent; that would keep the connection for as long as the upstream hangs."""
    monkeypatch.setattr(tunnel, "CLOSE_TIMEOUT", 0.02)
    async with relaying() as running:
        running.client.data_received(from_client(CLOSE, b"\x03\xe8"))
        running.client.connection_lost(None)
        await running.ended()
        assert running.to_upstream.ends[0] == "close"
        await eventually(lambda: "abort" in running.to_upstream.ends)


@pytest.mark.parametrize(("bad", "code"), [(from_server(TEXT, b"unmasked"), 1002), (b"\x82\xff" + (2**30).to_bytes(8, "big"), 1009)])
async def test_a_forbidden_frame_ends_both_sides_with_its_code(bad: bytes, code: int):
    async with relaying() as running:
        running.client.data_received(from_client(TEXT, b"good") + bad)
        assert frames_in(running.to_client.written)[-1].close_code == code
        data_frames, close = frames_in(running.to_upstream.written)
        assert (data_frames.payload, close.close_code) == (b"good", code)
        assert (await running.ended()).termination is TerminationReason.PROTOCOL_ERROR


async def test_a_set_timeout_ends_it_with_1001():
    async with relaying(timeout=0.02) as running:
        assert (await running.ended()).termination is TerminationReason.TIMEOUT
    assert frames_in(running.to_client.written)[0].close_code == 1001


@pytest.fixture
async def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Awaitable[None]]:
    """Advance the clock by exactly these seconds: a busy machine does not use up the time in which a sender is held."""
    loop, now = asyncio.get_running_loop(), [0.0]
    monkeypatch.setattr(loop, "time", lambda: now[0])

    async def pass_by(seconds: float) -> None:
        now[0] += seconds
        for _ in range(3):  # until what is due has been called
            await asyncio.sleep(0)

    return pass_by


async def test_a_sender_of_too_many_frames_is_read_more_slowly_and_not_closed(passes):
    async with relaying() as running:
        many = from_client(TEXT) * 600
        running.client.data_received(many)
        await passes(0.9 * 600 / relay.MAX_FRAMES_PER_SECOND)
        assert not running.to_client.is_reading
        assert running.to_upstream.is_reading
        await passes(0.2 * 600 / relay.MAX_FRAMES_PER_SECOND)
        assert running.to_client.is_reading
        assert running.to_upstream.written == many


async def test_frames_that_come_after_reading_has_stopped_count_too(passes):
    """TLS hands over all that it has decrypted: the hold for the first of them must not end the hold for all."""
    async with relaying() as running:
        running.client.data_received(from_client(TEXT) * 600)
        running.client.data_received(from_client(TEXT) * 600)
        await passes(1.5 * 600 / relay.MAX_FRAMES_PER_SECOND)
        assert not running.to_client.is_reading


async def test_disconnected_client_still_delivers_sent_data():
    async with relaying() as running:
        running.upstream.pause_writing()
        running.client.connection_lost(None)
        assert running.to_upstream.ends == ["close"]
        assert not running.task.done()
        running.upstream.connection_lost(None)
        assert (await running.ended()).termination is TerminationReason.CLIENT_DISCONNECTED
