"""TCP tunnels start once the upstream is connected, relay bytes unchanged, and half-close each direction."""

import asyncio

import pytest

from foundation.errors import AccessRevoked, UpstreamError
from proxy.forwarding import tunnel
from proxy.forwarding.forward_result import StreamHandle, TerminationReason
from proxy.forwarding.idle_timer import IdleTimer
from proxy.forwarding.tcp_tunnel import TunnelLimits, tunnel_tcp

from .test_tunnel import Recorder

TIMEOUT = 10.0  # seconds


class Ends(Recorder):
    def write_eof(self):
        self.ends.append("eof")


class TunnelRun:
    """Run of `tunnel_tcp` between two recorders. `client` and `upstream` are the sides that receive data from each."""

    def __init__(self, *, timeout=None, idle_timeout=None, is_disconnected=False, error=None):
        self.to_client, self.to_upstream = Ends(), Ends()
        self.handle, self._limits, self._is_disconnected, self._error = (
            StreamHandle(),
            TunnelLimits(timeout, idle_timeout),
            is_disconnected,
            error,
        )
        self.may_dial = asyncio.Event()
        self.disconnected = asyncio.Event()

    async def _dial(self, side):
        await self.may_dial.wait()
        if self._error is not None:
            raise self._error
        self.upstream = side
        side.connection_made(self.to_upstream)

    def _take_over(self, headers, side):
        if self._is_disconnected:
            raise ConnectionError
        self.headers, self.client = headers, side
        return self.to_client, b"ahead "

    async def _receive(self):
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def __aenter__(self):
        run = tunnel_tcp("db", self._dial, self._take_over, [(b"x-request-id", b"r")], self._receive, self._limits, self.handle)
        self.task = asyncio.ensure_future(run)
        await asyncio.sleep(0)
        return self

    async def start(self):
        self.may_dial.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def finished(self):
        async with asyncio.timeout(TIMEOUT):
            return await asyncio.shield(self.task)


async def test_client_data_is_sent_after_the_upstream_connects():
    async with TunnelRun() as run:
        assert not hasattr(run, "client")
        await run.start()
        run.client.data_received(b"up")
        run.upstream.data_received(b"down")
        assert (run.to_upstream.written, run.to_client.written) == (b"ahead up", b"down")
        assert run.to_upstream.is_reading
        run.upstream.connection_lost(None)
        result = await run.finished()
        assert (result.status, result.downstream_bytes_sent, result.downstream_bytes_received, result.termination) == (
            200,
            4,
            8,
            TerminationReason.COMPLETE,
        )


async def test_each_side_half_closes():
    async with TunnelRun() as run:
        await run.start()
        assert run.client.eof_received()
        assert run.to_upstream.ends == ["eof"]
        run.upstream.data_received(b"late answer")
        assert run.to_client.written == b"late answer"
        assert not run.upstream.eof_received()
        assert run.to_client.ends[0] == "eof"
        assert (await run.finished()).termination is TerminationReason.COMPLETE


async def test_half_close_waits_for_congested_peer():
    async with TunnelRun() as run:
        await run.start()
        run.client.pause_writing()
        run.upstream.eof_received()
        assert run.to_client.ends == []
        run.client.resume_writing()
        assert run.to_client.ends == ["eof"]


async def test_reset_is_passed_on():
    async with TunnelRun() as run:
        await run.start()
        run.upstream.connection_lost(ConnectionResetError())
        assert (await run.finished()).termination is TerminationReason.UPSTREAM_RESET
        assert run.to_client.ends[0] == "abort"


async def test_revocation_aborts_tunnel():
    async with TunnelRun() as run:
        await run.start()
        run.handle.revoke()
        run.client.data_received(b"late")
        assert run.to_upstream.written == b"ahead "
        assert (run.to_upstream.ends[0], run.to_client.ends[0]) == ("abort", "abort")
        assert (await run.finished()).termination is TerminationReason.ACCESS_ENDED


async def test_revocation_while_dialing_opens_no_tunnel():
    async with TunnelRun() as run:
        run.handle.revoke()
        with pytest.raises(AccessRevoked):
            await run.finished()
        assert not hasattr(run, "client")


async def test_client_disconnect_while_dialing():
    async with TunnelRun() as run:
        run.disconnected.set()
        result = await run.finished()
        assert (result.status, result.termination) == (None, TerminationReason.CLIENT_DISCONNECTED)


async def test_client_disconnect_before_takeover_aborts_upstream():
    async with TunnelRun(is_disconnected=True) as run:
        await run.start()
        assert (await run.finished()).termination is TerminationReason.CLIENT_DISCONNECTED
        assert run.to_upstream.ends == ["abort"]


async def test_dial_error_opens_no_tunnel():
    async with TunnelRun(error=UpstreamError("no connection to the upstream")) as run:
        run.may_dial.set()
        with pytest.raises(UpstreamError):
            await run.finished()
        assert not hasattr(run, "client")


async def test_a_timeout_that_was_set_ends_it():
    async with TunnelRun(timeout=0.01) as run:
        await run.start()
        assert (await run.finished()).termination is TerminationReason.TIMEOUT


async def test_idle_timeout_aborts_tunnel():
    async with TunnelRun(idle_timeout=0.01) as run:
        await run.start()
        assert (await run.finished()).termination is TerminationReason.IDLE_TIMEOUT
        assert (run.to_upstream.ends[0], run.to_client.ends[0]) == ("abort", "abort")


@pytest.mark.parametrize("name", ["client", "upstream"])
async def test_data_from_either_side_touches_the_idle_timer(name, monkeypatch):
    touched = []
    monkeypatch.setattr(IdleTimer, "touch", lambda timer: touched.append(timer))
    async with TunnelRun(idle_timeout=60.0) as run:
        await run.start()
        touched.clear()
        getattr(run, name).data_received(b"x")
        assert len(touched) == 1


async def test_congestion_does_not_count_as_idle():
    async with TunnelRun(idle_timeout=0.01) as run:
        await run.start()
        run.upstream.pause_writing()
        await asyncio.sleep(0.05)
        assert not run.task.done()
        run.upstream.resume_writing()
        assert (await run.finished()).termination is TerminationReason.IDLE_TIMEOUT


async def test_listener_shutdown_drains_tunnel(monkeypatch):
    monkeypatch.setattr(tunnel, "DRAIN_TIMEOUT", 0.01)
    async with TunnelRun() as run:
        await run.start()
        run.client.on_shutdown()
        run.client.data_received(b"last words")
        assert run.to_upstream.written == b"ahead last words"
        assert (await run.finished()).termination is TerminationReason.SHUTDOWN
