"""Serializer of the HTTP/1.1 response head and its framing (RFC 9112 4-7)."""

import re
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus

from foundation.web.asgi_types import Header
from foundation.web.problem_details import reason_phrase
from proxy.listener.http1.request_head import TOKEN, RequestRejected

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, reason_phrase(status).encode()) for status in HTTPStatus}
# gate frames its connections itself; another framing from an application would desynchronize them.
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding"})
_MANAGED = _HOP_BY_HOP | {b"content-length"}
_LINES = re.compile(rb"(?:%b++: [\t\x20-\x7e\x80-\xff]*+\r\n)*+" % TOKEN)
_CONTENT_LENGTH = re.compile(rb"[0-9]{1,18}")
_BODILESS = frozenset({204, 304})
_ALLOW = b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class ResponseHead:
    """Response head. A `content_length` of None means chunked, unless the response has no body."""

    __slots__ = ("content_length", "has_body", "lines", "status", "wants_close")

    def __init__(self, method: bytes, status: int, headers: Iterable[Header]):
        if not 200 <= status <= 999:
            raise ValueError(f"{status} is not a final status")
        self.status = status
        self.has_body = method != b"HEAD" and status not in _BODILESS
        self.content_length: int | None = None
        self.wants_close = False
        self.lines = self._encode(headers)

    @property
    def is_chunked(self) -> bool:
        return self.has_body and self.content_length is None

    def to_bytes(self, *, close: bool) -> bytes:
        framing = b"Transfer-Encoding: chunked\r\n" if self.is_chunked else b""
        return b"".join(
            (
                _STATUS_LINES.get(self.status) or b"HTTP/1.1 %d \r\n" % self.status,
                self.lines,
                framing,
                b"Connection: close\r\n\r\n" if close else b"\r\n",
            )
        )

    def _encode(self, headers: Iterable[Header]) -> bytes:
        lines: list[bytes] = []
        has_date = False
        for name, value in headers:
            folded = name.lower()
            if folded in _MANAGED and self._consume_managed_header(folded, value):
                continue
            has_date |= folded == b"date"
            lines.append(b"%b: %b\r\n" % (name, value))
        block = b"".join(lines)
        # A value that contains CR LF would be two valid lines, so count the lines too.
        if _LINES.fullmatch(block) is None or block.count(b"\n") != len(lines):
            raise ValueError("a response header is malformed")
        return block if has_date else block + _date_line()

    def _consume_managed_header(self, folded: bytes, value: bytes) -> bool:
        if folded in _HOP_BY_HOP:
            self.wants_close |= folded == b"connection" and b"close" in value.lower()
            return True
        self._parse_content_length(value)
        return self.status == 204

    def _parse_content_length(self, value: bytes) -> None:
        if self.content_length is not None or _CONTENT_LENGTH.fullmatch(value) is None:
            raise ValueError("Content-Length must be one decimal number")
        self.content_length = int(value)


def switching_protocols(headers: Iterable[Header], upgrade: bytes = b"websocket") -> bytes:
    """Return the head of a 101. Raises ValueError for header values that contain line breaks."""
    lines = ResponseHead(b"GET", 204, headers).lines
    return b"".join((_STATUS_LINES[101], b"Upgrade: %b\r\nConnection: Upgrade\r\n" % upgrade, lines, b"\r\n"))


def connect_response(headers: Iterable[Header]) -> bytes:
    """Return the head of a 200 to CONNECT, without framing because the tunnel follows (RFC 9110 9.3.6)."""
    return b"".join((_STATUS_LINES[200], ResponseHead(b"GET", 204, headers).lines, b"\r\n"))


def error_response(rejection: RequestRejected, *, with_body: bool = True) -> bytes:
    """Return the complete response to a rejected request, after which the connection closes."""
    body = rejection.body
    extra = {405: _ALLOW, 426: b"Upgrade: HTTP/1.1\r\n"}.get(rejection.status, b"")
    if rejection.request_id:
        extra += b"X-Request-Id: %b\r\n" % rejection.request_id.encode()
    connection = b"Upgrade, close" if rejection.status == 426 else b"close"
    return b"".join(
        (
            _STATUS_LINES[rejection.status],
            extra,
            b"Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
            _date_line(),
            b"Content-Length: %d\r\nConnection: %b\r\n\r\n" % (len(body), connection),
            body if with_body else b"",
        )
    )


_date: tuple[int, bytes] = (0, b"")


def _date_line() -> bytes:
    global _date
    now = int(time.time())
    if _date[0] != now:
        _date = (now, f"Date: {formatdate(now, usegmt=True)}\r\n".encode())
    return _date[1]
