import asyncio
import fcntl
import sys
import termios

import pytest

from config.routes.route import Route
from foundation.errors import UpstreamError
from proxy.upstreams.outgoing_request import OutgoingRequest, Upstream
from tests.support.upstream import RawUpstream


def make_upload(url):
    route = Route.model_validate({"from": "https://app.example.com", "to": url})
    return OutgoingRequest(Upstream.build(route), "POST", b"/", [(b"host", b"u")], has_body=True, content_length=64 << 20)


async def write_for_ever(exchange):
    while True:
        exchange.write(bytes(65536))
        await asyncio.sleep(0)


def unacknowledged(conversation):
    """Return how many bytes the peer's kernel has not received."""
    writer = conversation._writer
    waiting = fcntl.ioctl(writer.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
    return writer.transport.get_write_buffer_size() + int.from_bytes(waiting, sys.byteorder)


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_response_survives_reset_of_the_connection(client, is_chunked):
    """The upstream refuses an upload early; most of its response is in the kernel when the upload fails."""
    content = b"".join(b"%04d" % number for number in range(5_000)) * 2  # less than the kernel buffers for a process that does not read
    framing = b"Content-Length: %d\r\n\r\n" % len(content)
    body = content
    if is_chunked:
        framing = b"Transfer-Encoding: chunked\r\n\r\n"
        body = b"".join(b"64\r\n%b\r\n" % content[at : at + 100] for at in range(0, len(content), 100)) + b"0\r\n\r\n"

    async def script(conversation):
        await conversation.head()
        await conversation.send(b"HTTP/1.1 413 Content Too Large\r\n" + framing + body)
        while unacknowledged(conversation):
            await asyncio.sleep(0)

    async with RawUpstream(script=script) as canary:
        exchange = await client.open(make_upload(canary.url))
        assert (await exchange.read_response())[0] == 413
        with pytest.raises(UpstreamError, match="closed the connection"):
            await write_for_ever(exchange)
        received, is_more = b"", True
        while is_more:
            chunk, is_more = await exchange.read()
            received += chunk
        exchange.close()
    assert received == content
