import asyncio

import pytest

from config.routes.route import Route
from foundation.errors import UpstreamError, UpstreamTimeout
from proxy.forwarding.forward_result import ForwardResult, StreamHandle, TerminationReason
from proxy.forwarding.http_forwarding import ABORT_MESSAGE, forward
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from proxy.upstreams.upstream_client import UpstreamClient
from tests.support.upstream import OK, RawUpstream

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
TIMEOUT = 5.0  # seconds


class Downstream:
    """Client side of one request, as ASGI messages."""

    def __init__(self):
        self.sent = []
        self._incoming = asyncio.Queue()
        self._sent_one = asyncio.Event()

    async def receive(self):
        return await self._incoming.get()

    async def send(self, message):
        self.sent.append(message)
        self._sent_one.set()

    def send_body(self, body, *, more=False):
        self._incoming.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def disconnect(self):
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def until(self, condition):
        async with asyncio.timeout(TIMEOUT):
            while not condition(self):
                self._sent_one.clear()
                await self._sent_one.wait()

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def statuses(self):
        return [message["status"] for message in self.sent if message["type"] == "http.response.start"]


@pytest.fixture
def downstream():
    return Downstream()


def make_request(canary, method="GET", **keys):
    route = Route.model_validate({"from": "https://app.example.com", "to": canary.url})
    return OutgoingRequest(Upstream.build(route), method, b"/", [(b"host", b"u")], **keys)


def forward_request(request, client, downstream):
    return forward(request, client, downstream.receive, downstream.send, list, StreamHandle())


async def test_small_response_is_two_messages(client, downstream):
    async with RawUpstream() as canary:
        assert await forward_request(make_request(canary), client, downstream) == ForwardResult(200, 2, TerminationReason.COMPLETE)
    assert downstream.sent == [
        {"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"2")]},
        {"type": "http.response.body", "body": b"ok", "more_body": False},
    ]


@pytest.mark.parametrize(("method", "answer"), [("HEAD", b"200 OK"), ("GET", b"204 No Content"), ("GET", b"304 Not Modified")])
async def test_response_without_body_is_complete(client, downstream, method, answer):
    async with RawUpstream(b"HTTP/1.1 " + answer + b"\r\nContent-Length: 9\r\n\r\n") as canary:
        await forward_request(make_request(canary, method), client, downstream)
    assert downstream.sent[1:] == [{"type": "http.response.body", "body": b"", "more_body": False}]


async def test_response_chunks_are_forwarded_immediately(client, downstream):
    async def script(conversation):
        await conversation.head()
        await conversation.send(EVENTS + b"8\r\ndata: 1\n\r\n")
        await downstream.until(lambda client: client.body == b"data: 1\n")
        await conversation.send(b"8\r\ndata: 2\n\r\n0\r\n\r\n")

    async with RawUpstream(script=script) as canary:
        result = await forward_request(make_request(canary), client, downstream)
    assert (result.termination, downstream.body) == (TerminationReason.COMPLETE, b"data: 1\ndata: 2\n")


@pytest.mark.parametrize("content_length", [6, None])
async def test_a_request_body_streams_while_the_client_still_sends(client, downstream, content_length):
    parts = []

    async def script(conversation):
        await conversation.head()
        size = 3 if content_length else 8  # a chunk of three has five bytes of framing
        parts.append(await conversation.read(size))
        downstream.send_body(b"def")
        parts.append(await conversation.read(size))
        await conversation.send(OK)

    async with RawUpstream(script=script) as canary:
        downstream.send_body(b"abc", more=True)
        request = make_request(canary, "POST", has_body=True, content_length=content_length)
        assert (await forward_request(request, client, downstream)).status == 200
    assert [b"abc" in parts[0], b"def" in parts[1]] == [True, True]


def closes_on_second_request(unanswered_heads):
    """Return a script that responds to one request per connection, and adds the head of the next one to `unanswered_heads`."""

    async def script(conversation):
        await conversation.request()
        await conversation.send(OK)
        unanswered_heads.append(await conversation.head())

    return script


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE", "PUT"])
async def test_idempotent_request_on_stale_connection_is_retried_on_a_new_one(client, method):
    unanswered_heads = []
    async with RawUpstream(script=closes_on_second_request(unanswered_heads)) as canary:
        await forward_request(make_request(canary), client, Downstream())
        second = Downstream()
        assert (await forward_request(make_request(canary, method), client, second)).termination is TerminationReason.COMPLETE
        assert (second.statuses, len(unanswered_heads), canary.connections) == ([200], 1, 2)


async def test_request_is_retried_only_once(client, downstream):
    seen = []

    async def script(conversation):
        seen.append(await conversation.head())
        if len(seen) == 1:
            await conversation.send(OK)
            seen.append(await conversation.head())

    async with RawUpstream(script=script) as canary:
        await forward_request(make_request(canary), client, Downstream())
        with pytest.raises(UpstreamError):
            await forward_request(make_request(canary), client, downstream)
    assert len(seen) == 3


@pytest.mark.parametrize("method", ["POST", "PATCH", "FROB"])
async def test_non_idempotent_request_is_not_retried(client, method):
    unanswered_heads = []
    async with RawUpstream(script=closes_on_second_request(unanswered_heads)) as canary:
        await forward_request(make_request(canary), client, Downstream())
        with pytest.raises(UpstreamError):
            await forward_request(make_request(canary, method), client, Downstream())
        assert (len(unanswered_heads), canary.connections) == (1, 1)


@pytest.mark.parametrize("has_sent_part", [False, True])
async def test_request_with_body_is_retried_only_before_its_body_is_sent(client, downstream, has_sent_part):
    heads, bodies = [], []

    async def script(conversation):
        heads.append(await conversation.head())
        if len(heads) == 1:
            await conversation.send(OK)
            heads.append(await conversation.head())
            if has_sent_part:
                await conversation.read(2)
            return
        downstream.send_body(b"body")
        bodies.append(await conversation.read(4))
        await conversation.send(OK)

    if has_sent_part:
        downstream.send_body(b"bo", more=True)
    async with RawUpstream(script=script) as canary:
        await forward_request(make_request(canary), client, Downstream())
        request = make_request(canary, "PUT", has_body=True, content_length=4)
        if has_sent_part:
            with pytest.raises(UpstreamError):
                await forward_request(request, client, downstream)
        else:
            assert (await forward_request(request, client, downstream)).status == 200
    assert (len(heads), bodies) == ((2, []) if has_sent_part else (3, [b"body"]))


async def test_body_that_arrives_during_a_retry_is_sent(downstream):
    heads, bodies = [], []

    async def script(conversation):
        heads.append(await conversation.head())
        if len(heads) == 1:
            await conversation.send(OK)
            heads.append(await conversation.head())
            return
        bodies.append(await conversation.read(4))
        await conversation.send(OK)

    class FarUpstream(UpstreamClient):
        async def open(self, request, *, force_new=False):
            if force_new:
                downstream.send_body(b"body")
                for _ in range(5):
                    await asyncio.sleep(0)
            return await super().open(request, force_new=force_new)

    client = FarUpstream()
    async with RawUpstream(script=script) as canary, asyncio.timeout(TIMEOUT):
        await forward_request(make_request(canary), client, Downstream())
        assert (await forward_request(make_request(canary, "PUT", has_body=True, content_length=4), client, downstream)).status == 200
    await client.close()
    assert (len(heads), bodies) == (3, [b"body"])


async def test_slow_client_causes_back_pressure(client):
    may_go_on, has_arrived = asyncio.Event(), asyncio.Event()

    class SlowDownstream(Downstream):
        async def send(self, message):
            await super().send(message)
            if message["type"] == "http.response.body":
                await may_go_on.wait()

    written = 0

    async def script(conversation):
        nonlocal written
        await conversation.head()
        await conversation.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (512 * 65536))
        for _ in range(512):
            await conversation.send(b"x" * 65536)
            written += 65536
        await has_arrived.wait()  # the response ends by its length, not with the connection

    downstream = SlowDownstream()
    async with RawUpstream(script=script) as canary:
        task = asyncio.ensure_future(forward_request(make_request(canary), client, downstream))
        await downstream.until(lambda client: len(client.sent) == 2)
        stuck = -1
        while stuck != written:
            stuck = written
            await asyncio.sleep(0.05)
        assert written < 512 * 65536
        may_go_on.set()
        assert (await task).downstream_bytes_sent == 512 * 65536
        has_arrived.set()


async def test_slow_upstream_causes_back_pressure(client, downstream):
    received = 0

    may_go_on = asyncio.Event()

    async def script(conversation):
        await conversation.head()
        await may_go_on.wait()
        await conversation.read(256 * 65536)
        await conversation.send(OK)

    async def receive():
        nonlocal received
        if received == 256:
            await asyncio.Event().wait()
        received += 1
        return {"type": "http.request", "body": b"x" * 65536, "more_body": received < 256}

    async with RawUpstream(script=script) as canary:
        request = make_request(canary, "POST", has_body=True, content_length=256 * 65536)
        task = asyncio.ensure_future(forward(request, client, receive, downstream.send, list, StreamHandle()))
        stuck = -1
        while stuck != received:
            stuck = received
            await asyncio.sleep(0.05)
        assert 0 < received < 256
        may_go_on.set()
        assert (await task).status == 200


async def test_early_response_reaches_uploading_client(client, downstream):
    async def script(conversation):
        await conversation.head()
        await conversation.send(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        await conversation.ended()
        hung_up.set()

    hung_up = asyncio.Event()
    async with RawUpstream(script=script) as canary:
        downstream.send_body(b"abc", more=True)
        result = await forward_request(make_request(canary, "POST", has_body=True, content_length=1000), client, downstream)
        assert (result.status, downstream.body) == (413, b"no")
        async with asyncio.timeout(TIMEOUT):
            await hung_up.wait()


async def test_early_response_survives_upstream_close(client, downstream):
    async def script(conversation):
        await conversation.request()
        await conversation.send(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno")
        await conversation.close()

    async with RawUpstream(script=script) as canary:
        request = make_request(canary, "POST", has_body=True, content_length=3)
        downstream.send_body(b"abc")
        assert (await forward_request(request, client, downstream)).status == 413


@pytest.mark.parametrize("answer", [b"", CHUNKED + b"2\r\nok\r\n"])
async def test_client_disconnect_closes_upstream_request(client, downstream, answer):
    async def script(conversation):
        await conversation.head()
        await conversation.send(answer)
        arrived.set()
        await conversation.ended()
        hung_up.set()

    arrived, hung_up = asyncio.Event(), asyncio.Event()
    async with RawUpstream(script=script) as canary:
        task = asyncio.ensure_future(forward_request(make_request(canary), client, downstream))
        await arrived.wait()
        downstream.disconnect()
        async with asyncio.timeout(TIMEOUT):
            assert (await task).termination is TerminationReason.CLIENT_DISCONNECTED
            await hung_up.wait()
    assert ABORT_MESSAGE not in downstream.sent


async def test_client_disconnect_during_upload_closes_upstream_request(client, downstream):
    async def script(conversation):
        await conversation.head()
        await conversation.read(3)
        downstream.disconnect()
        await conversation.ended()
        hung_up.set()

    hung_up = asyncio.Event()
    async with RawUpstream(script=script) as canary:
        downstream.send_body(b"abc", more=True)
        request = make_request(canary, "POST", has_body=True, content_length=1000)
        async with asyncio.timeout(TIMEOUT):
            assert await forward_request(request, client, downstream) == ForwardResult(None, 0, TerminationReason.CLIENT_DISCONNECTED)
            await hung_up.wait()


async def test_send_error_closes_upstream_request(client):
    async def send(message):
        raise ConnectionResetError

    async with RawUpstream() as canary:
        result = await forward(make_request(canary), client, Downstream().receive, send, list, StreamHandle())
    assert result.termination is TerminationReason.CLIENT_DISCONNECTED


async def test_external_cancellation_propagates(client, downstream):
    async def script(conversation):
        await conversation.head()
        arrived.set()
        await conversation.ended()
        hung_up.set()

    arrived, hung_up = asyncio.Event(), asyncio.Event()
    async with RawUpstream(script=script) as canary:
        task = asyncio.ensure_future(forward_request(make_request(canary), client, downstream))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(TIMEOUT):
            await hung_up.wait()


@pytest.mark.parametrize("timeout", [0.02, 0.12])
async def test_slow_response_raises_upstream_timeout(client, downstream, timeout):
    async def script(conversation):
        await conversation.head()
        await conversation.ended()

    async with RawUpstream(script=script) as canary:
        with pytest.raises(UpstreamTimeout):
            await forward_request(make_request(canary, timeout=timeout), client, downstream)
    assert downstream.sent == []


async def test_timeout_starts_at_end_of_request(client, downstream):
    async def script(conversation):
        await conversation.head()
        await conversation.read(3)
        for _ in range(5):
            await asyncio.sleep(0.05)
        downstream.send_body(b"def")
        await conversation.read(3)
        await conversation.send(OK)

    async with RawUpstream(script=script) as canary:
        downstream.send_body(b"abc", more=True)
        request = make_request(canary, "POST", has_body=True, content_length=6, timeout=0.2)
        assert (await forward_request(request, client, downstream)).status == 200


async def test_timeout_includes_response_body(client, downstream):
    async def script(conversation):
        await conversation.head()
        await conversation.send(CHUNKED + b"2\r\nok\r\n")
        await conversation.ended()

    async with RawUpstream(script=script) as canary:
        result = await forward_request(make_request(canary, timeout=0.12), client, downstream)
    assert result == ForwardResult(200, 2, TerminationReason.TIMEOUT)
    assert downstream.sent[-1] == ABORT_MESSAGE


@pytest.mark.parametrize(("is_default", "reason"), [(True, TerminationReason.COMPLETE), (False, TerminationReason.TIMEOUT)])
async def test_default_timeout_does_not_apply_to_event_streams(client, downstream, is_default, reason):
    async def script(conversation):
        await conversation.head()
        await conversation.send(EVENTS + b"2\r\n:\n\r\n")
        for _ in range(6):
            await asyncio.sleep(0.05)
        await conversation.send(b"0\r\n\r\n")
        await conversation.ended()

    async with RawUpstream(script=script) as canary:
        result = await forward_request(make_request(canary, timeout=0.2, is_default_timeout=is_default), client, downstream)
    assert result.termination is reason


async def test_client_disconnect_ends_event_stream(client, downstream):
    async def script(conversation):
        await conversation.head()
        await conversation.send(EVENTS + b"2\r\n:\n\r\n")
        await conversation.ended()

    async with RawUpstream(script=script) as canary:
        task = asyncio.ensure_future(forward_request(make_request(canary, timeout=30.0, is_default_timeout=True), client, downstream))
        await downstream.until(lambda client: client.body)
        downstream.disconnect()
        async with asyncio.timeout(TIMEOUT):
            assert (await task).termination is TerminationReason.CLIENT_DISCONNECTED


@pytest.mark.parametrize("answer", [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", CHUNKED + b"2\r\nok\r\n"])
async def test_incomplete_response_is_aborted(client, downstream, answer):
    async def script(conversation):
        await conversation.head()
        await conversation.send(answer)
        await downstream.until(lambda client: client.body)

    async with RawUpstream(script=script) as canary:
        assert (await forward_request(make_request(canary), client, downstream)).termination is TerminationReason.UPSTREAM_RESET
    assert downstream.sent[-1] == ABORT_MESSAGE
    assert not any(message.get("more_body") is False for message in downstream.sent)


async def test_error_before_response_headers_sends_nothing(client, downstream):
    async with RawUpstream(b"HTTP/1.1 nonsense\r\n\r\n") as canary:
        with pytest.raises(UpstreamError):
            await forward_request(make_request(canary), client, downstream)
    assert downstream.sent == []


async def test_response_with_refused_headers_is_not_started(client, downstream):
    def refuse(headers):
        raise UpstreamError("split")

    async with RawUpstream() as canary:
        with pytest.raises(UpstreamError, match="split"):
            await forward(make_request(canary), client, downstream.receive, downstream.send, refuse, StreamHandle())
    assert downstream.sent == []


async def test_no_task_remains_after_a_request(client, downstream):
    async def script(conversation):
        while True:
            await conversation.request()
            await asyncio.sleep(0.04)
            await asyncio.sleep(0.04)
            await conversation.send(OK)

    async with RawUpstream(script=script) as canary:
        downstream.send_body(b"abc")
        await forward_request(make_request(canary, "POST", has_body=True, content_length=3, timeout=30.0), client, downstream)
        await forward_request(make_request(canary, timeout=30.0), client, Downstream())
        await asyncio.sleep(0)
        # The tasks of the test upstream have no name.
        assert [name for task in asyncio.all_tasks() if not (name := task.get_name()).startswith("Task-")] == []
