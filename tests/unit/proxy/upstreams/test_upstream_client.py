import asyncio
import gc
import weakref

import pytest

from config.routes.route import Route
from foundation.errors import UpstreamError
from proxy.rewriting.connection_auth import ConnectionUse
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from proxy.upstreams.upstream_connection import INITIAL_READ_BYTES, MAX_READ_BYTES
from proxy.upstreams.upstream_exchange import StaleConnection
from tests.support.eventually import eventually
from tests.support.upstream import OK, RawUpstream

HOST = [(b"host", b"u")]


def make_request(url, method="GET", target=b"/", headers=(), **keys):
    route = Route.model_validate({"from": "https://app.example.com", "to": url})
    return OutgoingRequest(Upstream.build(route), method, target, [*HOST, *headers], **keys)


async def fetch(client, request, *body):
    """Return status, headers and body of one exchange."""
    exchange = await client.open(request)
    try:
        for chunk in body:
            exchange.write(chunk)
        if request.has_body:
            exchange.end_body()
        status, headers = await exchange.read_response()
        received, is_more = b"", True
        while is_more:
            chunk, is_more = await exchange.read()
            received += chunk
        return status, headers, received
    finally:
        exchange.close()


async def test_the_request_goes_out_byte_for_byte(client):
    headers = [(b"x-B", b"1"), (b"X-A", b"2"), (b"x-B", b"3"), (b"empty", b""), (b"latin", b"\xe9")]
    async with RawUpstream() as canary:
        assert await fetch(client, make_request(canary.url, target=b"/a/..%2F//b;c?x=%zz&&?", headers=headers)) == (
            200,
            ((b"Content-Length", b"2"),),
            b"ok",
        )
    assert canary.requests[0].head == (
        b"GET /a/..%2F//b;c?x=%zz&&? HTTP/1.1\r\nhost: u\r\nx-B: 1\r\nX-A: 2\r\nx-B: 3\r\nempty: \r\nlatin: \xe9\r\n\r\n"
    )


@pytest.mark.parametrize("target", [b"/p?", b"/p", b"/%7Euser/\xc3", b"//host/p"])
async def test_target_is_not_normalized(client, target):
    async with RawUpstream() as canary:
        await fetch(client, make_request(canary.url, target=target))
    assert canary.requests[0].target == target


@pytest.mark.parametrize(
    ("keys", "body", "framing"),
    [
        ({}, (), []),
        ({"content_length": 0}, (), [(b"content-length", b"0")]),
        ({"has_body": True, "content_length": 5}, (b"he", b"", b"llo"), [(b"content-length", b"5")]),
        ({"has_body": True}, (b"he", b"", b"llo"), [(b"transfer-encoding", b"chunked")]),
        ({"has_body": True}, (), [(b"transfer-encoding", b"chunked")]),
    ],
)
async def test_a_body_is_framed_as_the_client_framed_it(client, keys, body, framing):
    async with RawUpstream() as canary:
        await fetch(client, make_request(canary.url, "POST", **keys), *body)
    assert canary.requests[0].headers == [*HOST, *framing]
    assert canary.requests[0].body == b"".join(body)


async def test_no_byte_beyond_content_length_is_sent(client):
    async def script(conversation):
        await conversation.head()
        with pytest.raises(asyncio.IncompleteReadError) as early_end:
            await conversation.read(10)
        received.set_result(early_end.value.partial)

    received = asyncio.get_running_loop().create_future()
    async with RawUpstream(script=script) as canary:
        with pytest.raises(UpstreamError, match="longer"):
            await fetch(client, make_request(canary.url, "POST", has_body=True, content_length=5), b"123", b"45GET / HTTP/1.1")
        assert await received == b"123"


async def test_connection_with_incomplete_request_is_not_reused(client):
    async def responds_early(conversation):
        await conversation.head()
        await conversation.send(OK)
        await conversation.ended()

    async with RawUpstream(script=responds_early) as canary:
        exchange = await client.open(make_request(canary.url, "POST", has_body=True, content_length=5))
        exchange.write(b"12")
        await exchange.read_response()
        assert await exchange.read() == (b"ok", False)
        exchange.close()
        async with asyncio.timeout(5):  # the old connection would not respond
            await fetch(client, make_request(canary.url))
        assert canary.connections == 2


async def test_closed_connection_to_stalled_upstream_is_released(client):
    """Each would occupy a file descriptor while the upstream hangs."""

    async def hangs(conversation):
        await asyncio.Event().wait()

    async with RawUpstream(script=hangs) as canary:
        exchange = await client.open(make_request(canary.url, "POST", has_body=True))
        while not exchange.is_congested:
            exchange.write(b"x" * 65536)
            await asyncio.sleep(0)
        connection = exchange._connection.transport.get_extra_info("socket")
        exchange.close()
        await eventually(lambda: connection.fileno() < 0)


async def test_refuses_unrequested_protocol_switch(client):
    async with RawUpstream(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n") as canary:
        with pytest.raises(UpstreamError, match="switched protocols"):
            await fetch(client, make_request(canary.url))


@pytest.mark.parametrize("body", [b"123456", b"1234"])
async def test_content_length_mismatch_closes_connection(client, body):
    async with RawUpstream() as canary:
        with pytest.raises(UpstreamError, match="Content-Length"):
            async with asyncio.timeout(5):  # the upstream would wait for the announced length
                await fetch(client, make_request(canary.url, "POST", has_body=True, content_length=5), body)
        assert (await fetch(client, make_request(canary.url)))[2] == b"ok"
        assert canary.connections == 2


async def test_connections_are_reused(client):
    async with RawUpstream() as canary:
        for _ in range(5):
            await fetch(client, make_request(canary.url))
        assert canary.connections == 1


async def test_expired_idle_connection_is_closed(client, monkeypatch):
    async with RawUpstream() as canary:
        await fetch(client, make_request(canary.url))
        assert repr(client._idle) == "<IdleConnections 1 of 1 upstreams>"
        monkeypatch.setattr("proxy.upstreams.idle_connections.KEEPALIVE_TIMEOUT", -1.0)
        await fetch(client, make_request(canary.url))
        assert canary.connections == 2
        client._idle._close_expired()
        assert repr(client._idle) == "<IdleConnections 0 of 0 upstreams>"


@pytest.mark.parametrize("unsolicited", [b"HTTP/1.1 2", OK, b"x"])
async def test_connection_with_unsolicited_bytes_is_not_reused(client, unsolicited):
    """Partial responses count too, because the next request would receive the rest."""
    is_sent = asyncio.Event()

    async def sends_more(conversation):
        await conversation.head()
        await conversation.send(OK)
        await asyncio.sleep(0.05)
        await conversation.send(unsolicited)
        is_sent.set()
        await conversation.head()

    async with RawUpstream(script=sends_more) as canary:
        await fetch(client, make_request(canary.url))
        await is_sent.wait()
        await asyncio.sleep(0.05)
        assert (await fetch(client, make_request(canary.url)))[2] == b"ok"
        assert canary.connections == 2


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("GET", 304), ("POST", 204)])
async def test_late_body_of_bodiless_response_is_no_response(client, method, status):
    """Its connection is not reused, because the late body would become the next response."""

    async def sends_a_body_late(conversation):
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")  # this connection is reused
        await conversation.request()
        await conversation.send(b"HTTP/1.1 %d Answer\r\n\r\n" % status)
        await conversation.request()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged")

    async with RawUpstream(script=sends_a_body_late) as canary:
        assert (await fetch(client, make_request(canary.url)))[2] == b"ok"
        assert (await fetch(client, make_request(canary.url, method)))[::2] == (status, b"")
        assert canary.connections == 1
        assert (await fetch(client, make_request(canary.url)))[2] == b"ok"
        assert canary.connections == 2


async def test_no_cookie_and_no_redirect_is_followed(client):
    async with RawUpstream(b"HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n") as canary:
        for _ in range(2):
            assert (await fetch(client, make_request(canary.url)))[0] == 302
    assert [request.headers for request in canary.requests] == [HOST, HOST]


async def test_reused_connection_that_closes_is_stale(client):
    async def hangs_up_on_the_second(conversation):
        await conversation.head()
        await conversation.send(OK)
        await conversation.head()

    async with RawUpstream(script=hangs_up_on_the_second) as canary:
        await fetch(client, make_request(canary.url))
        with pytest.raises(StaleConnection):
            await fetch(client, make_request(canary.url))
        assert canary.connections == 1


@pytest.mark.parametrize("data", [b"H", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
async def test_connection_that_received_bytes_is_not_stale(client, data):
    async def breaks_off_in_the_second(conversation):
        await conversation.head()
        await conversation.send(OK)
        await conversation.head()
        await conversation.send(data)
        await conversation.close()

    async with RawUpstream(script=breaks_off_in_the_second) as canary:
        await fetch(client, make_request(canary.url))
        with pytest.raises(UpstreamError) as caught:
            await fetch(client, make_request(canary.url))
        assert type(caught.value) is UpstreamError


async def test_new_connection_is_never_stale(client):
    async def hangs_up(conversation):
        await conversation.head()

    async with RawUpstream(script=hangs_up) as canary:
        with pytest.raises(UpstreamError) as caught:
            await fetch(client, make_request(canary.url))
        assert type(caught.value) is UpstreamError


async def test_force_new_ignores_idle_connections(client):
    async with RawUpstream() as canary:
        first, second = [await client.open(make_request(canary.url)) for _ in range(2)]
        for exchange in (first, second):
            await exchange.read_response()
            await exchange.read()
            exchange.close()
        exchange = await client.open(make_request(canary.url), force_new=True)
        await exchange.read_response()
        exchange.close()
        assert canary.connections == 3


async def test_upgrade_uses_a_new_connection(client):
    upgrade = [(b"upgrade", b"SPDY/3.1"), (b"connection", b"Upgrade")]
    async with RawUpstream() as canary:
        await fetch(client, make_request(canary.url))
        for connections in (2, 3):
            await fetch(client, make_request(canary.url, "POST", headers=upgrade, is_upgrade=True))
            assert canary.connections == connections
        await fetch(client, make_request(canary.url))
        assert canary.connections == 3


@pytest.mark.parametrize(
    ("use", "answer", "is_shared"),
    [
        (ConnectionUse.SHARED, OK, True),
        (ConnectionUse.WATCHED, OK, True),
        (ConnectionUse.EXCLUSIVE, OK, False),
        (ConnectionUse.WATCHED, OK.replace(b"\r\n\r\n", b"\r\nPersistent-Auth: true\r\n\r\n"), False),
        (ConnectionUse.SHARED, b"HTTP/1.1 401 No\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n", False),
        (ConnectionUse.SHARED, b"HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", True),
    ],
)
async def test_authenticated_connection_is_not_reused(client, use, answer, is_shared):
    async with RawUpstream(answer) as canary:
        await fetch(client, make_request(canary.url, connection_use=use))
        assert repr(client._idle) == f"<IdleConnections {int(is_shared)} of {int(is_shared)} upstreams>"


async def test_exclusive_request_uses_a_new_connection(client):
    async with RawUpstream() as canary:
        await fetch(client, make_request(canary.url))
        await fetch(client, make_request(canary.url, connection_use=ConnectionUse.EXCLUSIVE))
        await fetch(client, make_request(canary.url))
        assert canary.connections == 2


async def test_bytes_after_101_reach_the_new_protocol(client):
    """They are more than aiohttp buffers, so that it has paused reading."""
    ahead = bytes(range(256)) * 60

    async def script(conversation):
        await conversation.head()
        await conversation.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + ahead)
        await conversation.ended()

    class Receiver(asyncio.Protocol):
        def __init__(self):
            self.received = b""

        def data_received(self, data):
            self.received += data

    async with RawUpstream(script=script) as canary:
        exchange = await client.open(make_request(canary.url, is_upgrade=True))
        assert (await exchange.read_response())[0] == 101
        receiver = Receiver()
        _, first = exchange.take_over(receiver)
        assert first
        while len(first + receiver.received) < len(ahead):
            await asyncio.sleep(0)
        assert first + receiver.received == ahead
        exchange.close()


async def test_unsolicited_response_is_not_the_next_response(client):
    async def responds_again(conversation):
        await conversation.head()
        await conversation.send(OK)
        await is_idle.wait()
        await conversation.send(OK.replace(b"ok", b"no"))
        await conversation.head()

    async def responds_once(conversation):
        await conversation.head()
        await conversation.send(OK)

    is_idle = asyncio.Event()
    scripts = [responds_again, responds_once]
    async with RawUpstream(script=lambda conversation: scripts.pop(0)(conversation)) as canary:
        assert (await fetch(client, make_request(canary.url)))[2] == b"ok"
        is_idle.set()
        await asyncio.sleep(0.05)
        assert (await fetch(client, make_request(canary.url)))[2] == b"ok"
        assert canary.connections == 2


async def test_interim_responses_are_skipped(client):
    async with RawUpstream(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + OK) as canary:
        assert (await fetch(client, make_request(canary.url)))[::2] == (200, b"ok")


async def test_the_body_is_not_decompressed(client):
    answer = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8bxx"
    async with RawUpstream(answer) as canary:
        assert (await fetch(client, make_request(canary.url)))[2] == b"\x1f\x8bxx"


@pytest.mark.parametrize(("fast_seconds", "max_bytes"), [(-1.0, INITIAL_READ_BYTES), (60.0, MAX_READ_BYTES)])
async def test_buffer_is_small_for_slow_client(client, monkeypatch, fast_seconds, max_bytes):
    """The size of the response does not matter; a fast client gets a larger buffer."""
    monkeypatch.setattr("proxy.upstreams.upstream_connection.FAST_READER_SECONDS", fast_seconds)
    length = 8 << 20
    async with RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + bytes(length)) as canary:
        exchange = await client.open(make_request(canary.url))
        await exchange.read_response()
        chunk_sizes, received, is_more = [], 0, True
        while is_more:
            for _ in range(20):  # the upstream sends as much as it can
                await asyncio.sleep(0)
            chunk, is_more = await exchange.read()
            chunk_sizes.append(len(chunk))
            received += len(chunk)
        exchange.close()
    assert max_bytes <= max(chunk_sizes) <= 2 * max_bytes
    assert max(chunk_sizes[:2]) <= 2 * INITIAL_READ_BYTES
    assert received == length


async def test_buffer_shrinks_when_client_slows_down(client, monkeypatch):
    length = 8 << 20
    async with RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + bytes(length)) as canary:
        exchange = await client.open(make_request(canary.url))
        await exchange.read_response()
        for fast_seconds, max_bytes in ((60.0, 2 * MAX_READ_BYTES), (-1.0, 2 * INITIAL_READ_BYTES), (60.0, 2 * MAX_READ_BYTES)):
            monkeypatch.setattr("proxy.upstreams.upstream_connection.FAST_READER_SECONDS", fast_seconds)
            chunk_sizes = []
            for _ in range(40):
                await asyncio.sleep(0)
                chunk_sizes.append(len((await exchange.read())[0]))
            assert max_bytes // 2 <= max(chunk_sizes[20:]) <= max_bytes
        exchange.close()


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_responses_without_a_body_end_at_once(client, status):
    async with RawUpstream(b"HTTP/1.1 " + status + b"\r\nContent-Length: 7\r\n\r\n") as canary:
        assert (await fetch(client, make_request(canary.url)))[2] == b""


async def test_head_response_has_no_body(client):
    async with RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n") as canary:
        for _ in range(2):
            assert await fetch(client, make_request(canary.url, "HEAD")) == (200, ((b"Content-Length", b"7"),), b"")


async def test_64_kib_of_response_headers_pass(client):
    lines = b"".join(b"x-%02d: %s\r\n" % (number, b"v" * 10_000) for number in range(6)) + b"x-long: " + b"w" * 5_000 + b"\r\n"
    async with RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + lines + b"\r\n") as canary:
        _, headers, _ = await fetch(client, make_request(canary.url))
        assert sum(len(value) for _, value in headers) > 65_000


async def test_more_response_headers_are_refused(client):
    lines = b"".join(b"x-%02d: %s\r\n" % (number, b"v" * 10_000) for number in range(7))
    async with RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + lines + b"\r\n") as canary:
        with pytest.raises(UpstreamError, match="64 KiB"):
            await fetch(client, make_request(canary.url))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
    ],
)
async def test_incomplete_or_malformed_response_is_an_upstream_error(client, answer):
    async def script(conversation):
        await conversation.head()
        await conversation.send(answer)
        await conversation.close()

    async with RawUpstream(script=script) as canary:
        with pytest.raises(UpstreamError):
            await fetch(client, make_request(canary.url))


async def test_bytes_before_a_reset_are_read_first(client):
    async def script(conversation):
        await conversation.head()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")
        await conversation.close()

    async with RawUpstream(script=script) as canary:
        exchange = await client.open(make_request(canary.url))
        await exchange.read_response()
        while exchange._protocol.connected:  # no read is pending when the connection is lost
            await asyncio.sleep(0)
        assert await exchange.read() == (b"short", True)
        with pytest.raises(UpstreamError):
            await exchange.read()
        exchange.close()


async def test_a_body_without_a_length_ends_with_the_connection(client):
    async def script(conversation):
        await conversation.head()
        await conversation.send(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        await conversation.close()

    async with RawUpstream(script=script) as canary:
        assert (await fetch(client, make_request(canary.url)))[2] == b"until the end"


async def test_a_refused_connection_is_an_upstream_error(client):
    async with RawUpstream() as canary:
        pass
    with pytest.raises(UpstreamError, match=r"refused the connection|can't be resolved"):
        await fetch(client, make_request(canary.url))


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", b"nothing of HTTP\r\n\r\n"])
async def test_error_is_freed_without_garbage_collector(client, answer):
    """Its traceback refers to a configuration, which a reload may freeze (gateproject/process/gc_tuning.py)."""

    async def script(conversation):
        await conversation.head()
        await conversation.send(answer)
        await conversation.close()

    async def failed(url):
        try:
            await fetch(client, make_request(url))
        except UpstreamError as error:
            return weakref.ref(error)

    async with RawUpstream(script=script) as canary:
        gc.disable()
        try:
            error = await failed("http://127.0.0.1:1" if answer is None else canary.url)
            assert error() is None
        finally:
            gc.enable()


async def test_a_name_that_does_not_resolve_is_an_upstream_error(client):
    with pytest.raises(UpstreamError, match=r"refused the connection|can't be resolved"):
        await fetch(client, make_request("http://does-not-exist.invalid"))


async def test_only_addresses_of_the_chosen_family_are_used(client):
    async with RawUpstream() as canary:  # on 127.0.0.1 only
        by_name = canary.url.replace("127.0.0.1", "localhost")
        for family, is_reached in (("AUTO", True), ("V6_ONLY", False), ("V4_ONLY", True)):
            client.reconfigure(family)
            if is_reached:
                assert (await fetch(client, make_request(by_name, headers=[(b"connection", b"close")])))[0] == 200
                await client.close()
            else:
                with pytest.raises(UpstreamError, match=r"refused the connection|can't be resolved"):
                    await fetch(client, make_request(by_name))
