"""The upstream is offered what was offered to us; SPDY/3.1 is bytes both ways, once both ends have agreed, and nothing after its end."""

import asyncio

import pytest

from foundation.errors import UpstreamError
from proxy.forwarding.forward_result import ForwardResult, StreamHandle, TerminationReason
from proxy.upgrades import HandshakeRefused, SpdyOffer
from tests.support.eventually import PATIENCE
from tests.unit.proxy.forwarding.test_tunnel import Recorder

ANSWER = [(b"Upgrade", b"SPDY/3.1"), (b"Connection", b"Upgrade"), (b"X-Stream-Protocol-Version", b"v4.channel.k8s.io")]


class Upgraded:
    """`Upgrade.carry` between two recorders; `client` and `upstream` are the sides that get what each says."""

    def __init__(self, offer=None, answer=ANSWER, *, timeout=None, sent_ahead=b"ahead ", answered_ahead=b"answered "):
        self.to_client, self.to_upstream = Recorder(), Recorder()
        self.handle, self.result = StreamHandle(), ForwardResult()
        self._offer, self._answer, self._timeout, self._ahead = offer or SpdyOffer(), answer, timeout, (sent_ahead, answered_ahead)

    def _take_client(self, headers, side, upgrade):
        self.headers, self.client, self.upgrade = dict(headers), side, upgrade
        return self.to_client, self._ahead[0]

    def take_over(self, side):
        self.upstream = side
        return self.to_upstream, self._ahead[1]

    async def __aenter__(self):
        carrying = self._offer.run(self._take_client, list, self._timeout, self, self._answer, self.handle, self.result)
        self.task = asyncio.ensure_future(carrying)
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def ended(self):
        async with asyncio.timeout(PATIENCE):
            await asyncio.shield(self.task)
        return self.result


async def test_bytes_pass_both_ways_as_they_are():
    async with Upgraded() as upgraded:
        upgraded.client.data_received(b"\x80\x03up")
        upgraded.upstream.data_received(b"\x80\x03down")
        assert (upgraded.to_upstream.written, upgraded.to_client.written) == (b"ahead \x80\x03up", b"answered \x80\x03down")
        assert (upgraded.upgrade, upgraded.headers[b"X-Stream-Protocol-Version"]) == (b"SPDY/3.1", b"v4.channel.k8s.io")
        upgraded.upstream.connection_lost(None)
        assert await upgraded.ended() == ForwardResult(
            101, len(b"answered \x80\x03down"), TerminationReason.COMPLETE, len(b"ahead \x80\x03up")
        )
        assert "close" in upgraded.to_client.ends


async def test_access_that_ends_cuts_it_at_once_and_nothing_passes_any_more():
    async with Upgraded() as upgraded:
        upgraded.handle.revoke()
        upgraded.client.data_received(b"late")
        upgraded.upstream.data_received(b"late")
        assert (upgraded.to_upstream.written, upgraded.to_client.written) == (b"ahead ", b"answered ")
        assert (upgraded.to_upstream.ends[0], upgraded.to_client.ends[0]) == ("abort", "abort")
        assert (await upgraded.ended()).termination is TerminationReason.ACCESS_ENDED


async def test_a_timeout_that_was_set_ends_it():
    async with Upgraded(timeout=0.01) as upgraded:
        assert (await upgraded.ended()).termination is TerminationReason.TIMEOUT


async def test_the_listener_and_a_client_that_leaves_end_it():
    async with Upgraded() as upgraded:
        upgraded.client.on_shutdown()
        assert (await upgraded.ended()).termination is TerminationReason.SHUTDOWN
    async with Upgraded() as upgraded:
        upgraded.client.connection_lost(None)
        assert (await upgraded.ended()).termination is TerminationReason.CLIENT_DISCONNECTED
        assert "close" in upgraded.to_upstream.ends


@pytest.mark.parametrize(
    "answer",
    [
        [(b"Upgrade", b"websocket"), (b"Connection", b"Upgrade")],
        [(b"Upgrade", b"SPDY/3.1"), (b"Connection", b"close")],
        [(b"Upgrade", b"SPDY/3.1"), (b"Upgrade", b"h2c"), (b"Connection", b"Upgrade")],
        [(b"Connection", b"Upgrade")],
    ],
)
async def test_unexpected_response_opens_no_tunnel(answer):
    async with Upgraded(answer=answer) as upgraded:
        with pytest.raises(UpstreamError):
            await asyncio.wait_for(upgraded.task, PATIENCE)  # what opened a tunnel would go on
        assert not hasattr(upgraded, "client")


OFFER = [(b"upgrade", b"SPDY/3.1"), (b"connection", b"Upgrade")]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"upgrade", b"SPDY/3.1")], True),
        ([(b"upgrade", b"spdy/3.1")], True),
        ([(b"upgrade", b"SPDY/3")], False),
        ([(b"upgrade", b"SPDY/3.1, websocket")], False),
        ([(b"upgrade", b"SPDY/3.1"), (b"upgrade", b"websocket")], False),
        ([], False),
    ],
)
def test_routes_offering_spdy_only(headers, expected):
    assert SpdyOffer.is_requested(headers) is expected


def test_upstream_receives_the_same_upgrade():
    assert SpdyOffer.from_request("POST", [*OFFER, (b"content-length", b"0")]).for_upstream([(b"host", b"u")])[-2:] == [
        (b"upgrade", b"SPDY/3.1"),
        (b"connection", b"Upgrade"),
    ]


@pytest.mark.parametrize(
    ("method", "more"), [("PUT", ()), ("POST", [(b"content-length", b"1")]), ("POST", [(b"transfer-encoding", b"chunked")])]
)
def test_spdy_begins_without_a_body(method, more):
    with pytest.raises(HandshakeRefused):
        SpdyOffer.from_request(method, [*OFFER, *more])
