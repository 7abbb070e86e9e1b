import pytest

from foundation.web.problem_details import default_advice
from proxy.listener.http1.request_head import RequestRejected
from proxy.listener.http1.response_head import ResponseHead, error_response

DATE = (b"date", b"Thu, 01 Jan 2026 00:00:00 GMT")


def lines(method: bytes, status: int, *headers: tuple[bytes, bytes], close: bool = False) -> list[bytes]:
    head = ResponseHead(method, status, [DATE, *headers]).to_bytes(close=close)
    assert head.endswith(b"\r\n\r\n")
    return [line for line in head.split(b"\r\n") if line and not line.startswith(b"date")]


@pytest.mark.parametrize(
    ("method", "status", "headers", "expected"),
    [
        (b"GET", 200, [(b"Content-Length", b"3")], [b"HTTP/1.1 200 OK", b"Content-Length: 3"]),
        (b"GET", 200, [], [b"HTTP/1.1 200 OK", b"Transfer-Encoding: chunked"]),
        (b"HEAD", 200, [], [b"HTTP/1.1 200 OK"]),
        (b"HEAD", 200, [(b"content-length", b"3")], [b"HTTP/1.1 200 OK", b"content-length: 3"]),
        (b"GET", 204, [(b"content-length", b"0")], [b"HTTP/1.1 204 No Content"]),
        (b"GET", 304, [(b"content-length", b"3")], [b"HTTP/1.1 304 Not Modified", b"content-length: 3"]),
        (b"GET", 799, [(b"content-length", b"0")], [b"HTTP/1.1 799 ", b"content-length: 0"]),
    ],
)
def test_the_framing_fits_the_method_and_the_status(method, status, headers, expected):
    assert lines(method, status, *headers) == expected


def test_the_end_of_the_connection_is_announced():
    assert lines(b"GET", 204, close=True)[-1] == b"Connection: close"


@pytest.mark.parametrize("name", [b"Transfer-Encoding", b"Connection", b"Keep-Alive", b"proxy-connection"])
def test_application_cannot_set_framing(name):
    assert lines(b"GET", 204, (name, b"x")) == [b"HTTP/1.1 204 No Content"]


def test_application_can_request_close():
    assert ResponseHead(b"GET", 200, [(b"Connection", b"Close")]).wants_close


@pytest.mark.parametrize("bad", [b"\r", b"\n", b"\r\n", b"\r\nset-cookie: _gate=x", b"\0", b"\x0b", b"\x1c", b"\x7f"])
@pytest.mark.parametrize("place", ["name", "value"])
def test_no_header_can_add_a_line(bad, place):
    header = (b"x" + bad, b"y") if place == "name" else (b"x", b"y" + bad + b"z")
    with pytest.raises(ValueError, match="malformed"):
        ResponseHead(b"GET", 200, [header])


@pytest.mark.parametrize("value", [b"+1", b"1_0", b"", b"1, 1", b"-1", b"0x1"])
def test_a_length_is_a_number(value):
    with pytest.raises(ValueError, match="Content-Length"):
        ResponseHead(b"GET", 200, [(b"content-length", value)])


def test_there_is_one_length():
    with pytest.raises(ValueError, match="Content-Length"):
        ResponseHead(b"GET", 200, [(b"content-length", b"1"), (b"Content-Length", b"1")])


@pytest.mark.parametrize("status", [100, 101, 103, 0, 1000])
def test_only_final_statuses_are_responses(status):
    with pytest.raises(ValueError, match="final"):
        ResponseHead(b"GET", status, [])


def test_utf8_values_pass():
    value = "inline; filename=\u00e4\u2026".encode()
    assert lines(b"GET", 204, (b"content-disposition", value))[-1] == b"content-disposition: " + value


def test_rejection_is_complete_and_not_cached():
    head, _, body = error_response(RequestRejected(400, "No.")).partition(b"\r\n\r\n")
    assert body == b"400 No.\n%b\n" % default_advice(400).encode()
    assert b"Content-Length: %d" % len(body) in head.split(b"\r\n")
    assert b"Connection: close" in head.split(b"\r\n")
    assert b"Cache-Control: no-store" in head.split(b"\r\n")
