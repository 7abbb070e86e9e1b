"""End of a body: every split of the bytes gives the same result, and ambiguous framing is refused."""

import pytest

from proxy.listener.http1.request_body import ChunkedBody, LengthBody, is_drainable
from proxy.listener.http1.request_head import RequestRejected
from proxy.listener.listener_limits import DRAIN_BYTES

CHUNKED = b'5\r\nhello\r\n00A;ext=1;q="x"\r\n, cruel wo\r\n3\r\nrld\r\n0\r\nX-Gate-Claim-Email: forged\r\nY:\r\n\r\n'
NEXT = b"GET /next HTTP/1.1\r\n"


def read(body, data, size):
    content, rest = b"", b""
    for offset in range(0, len(data), size):
        if body.finished:
            return content, rest + data[offset:]
        part, rest = body.feed(data[offset : offset + size])
        content += part
    return content, rest


@pytest.mark.parametrize("size", range(1, len(CHUNKED) + len(NEXT) + 1))
def test_a_chunked_body_ends_at_the_same_byte_however_it_is_split(size):
    body = ChunkedBody()
    assert read(body, CHUNKED + NEXT, size) == (b"hello, cruel world", NEXT)
    assert body.finished


@pytest.mark.parametrize("size", range(1, 12))
def test_a_body_of_known_length_ends_there(size):
    body = LengthBody(5)
    assert read(body, b"hello" + NEXT, size) == (b"hello", NEXT)
    assert body.finished


def test_remaining_body_bytes():
    body = LengthBody(10)
    body.feed(b"abc")
    assert (body.remaining, body.finished) == (7, False)
    assert LengthBody(0).finished
    assert [is_drainable(each) for each in (LengthBody(DRAIN_BYTES), LengthBody(DRAIN_BYTES + 1), ChunkedBody())] == [True, False, False]


MALFORMED = {
    "0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "plus": b"+5\r\nhello\r\n0\r\n\r\n",
    "minus": b"-5\r\nhello\r\n0\r\n\r\n",
    "underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "leading space": b" 5\r\nhello\r\n0\r\n\r\n",
    "trailing space": b"5 \r\nhello\r\n0\r\n\r\n",
    "tab": b"5\t\r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "only an extension": b";a\r\nhello\r\n0\r\n\r\n",
    "not hexadecimal": b"g\r\nhello\r\n0\r\n\r\n",
    "2^64": b"10000000000000000\r\nhello\r\n0\r\n\r\n",
    "leading zeros": b"0" * 10000 + b"5\r\nhello\r\n0\r\n\r\n",
    "high digit": "٥\r\nhello\r\n0\r\n\r\n".encode(),
    "bare LF after the size": b"5\nhello\r\n0\r\n\r\n",
    "bare LF where a digit could be eaten": b"50\nhello\r\n0\r\n\r\n",
    "bare CR after the size": b"5\rhello\r\n0\r\n\r\n",
    "CR CR LF": b"5\r\r\nhello\r\n0\r\n\r\n",
    "LF in an extension": b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "LF in a quoted extension": b'5;a="\n"\r\nhello\r\n0\r\n\r\n',
    "NUL in an extension": b"5;\0\r\nhello\r\n0\r\n\r\n",
    "a request in an extension": b"0;GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    "an empty extension": b"5;\r\nhello\r\n0\r\n\r\n",
    "a long extension": b"5;" + b"a" * 1000 + b"\r\nhello\r\n0\r\n\r\n",
    "extensions without end": (b"1;" + b"a" * 200 + b"\r\nx\r\n") * 100,
    "data longer than its size": b"4\r\nhello\r\n0\r\n\r\n",
    "data shorter than its size": b"6\r\nhello\r\n0\r\n\r\n",
    "any two bytes after the data": b"5\r\nhelloXX0\r\n\r\n",
    "bare LF after the data": b"5\r\nhello\n0\r\n\r\n",
    "bare LF at the end": b"0\r\n\n",
    "bare LF after the last chunk": b"0\n\r\n",
    "a folded trailer": b"0\r\nX: a\r\n b\r\n\r\n",
    "a trailer without a colon": b"0\r\nX\r\n\r\n",
    "a trailer with a control byte": b"0\r\nX: \x01\r\n\r\n",
    "a trailer with a next-line byte": b"0\r\nX: a\x85b\r\n\r\n",
    "a request for a trailer": b"0\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    "trailers without end": b"0\r\n" + b"X: y\r\n" * 10000,
    "101 trailers": b"0\r\n" + b"X: y\r\n" * 101 + b"\r\n",
    "large trailers": b"0\r\n" + (b"X: " + b"y" * 4000 + b"\r\n") * 20 + b"\r\n",
    "a bare LF first and a CR last": b"\n\r",
    "a trailer without end": b"0\r\nX: " + b"y" * 20000,
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
def test_a_malformed_chunk_is_refused(name, size):
    with pytest.raises(RequestRejected) as refused:
        read(ChunkedBody(), MALFORMED[name], size)
    assert refused.value.status == 400


def test_an_unfinished_size_line_holds_few_bytes():
    body = ChunkedBody()
    for _ in range(256):
        body.feed(b"0")
    with pytest.raises(RequestRejected):
        body.feed(b"0")


@pytest.mark.parametrize("name", [name for name, data in MALFORMED.items() if len(data) < 4096])
def test_body_malformed_at_the_start_never_reaches_the_application(canary, name):
    head = b"POST /echo HTTP/1.1\r\nHost: canary\r\nTransfer-Encoding: chunked\r\n\r\n"
    response, is_closed = canary.ask(head + MALFORMED[name])
    assert (response.status, is_closed) == (400, True)
    assert canary.calls == []


def test_body_malformed_later_is_a_400_and_closes(canary):
    with canary.connect() as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: canary\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        canary.wait_for("received", 5)
        assert client.send(b"XX\r\nGET /smuggled HTTP/1.1\r\nHost: canary\r\n\r\n").response().status == 400
        assert client.is_closed()
    assert [call["path"] for call in canary.calls] == ["/echo"]


def test_trailers_are_dropped(canary):
    assert (
        canary.ask(b"POST /echo HTTP/1.1\r\nHost: canary\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + CHUNKED)[0].body
        == b"hello, cruel world"
    )
    assert "forged" not in str(canary.calls)
