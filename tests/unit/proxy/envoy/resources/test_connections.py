"""How gate names connections to Envoy, and that it asks until it has an answer."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy.envoy.resources.connections import Connections, cut_listener, record_of


@pytest.mark.parametrize(
    ("peer", "record"),
    [
        (("127.0.0.1", 258), "00000000000000000000ffff7f0000010102"),
        (("2001:db8::1", 80), "20010db80000000000000000000000010050"),
        (("[::1]", 1), "000000000000000000000000000000010001"),
    ],
)
def test_a_connection_is_an_address_and_a_port(peer: tuple[str, int], record: str) -> None:
    assert record_of(peer).hex() == record


def test_what_is_no_address_is_none() -> None:
    with pytest.raises(ValueError, match="no address"):
        record_of(("gate", 1))


@asynccontextmanager
async def envoy(path: Path, *answers: bytes) -> AsyncIterator[list[bytes]]:
    asked, left = [], list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        asked.append(head.partition(b" HTTP")[0] + b" " + await reader.readexactly(length))
        writer.write(left.pop(0))
        writer.close()

    server = await asyncio.start_unix_server(answer, path)
    try:
        yield asked
    finally:
        server.close()


def said(*peers: tuple[str, int]) -> bytes:
    body = b"".join(map(record_of, peers))
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def test_it_is_asked_until_it_answers(tmp_path: Path) -> None:
    one, other = ("127.0.0.1", 1), ("127.0.0.1", 2)
    refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    async with envoy(tmp_path / "cuts", b"", refusal, said(one), said(other), said(one)) as asked:
        connections = Connections(tmp_path / "cuts")
        assert await connections.cut([one, other]) == 1
        assert await connections.live([one, other]) == {other}
        assert await connections.finish([one, other]) == {one}
    assert [each[:10] for each in asked] == [b"POST /cut "] * 3 + [b"POST /live", b"POST /fini"]
    assert asked[0].endswith(record_of(one) + record_of(other))


async def test_an_envoy_that_is_gone_carries_nothing(tmp_path: Path) -> None:
    assert await Connections(tmp_path / "cuts").cut([("127.0.0.1", 1)]) == 0


def test_cuts_are_for_this_user_alone(tmp_path: Path) -> None:
    made = cut_listener(tmp_path / "cuts", 8443)
    assert made["address"] == {"pipe": {"path": str(tmp_path / "cuts"), "mode": 0o600}}
    assert not re.search(r"\$[A-Z]", str(made))
