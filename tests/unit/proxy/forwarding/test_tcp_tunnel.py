"""A tunnel begins with its upstream, carries bytes as they are, and each side ends its own direction."""

import asyncio

import pytest

from foundation.errors import AccessRevoked, UpstreamError
from proxy.forwarding import tunnel
from proxy.forwarding.http_forwarding import StreamHandle, TerminationReason
from proxy.forwarding.idle_timer import IdleTimer
from proxy.forwarding.tcp_tunnel import TunnelLimits, tunnel_tcp

from .test_tunnel import Recorder

SOON = 10.0  # seconds


class Ends(Recorder):
    def write_eof(self):
        self.ends.append("eof")


class Carried:
    """`carry_tcp` between two recorders; `client` and `upstream` are the sides that get what each says."""

    def __init__(self, *, timeout=None, silence=None, is_gone=False, problem=None):
        self.to_client, self.to_upstream = Ends(), Ends()
        self.handle, self._limits, self._is_gone, self._problem = StreamHandle(), TunnelLimits(timeout, silence), is_gone, problem
        self.may_dial = asyncio.Event()
        self.left = asyncio.Event()

    async def _dial(self, side):
        await self.may_dial.wait()
        if self._problem is not None:
            raise self._problem
        self.upstream = side
        side.connection_made(self.to_upstream)

    def _take_over(self, headers, side):
        if self._is_gone:
            raise ConnectionError
        self.headers, self.client = headers, side
        return self.to_client, b"ahead "

    async def _receive(self):
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def __aenter__(self):
        carried = tunnel_tcp("db", self._dial, self._take_over, [(b"x-request-id", b"r")], self._receive, self._limits, self.handle)
        self.task = asyncio.ensure_future(carried)
        await asyncio.sleep(0)
        return self

    async def begin(self):
        self.may_dial.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def ended(self):
        async with asyncio.timeout(SOON):
            return await asyncio.shield(self.task)


async def test_nothing_is_said_before_the_upstream_is_there_and_then_everything():
    async with Carried() as carried:
        assert not hasattr(carried, "client")
        await carried.begin()
        carried.client.data_received(b"up")
        carried.upstream.data_received(b"down")
        assert (carried.to_upstream.written, carried.to_client.written) == (b"ahead up", b"down")
        assert carried.to_upstream.is_reading
        carried.upstream.connection_lost(None)
        result = await carried.ended()
        assert (result.status, result.bytes_sent, result.bytes_received, result.termination) == (200, 4, 8, TerminationReason.COMPLETE)


async def test_each_side_ends_its_own_direction():
    async with Carried() as carried:
        await carried.begin()
        assert carried.client.eof_received()
        assert carried.to_upstream.ends == ["eof"]
        carried.upstream.data_received(b"late answer")
        assert carried.to_client.written == b"late answer"
        assert not carried.upstream.eof_received()
        assert carried.to_client.ends[0] == "eof"
        assert (await carried.ended()).termination is TerminationReason.COMPLETE


async def test_an_end_waits_for_what_the_other_side_has_not_taken():
    async with Carried() as carried:
        await carried.begin()
        carried.client.pause_writing()
        carried.upstream.eof_received()
        assert carried.to_client.ends == []
        carried.client.resume_writing()
        assert carried.to_client.ends == ["eof"]


async def test_what_breaks_off_is_broken_off_for_the_other_side_too():
    async with Carried() as carried:
        await carried.begin()
        carried.upstream.connection_lost(ConnectionResetError())
        assert (await carried.ended()).termination is TerminationReason.UPSTREAM_RESET
        assert carried.to_client.ends[0] == "abort"


async def test_access_that_ends_cuts_it_at_once():
    async with Carried() as carried:
        await carried.begin()
        carried.handle.cancel()
        carried.client.data_received(b"late")
        assert carried.to_upstream.written == b"ahead "
        assert (carried.to_upstream.ends[0], carried.to_client.ends[0]) == ("abort", "abort")
        assert (await carried.ended()).termination is TerminationReason.ACCESS_ENDED


async def test_access_that_ends_while_the_upstream_is_dialled_opens_nothing():
    async with Carried() as carried:
        carried.handle.cancel()
        with pytest.raises(AccessRevoked):
            await carried.ended()
        assert not hasattr(carried, "client")


async def test_a_client_that_leaves_while_the_upstream_is_dialled_is_noticed():
    async with Carried() as carried:
        carried.left.set()
        result = await carried.ended()
        assert (result.status, result.termination) == (None, TerminationReason.CLIENT_DISCONNECTED)


async def test_a_client_that_has_gone_when_the_upstream_is_there_leaves_no_connection():
    async with Carried(is_gone=True) as carried:
        await carried.begin()
        assert (await carried.ended()).termination is TerminationReason.CLIENT_DISCONNECTED
        assert carried.to_upstream.ends == ["abort"]


async def test_an_upstream_that_is_not_there_is_an_error_and_no_tunnel():
    async with Carried(problem=UpstreamError("no connection to the upstream")) as carried:
        carried.may_dial.set()
        with pytest.raises(UpstreamError):
            await carried.ended()
        assert not hasattr(carried, "client")


async def test_a_timeout_that_was_set_ends_it():
    async with Carried(timeout=0.01) as carried:
        await carried.begin()
        assert (await carried.ended()).termination is TerminationReason.TIMEOUT


async def test_silence_from_both_ends_ends_it():
    async with Carried(silence=0.01) as carried:
        await carried.begin()
        assert (await carried.ended()).termination is TerminationReason.IDLE_TIMEOUT
        assert (carried.to_upstream.ends[0], carried.to_client.ends[0]) == ("abort", "abort")


@pytest.mark.parametrize("name", ["client", "upstream"])
async def test_what_either_end_says_breaks_the_silence(name, monkeypatch):
    heard = []
    monkeypatch.setattr(IdleTimer, "touch", lambda silence: heard.append(silence))
    async with Carried(silence=60.0) as carried:
        await carried.begin()
        heard.clear()
        getattr(carried, name).data_received(b"x")
        assert len(heard) == 1


async def test_who_may_not_speak_because_the_other_takes_nothing_is_not_silent():
    async with Carried(silence=0.01) as carried:
        await carried.begin()
        carried.upstream.pause_writing()
        await asyncio.sleep(0.05)
        assert not carried.task.done()
        carried.upstream.resume_writing()
        assert (await carried.ended()).termination is TerminationReason.IDLE_TIMEOUT


async def test_a_listener_that_stops_waits_a_while(monkeypatch):
    monkeypatch.setattr(tunnel, "DRAIN_TIMEOUT", 0.01)
    async with Carried() as carried:
        await carried.begin()
        carried.client.stopped()
        carried.client.data_received(b"last words")
        assert carried.to_upstream.written == b"ahead last words"
        assert (await carried.ended()).termination is TerminationReason.SHUTDOWN
