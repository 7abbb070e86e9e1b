import asyncio
import errno
from unittest.mock import MagicMock

import pytest
from aiohttp.client_proto import ResponseHandler
from aiohttp.http_exceptions import HttpProcessingError

from foundation.connection_errors import ConnectFailure
from foundation.errors import FileDescriptorsExhausted, UpstreamError, UpstreamTimeout
from proxy.upstreams.upstream_errors import MALFORMED, UpstreamErrors, malformed
from proxy.upstreams.upstream_exchange import StaleConnection

ENDPOINT, OTHER = ("app.internal", 8000), ("2001:db8::1", None)


def test_last_error_is_stored_until_success() -> None:
    upstream_errors = UpstreamErrors()
    error = upstream_errors.record_connect_error(ENDPOINT, ConnectionRefusedError())
    assert str(error) == f"upstream app.internal:8000 {ConnectFailure.REFUSED}"
    assert (upstream_errors.last_error(ENDPOINT), upstream_errors.last_error(OTHER)) == (str(ConnectFailure.REFUSED), "")
    upstream_errors.record_success(OTHER)
    upstream_errors.record_success(ENDPOINT)
    assert upstream_errors.last_error(ENDPOINT) == ""
    assert str(upstream_errors.record_timeout(OTHER)) == "upstream 2001:db8::1 timed out"
    upstream_errors.clear()
    assert upstream_errors.last_error(OTHER) == ""


def test_errors_have_the_requested_type() -> None:
    upstream_errors = UpstreamErrors()
    assert isinstance(upstream_errors.record_timeout(ENDPOINT), UpstreamTimeout)
    assert isinstance(upstream_errors.record_response_error(ENDPOINT, ConnectionResetError(), StaleConnection), StaleConnection)
    assert str(upstream_errors.record_response_error(ENDPOINT, ValueError("x"))).endswith(MALFORMED)
    assert type(upstream_errors.record_failure(ENDPOINT, ConnectFailure.EXPIRED)) is UpstreamError


SECRET = b"t0ps3cret"
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding can't be present with Content-Length"),
        (OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "Duplicate Content-Length"),
        (OK + b"Content-Length: 5, 5\r\n\r\n", "Invalid character in Content-Length"),
        (OK + b"Content-Length:\r\n\r\n", "Empty Content-Length"),
        (OK + b"X-" + SECRET + b" : b\r\n\r\n", "Invalid header token"),
        (OK + SECRET + b"\r\n\r\n", "Invalid header token"),
        (OK + b"X: " + SECRET + b"\x00\r\n\r\n", "Invalid HTTP header"),
        (OK + b"X: " + SECRET * 50 + b"\r\n\r\n", "Got more than 100 bytes when reading"),
        (OK + b"X: 1\r\n" * 6 + b"\r\n", "Too many headers received"),
        (b"ICY 200 " + SECRET + b"\r\n\r\n", "Expected HTTP/, RTSP/ or ICE/"),
        (b"HTTP/1.1 2x0 " + SECRET + b"\r\n\r\n", "Invalid status code"),
        (b"HTTP/7.7 200 " + SECRET + b"\r\n\r\n", "Invalid HTTP version"),
        (SECRET + b":\n\n  b'" + SECRET + b"\r\n\r\n", "Expected HTTP/, RTSP/ or ICE/"),
    ],
)
async def test_malformed_response_error_contains_no_response_bytes(response: bytes, reason: str) -> None:
    protocol = ResponseHandler(asyncio.get_running_loop())
    protocol.connection_made(MagicMock(asyncio.Transport))
    protocol.set_response_params(max_line_size=100, max_field_size=100, max_headers=5)
    protocol.data_received(response)
    with pytest.raises(HttpProcessingError) as caught:
        await protocol.read()
    assert str(UpstreamErrors().record_response_error(ENDPOINT, caught.value)) == f"upstream app.internal:8000 {MALFORMED}: {reason}"


@pytest.mark.parametrize(
    "message",
    [
        "",
        SECRET.decode(),
        f"{SECRET.decode()}:\n\n  b'x'",
        f"A{SECRET.decode()}:\n\n  b'x'",
        "Bad status line 't0ps3cret'",
        "A" * 70 + ":\n\n  b'",
    ],
)
def test_unknown_parser_message_is_omitted(message: str) -> None:
    assert malformed(HttpProcessingError(message=message)) == MALFORMED


def test_exhausted_descriptors_are_no_upstream_error() -> None:
    upstream_errors = UpstreamErrors()
    error = upstream_errors.record_connect_error(ENDPOINT, OSError(errno.EMFILE, "Too many open files"))
    assert isinstance(error, FileDescriptorsExhausted)
    assert (error.status, upstream_errors.last_error(ENDPOINT)) == (503, "")
