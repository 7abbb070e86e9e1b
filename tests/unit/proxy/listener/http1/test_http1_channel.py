"""One connection over time: who is next, when it ends, and that no byte is taken for a request that is none (class B5)."""

import asyncio
import itertools
import re
import socket
import time
from dataclasses import dataclass

import pytest
from twisted.internet.interfaces import IHandshakeListener
from twisted.internet.testing import StringTransport

from foundation.web.asgi_types import respond
from proxy.listener import listener_limits
from proxy.listener.fair_selector import install_fair_selector
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.listener_context import ListenerContext, ListenerSettings, default_settings
from proxy.listener.listener_limits import ListenerLimits
from tests.support.eventually import eventually
from tests.support.raw_http import Broken


def post(path: str, body: bytes, *lines: str) -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: canary", f"Content-Length: {len(body)}", *lines, "", ""]).encode() + body


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: canary", *lines, "", ""]).encode()


class Wire(StringTransport):
    """Twisted's transport for tests, which can also end one direction."""

    is_half_closed = False
    is_aborted = False

    def loseWriteConnection(self) -> None:
        self.is_half_closed = True

    def abortConnection(self) -> None:
        self.is_aborted = True


async def connected(**limits: float) -> tuple[Channel, Wire]:
    async def application(scope, receive, send):
        await respond(send, 200, (), b"")

    channel, wire = Channel(ListenerContext(application, lambda: ListenerSettings(ListenerLimits(**limits), None))), Wire()
    channel.makeConnection(wire)
    return channel, wire


async def some_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_pipelined_request_waits_until_previous_response_is_read():
    channel, _wire = await connected()
    application, calls = channel.context.application, []

    async def fills_the_send_buffer(scope, receive, send):
        calls.append(scope["raw_path"])
        await application(scope, receive, lambda message: _pause_before_the_end(message, send))

    async def _pause_before_the_end(message, send):
        if message["type"] == "http.response.body":
            channel.pauseProducing()
        await send(message)

    channel.context.application = fills_the_send_buffer
    channel.dataReceived(get("/one") + get("/two"))
    await some_turns()
    assert calls == [b"/one"]
    channel.resumeProducing()
    await some_turns()
    assert calls == [b"/one", b"/two"]
    channel.connectionLost()


@dataclass
class Standing:
    channel: Channel
    wire: Wire

    @property
    def is_behind(self) -> bool:
        return self.channel.loop._selector.is_demoted(self.wire.fileno())


@pytest.fixture
async def standing():
    """Connection on a loop with priorities."""
    install_fair_selector(asyncio.get_running_loop())
    with socket.socket() as some:
        wire = Wire()
        wire.fileno = some.fileno
        channel = Channel((await connected())[0].context)
        channel.makeConnection(wire)
        yield Standing(channel, wire)
        channel.connectionLost()


async def test_connection_has_low_priority_until_first_response(standing):
    assert standing.is_behind
    standing.channel.dataReceived(get("/"))
    assert standing.is_behind
    await some_turns()
    assert not standing.is_behind
    standing.channel.dataReceived(get("/"))
    assert not standing.is_behind


async def test_fragmented_head_has_low_priority_until_response(standing):
    standing.channel.dataReceived(get("/"))
    await some_turns()
    head = get("/")
    standing.channel.dataReceived(head[:9])
    assert standing.is_behind
    standing.channel.dataReceived(head[9:])
    await some_turns()
    assert not standing.is_behind


async def test_slow_body_has_low_priority(standing):
    async def takes_it_all(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await respond(send, 200, (), b"")

    standing.channel.context.application = takes_it_all
    complete = post("/", bytes(5 * listener_limits.MIN_BODY_CHUNK_BYTES))
    standing.channel.dataReceived(complete[:100])
    standing.channel.dataReceived(complete[100 : 100 + listener_limits.MIN_BODY_CHUNK_BYTES])
    assert not standing.is_behind
    standing.channel.dataReceived(complete[100 + listener_limits.MIN_BODY_CHUNK_BYTES : -9])
    standing.channel.dataReceived(complete[-9:-1])
    assert standing.is_behind
    await some_turns()
    standing.channel.dataReceived(complete[-1:])
    await some_turns()
    assert not standing.is_behind


async def test_the_next_connection_of_a_descriptor_has_no_past(standing):
    assert standing.is_behind
    standing.channel.connectionLost()
    assert not standing.is_behind


async def test_client_that_reads_nothing_is_aborted_after_timeout_idle():
    channel, wire = await connected(idle_timeout=0.01)
    channel.pauseProducing()
    await eventually(lambda: wire.is_aborted)
    channel.connectionLost()


async def test_slow_tls_handshake_does_not_reduce_head_timeout():
    channel, wire = await connected(read_timeout=0.01)
    assert IHandshakeListener.providedBy(channel)
    channel.context.get_settings = default_settings
    channel.handshakeCompleted()
    await asyncio.sleep(0.03)
    assert not wire.is_half_closed
    channel.connectionLost()


async def test_handshake_after_shutdown_restarts_no_timeout():
    channel, wire = await connected(idle_timeout=0.01)
    channel.shut_down()
    channel.context.get_settings = default_settings
    channel.handshakeCompleted()
    await asyncio.sleep(0.03)
    assert wire.is_aborted
    channel.connectionLost()


async def test_rejection_half_closes_so_that_the_response_arrives():
    channel, wire = await connected()
    channel.dataReceived(b"GET / HTTP/1.0\r\n\r\n")
    assert (wire.is_half_closed, wire.disconnecting, wire.is_aborted) == (True, False, False)
    channel.connectionLost()


async def test_discarded_input_is_bounded():
    channel, wire = await connected()
    channel.dataReceived(b"GET / HTTP/1.0\r\n\r\n")
    for _ in range(5):
        channel.dataReceived(b"x" * 1024 * 1024)
    assert wire.is_aborted
    channel.connectionLost()


async def test_refuses_second_empty_line_in_its_own_packet():
    channel, wire = await connected()
    for line in (b"\r\n", b"\r\n", get("/")):
        channel.dataReceived(line)
    assert wire.value().startswith(b"HTTP/1.1 400")
    channel.connectionLost()


def test_pipelined_requests_are_answered_in_order(canary):
    tags = [f"tag-{number}".encode() for number in range(40)]
    with canary.connect() as client:
        client.send(b"".join(post("/slow" if number == 3 else "/echo", tag) for number, tag in enumerate(tags)))
        answers = [client.response().body for _ in tags]
    assert answers == [*tags[:3], b"slow", *tags[4:]]


def test_endless_pipelined_requests_are_bounded(canary):
    one = get("/_/state", "X-Filler: " + "f" * 8000)
    with canary.connect() as client:
        client.send(get("/hold"))
        accepted = client.offer(one * 8, 64 * 1024 * 1024)
    assert accepted < 20 * 1024 * 1024
    canary.control("release")


def test_client_that_never_reads_is_not_read(canary):
    """Answers to pipelined requests are not piled up either."""
    one = post("/_/echo", b"e" * 60000)
    with canary.connect() as client:
        accepted = client.offer(one, 256 * 1024 * 1024)
    assert accepted < 64 * 1024 * 1024


def test_connection_is_reused_for_next_request(canary):
    with canary.connect() as client:
        for number in range(3):
            response = client.send(post("/echo", b"%d" % number)).response()
            assert (response.body, response.announces_close) == (b"%d" % number, False)


@pytest.mark.parametrize("option", ["close", "Keep-Alive, CLOSE", "x , close"])
def test_client_can_request_close(canary, option):
    response, is_closed = canary.ask(get("/", f"Connection: {option}"))
    assert (response.status, is_closed) == (200, True)


def test_bytes_after_the_last_request_are_not_served(canary):
    canary.ask(get("/first", "Connection: close") + get("/second"))
    assert [call["path"] for call in canary.calls] == ["/first"]


def test_early_response_to_small_body_keeps_framing_intact(canary):
    with canary.connect() as client:
        client.send(post("/early", b"")[: -len(b"0\r\n\r\n")] + b"1000\r\n\r\n")
        assert client.response().announces_close is False
        client.send(b"GET /smuggled HTTP/1.1\r\nHost: canary\r\n\r\n".ljust(1000, b"x") + post("/echo", b"next"))
        assert client.response().body == b"next"
    assert [call["path"] for call in canary.calls] == ["/early", "/echo"]


@pytest.mark.parametrize("framing", ["Content-Length: 100000", "Transfer-Encoding: chunked"])
def test_early_response_to_large_body_closes(canary, framing):
    request = f"POST /early HTTP/1.1\r\nHost: canary\r\n{framing}\r\n\r\n".encode()
    with canary.connect() as client:
        response = client.send(request).response()
        assert (response.status, response.announces_close) == (403, True)
        client.send(b"GET /smuggled HTTP/1.1\r\nHost: canary\r\n\r\n")
        assert client.is_closed()
    assert [call["path"] for call in canary.calls] == ["/early"]


def test_sending_client_receives_early_response(canary):
    """Closing at once would reset the connection, and the answer with it."""
    size = 2_000_000
    with canary.connect() as client:
        client.send(f"POST /early HTTP/1.1\r\nHost: canary\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * size)
        assert client.response().status == 403


def test_early_response_closes_if_the_body_stalls(hasty):
    with hasty.connect() as client:
        assert client.send(b"POST /early HTTP/1.1\r\nHost: canary\r\nContent-Length: 9\r\n\r\n").response().status == 403
        assert client.is_closed(8)


def test_a_slow_head_is_refused(hasty):
    with hasty.connect() as client:
        started_at = time.monotonic()
        for byte in itertools.cycle(b"GET / HTTP/1.1\r\nX: "):
            try:
                client.send(bytes([byte]))
                client.socket.settimeout(0.03)
                client._receive()
                break
            except TimeoutError:
                assert time.monotonic() - started_at < 5
            except (Broken, OSError):
                pytest.fail("closed without an answer")
        client.socket.settimeout(5)
        assert client.response().status in (400, 408)


def test_stalled_head_is_a_408(hasty):
    with hasty.connect() as client:
        assert client.send(b"GET / HTTP/1.1\r\nHos").response().status == 408
        assert client.is_closed()
    assert hasty.calls == []


def test_idle_connection_closes_without_response(hasty):
    with hasty.connect() as client:
        assert client.is_closed(2)


def test_empty_lines_do_not_keep_connection_open(hasty):
    with hasty.connect() as client:
        assert client.send(b"\r\n").is_closed(2) or client.response().status == 408


def test_idle_connection_closes_after_response(hasty):
    with hasty.connect() as client:
        client.send(get("/")).response()
        assert client.is_closed(3)


def test_stalled_body_is_a_408(hasty):
    with hasty.connect() as client:
        assert client.send(b"POST /echo HTTP/1.1\r\nHost: canary\r\nContent-Length: 9\r\n\r\nhalf").response().status == 408


def test_trickling_body_is_a_408(hasty):
    with hasty.connect() as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: canary\r\nContent-Length: 900\r\n\r\n")
        client.socket.settimeout(0.04)
        started_at = time.monotonic()
        while time.monotonic() - started_at < 3:
            try:
                client.send(b"x")._receive()
                break
            except TimeoutError:
                continue
        client.socket.settimeout(5)
        assert client.response().status == 408


def test_slow_but_steady_upload_completes(hasty_reader):
    with hasty_reader.connect() as client:
        client.send(b"POST /echo HTTP/1.1\r\nHost: canary\r\nContent-Length: 2400\r\n\r\n")
        for _ in range(6):
            client.send(b"x" * 400)
            time.sleep(0.2)
        assert len(client.response().body) == 2400


def test_unread_body_is_not_a_client_timeout(hasty):
    with hasty.connect() as client:
        client.send(b"POST /slow HTTP/1.1\r\nHost: canary\r\nContent-Length: 4\r\n\r\n")
        assert client.response().body == b"slow"


def test_missing_response_is_a_503(hasty):
    response, is_closed = hasty.ask(get("/never"))
    assert (response.status, is_closed) == (503, True)


def test_endless_response_is_aborted(hasty):
    with hasty.connect() as client, pytest.raises(Broken):
        client.send(get("/events")).response()


def test_client_that_stops_reading_is_disconnected(hasty):
    with hasty.connect() as client:
        client.send(get("/flood"))
        hasty.wait_for("refused_sends")


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: canary\r\n\r\n"
SEPARATORS = [b": ", b":", b" : ", b":\t", b":\x0b", b": \x0c", b"\x00: ", b":\r\n ", b":\n ", b": \x00", b":\x85", b":\xa0"]
NAMES = [
    b"Transfer-Encoding", b"transfer-encoding", b"Transfer_Encoding", b"Transfer Encoding", b" Transfer-Encoding", b"\tTransfer-Encoding",
    b"X: y\nTransfer-Encoding", b"X: y\rTransfer-Encoding", b"Transfer-Encoding\r\n", b"\x0bTransfer-Encoding", b"Transfer\x85-Encoding",
    b"Tran\xc5\xbffer-Encoding", b"Content-Encoding", b"X-Transfer-Encoding", b"Transfer-Encoding-X", b"\xef\xbb\xbfTransfer-Encoding",
]  # fmt: skip
VALUES = [
    b"chunked", b"Chunked", b"CHUNKED", b"chunked ", b"\tchunked", b"\x0bchunked", b"chunked\x0b", b"xchunked", b"chunkedx", b'"chunked"',
    b"'chunked'", b"chunked, identity", b"identity, chunked", b"chunked,chunked", b"chunked;x", b"chun\xe2\x84\xaaed", b"gzip, chunked",
    b",chunked", b"chunked,", b"", b"chunked\r\n x", b"identity", b"cow", b"chunked\x00", b"\xffchunked", b"c\r\n hunked", b"[chunked]",
]  # fmt: skip
LENGTHS = [
    b"0",
    b"3",
    b"+3",
    b"-1",
    b"0x3",
    b"3_0",
    b"3 ",
    b" 3",
    b"3,3",
    b"3;",
    b"3.0",
    b"\xd9\xa3",
    b"03",
    b"1e1",
    b"",
    b"3\x00",
    b"999999999999999999999",
]
SIZES = [
    b"0",
    b"00",
    b"0x0",
    b"+0",
    b"-0",
    b"0;",
    b"0 ",
    b" 0",
    b"0\t",
    b"0;a=b",
    b"0;\n",
    b'0;a="\r\n"',
    b"0_0",
    b"g",
    b"",
    b"0\x00",
    b"3",
    b"f" * 17,
    b"0" * 17,
]
ENDS = [b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\n", b"\0\n", b"\r\n\r\n", b"XX"]


COMPLETE_CHUNKED = re.compile(rb"(?:3\r\nabc\r\n)?0{1,16}(?:;a=b)?\r\n(?:X: y\r\n)?\r\n")
NEXT = re.compile(rb"(?:\r\n)?X?" + re.escape(SMUGGLED))
MARKER = get("/marker", "Connection: close")
NOTHING: tuple[str, ...] = ()
ALL = ("/first", "/smuggled", "/marker")


@dataclass(frozen=True)
class Case:
    """Bytes whose end two parsers may see differently, and the only requests that may come of them."""

    data: bytes
    allowed: frozenset[tuple[str, ...]]
    body: bytes = b""


def corpus() -> list[Case]:
    cases = [_by_length_and_coding(name + separator + b"chunked") for name, separator in itertools.product(NAMES, SEPARATORS)]
    for value, separator in itertools.product(VALUES, (b": ", b":")):
        coding = b"Transfer-Encoding" + separator + value
        cases += [
            _by_length_and_coding(coding),
            _refused(b"Transfer-Encoding: chunked\r\n" + coding),
            _refused(coding + b"\r\nTransfer-Encoding: chunked"),
        ]
    for first, second in itertools.product(LENGTHS, LENGTHS):
        cases.append(_refused(b"Content-Length: " + first + b"\r\nContent-Length: " + second))
    cases += [_by_one_length(length) for length in LENGTHS]
    for size, end, trailer in itertools.product(SIZES, ENDS, (b"\r\n", b"\n", b"X: y\r\n\r\n", b"\r", b"X")):
        cases.append(_by_chunks(size + end + trailer))
    for size, end in itertools.product(SIZES, ENDS):
        cases.append(_by_chunks(b"3" + end + b"abc" + end + size + b"\r\n\r\n"))
    return cases


def _head(lines: bytes) -> bytes:
    return b"POST /first HTTP/1.1\r\nHost: canary\r\n" + lines + b"\r\n\r\n"


def _refused(lines: bytes) -> Case:
    return Case(_head(lines) + b"0\r\n\r\n" + SMUGGLED, frozenset({NOTHING}))


def _by_length_and_coding(coding: bytes) -> Case:
    """By its length, all of it is the body; by its coding, the body would end earlier."""
    body = b"0\r\n\r\n" + SMUGGLED
    is_plain = re.fullmatch(rb"Transfer-Encoding:[ \t]*chunked", coding, re.IGNORECASE) is not None
    allowed = {NOTHING} if is_plain else {NOTHING, ("/first", "/marker")}
    return Case(_head(b"Content-Length: %d\r\n" % len(body) + coding) + body, frozenset(allowed), body)


def _by_one_length(length: bytes) -> Case:
    allowed = {b"0": ALL, b"3": ("/first",), b"03": ("/first",)}.get(length.strip(b" "), NOTHING)
    return Case(_head(b"Content-Length: " + length) + SMUGGLED, frozenset({allowed}), SMUGGLED[: 3 * (len(allowed) == 1)])


def _by_chunks(body: bytes) -> Case:
    data = body + SMUGGLED
    complete = COMPLETE_CHUNKED.match(data)
    allowed = NOTHING
    if complete is not None:
        allowed = ALL if NEXT.fullmatch(data, complete.end()) else ("/first",)
    content = b"abc" if data.startswith(b"3\r\nabc\r\n") else b""
    return Case(_head(b"Transfer-Encoding: chunked") + data, frozenset({allowed}), content)


@pytest.mark.parametrize("part", range(4))
def test_no_byte_is_parsed_as_another_request(canary, part):
    """Accepted is what was answered 200, and the application saw exactly that."""
    for case in corpus()[part::4]:
        with canary.connect() as client:
            on_response_complete = client.send(case.data + MARKER).rest().count(b"HTTP/1.1 200 OK")
        calls = canary.control("reset")["calls"]
        assert tuple(call["path"] for call in calls) in case.allowed, case
        assert len(calls) == on_response_complete, case
        assert [call["body"].encode("latin-1") for call in calls] in ([], [case.body], [case.body, *[b""] * (len(calls) - 1)]), case
