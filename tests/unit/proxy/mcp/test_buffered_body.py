"""Buffered bodies: complete, bounded, and forwarded in the same bytes."""

import pytest

from proxy.mcp.buffered_body import BodyTooLong, read_body, replay_body
from tests.support.asgi import chunked_receive


@pytest.mark.parametrize("chunks", [(b"",), (b"abc",), (b"a", b"b", b"c"), (b"", b"abc", b"")])
async def test_body_is_read_completely_and_repeated(chunks: tuple[bytes, ...]) -> None:
    receive = chunked_receive(*chunks)
    body = await read_body(receive, 3, await receive())
    assert body == b"".join(chunks)

    async def later() -> dict[str, str]:
        return {"type": "http.disconnect"}

    again = replay_body(body, later)
    assert await again() == {"type": "http.request", "body": body, "more_body": False}
    assert (await again())["type"] == "http.disconnect"


async def test_longer_body_and_client_that_left_are_errors() -> None:
    receive = chunked_receive(b"ab", b"cd")
    with pytest.raises(BodyTooLong):
        await read_body(receive, 3, await receive())
    with pytest.raises(ConnectionError):
        await read_body(receive, 3, {"type": "http.disconnect"})
