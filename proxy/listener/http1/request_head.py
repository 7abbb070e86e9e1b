"""Strict parser of the HTTP/1.1 request head (RFC 9112 2-5), so that no other parser can interpret it differently."""

import re
from dataclasses import dataclass, field

from authorize.policy.policy_request import require_method
from foundation.errors import BadRequest
from foundation.web.asgi_types import Headers
from foundation.web.field_values import has_c1_control
from foundation.web.problem_details import default_advice
from proxy.listener.listener_limits import HEADER_BYTES, HEADER_COUNT, HEADERS_BYTES, REQUEST_LINE_EXTRA_BYTES, URL_BYTES

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
_VALUE = rb"[\t\x20-\x7e\x80-\xff]"  # `has_c1_control` rejects some of the bytes above ASCII
# Possessive quantifiers, because no input may make these backtrack.
HEADER_LINE = re.compile(rb"(%b++):(%b*+)\r\n" % (TOKEN, _VALUE))
HEADER_LINES = re.compile(rb"(?:%b++:%b*+\r\n)*+" % (TOKEN, _VALUE))
_REQUEST_LINE = re.compile(rb"(%b++) ([\x21\x22\x24-\x7e]++) HTTP/([0-9])\.([0-9])" % TOKEN)
_ABSOLUTE_FORM = re.compile(rb"https?://([^/?]*+)(.*+)", re.IGNORECASE | re.DOTALL)
_HOST = re.compile(rb"(?:[0-9A-Za-z._\-]++|\[[0-9A-Fa-f:.]++\])(?::[0-9]{1,5})?")
_CONTENT_LENGTH = re.compile(rb"[0-9]{1,18}")
_AUTHORITY_FORM = re.compile(rb"(?:[0-9A-Za-z._\-]++|\[[0-9A-Fa-f:.]++\]):[1-9][0-9]{0,4}")
_COOKIE_LINE = re.compile(rb"^cookie:.*\r\n", re.IGNORECASE | re.MULTILINE)
_METHOD_BYTES = 32
_CONNECT = b"CONNECT"
_FORBIDDEN_METHODS = frozenset({b"TRACE", b"TRACK"})
# Methods that `_require_method` accepts in any case; checked first because nearly every request has one of them.
_COMMON_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"})
# Daphne reads its root path from this client header.
IGNORED_HEADER_NAMES = frozenset({b"daphne-root-path"})
_SPECIAL_HEADERS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection", b"expect", b"upgrade"})

HTTP_1_1_REQUIRED = 'HTTP/1.1 is required. (nginx: "proxy_http_version 1.1". HAProxy: "http-check send ver HTTP/1.1 hdr Host <host>".)'


class RequestRejected(BadRequest):
    """The listener rejects the request: the application never sees it, and the connection closes."""

    def __init__(self, status: int, reason: str, advice: str = ""):
        """Take the `advice` on what to do next, "" for the default advice of the status."""
        super().__init__(reason)
        self.status, self.advice = status, advice
        self.request_id = ""  # set when it is logged

    @property
    def body(self) -> bytes:
        """Return the body of the response: what is wrong, and what to do next."""
        return f"{self.status} {self}\n{self.advice or default_advice(self.status)}\n".encode()


@dataclass(slots=True)
class RequestHead:
    """Parsed request head.

    `body_length` is None for a chunked body. `headers` have lower-case names. `has_empty_query` is true if the target ends in a bare `?`.
    `ends_http` is true if bytes after the head are not HTTP: they belong to the protocol that takes over, or are dropped.
    A CONNECT has the path `/`, and its target is the Host.

    Each client header is either in `headers`, or its name is in `ignored_header_names`: a proxy that forwards the client's own head
    (Envoy, a front proxy) must know every name that gate ignores.
    """

    method: bytes
    raw_path: bytes
    query_string: bytes
    headers: Headers
    body_length: int | None = 0
    expects_continue: bool = False
    wants_close: bool = False
    ends_http: bool = False
    has_empty_query: bool = False
    ignored_header_names: list[bytes] = field(default_factory=list)
    host: bytes = b""


class HeadReader:
    """Incremental reader that finds the end of a request head and scans each byte once."""

    __slots__ = ("_checked", "_has_skipped_line")

    def __init__(self) -> None:
        self._checked = 0
        self._has_skipped_line = False

    def read(self, buffer: bytearray) -> tuple[RequestHead, int] | None:
        """Return the head and the offset of its body, or None while the head is incomplete.

        Raises RequestRejected as soon as the head cannot become valid.
        """
        if not self._has_skipped_line and buffer.startswith(b"\r\n"):
            # RFC 9112 2.2: one empty line before a request is ignored.
            self._has_skipped_line = True
            del buffer[:2]
        end = buffer.find(b"\r\n\r\n", max(0, self._checked - 3))
        if end == -1:
            validate_partial_head(buffer, self._checked)
            self._checked = len(buffer)
            return None
        self._checked, self._has_skipped_line = 0, False
        return parse_head(bytes(buffer[: end + 2])), end + 4


def validate_partial_head(buffer: bytes | bytearray, checked: int) -> None:
    """Raise RequestRejected if an incomplete head cannot become valid. The bytes before `checked` are already validated."""
    line_end = buffer.find(b"\n", checked)
    while line_end != -1:
        if line_end == 0 or buffer[line_end - 1] != 0x0D:
            raise RequestRejected(400, "Lines must end with CR LF.")
        line_end = buffer.find(b"\n", line_end + 1)
    if len(buffer) > URL_BYTES + REQUEST_LINE_EXTRA_BYTES and buffer.find(b"\r\n", 0, URL_BYTES + REQUEST_LINE_EXTRA_BYTES) == -1:
        raise RequestRejected(414, "The URL is too long.")
    if len(buffer) > URL_BYTES + REQUEST_LINE_EXTRA_BYTES + HEADERS_BYTES:
        raise RequestRejected(431, "The request headers are too large.")


# enforcement-point: Requests: HTTP/1.1 request head syntax
def parse_head(text: bytes) -> RequestHead:
    """Parse `text`, a head without its empty line; each line ends with CR LF. Raises RequestRejected if it is invalid."""
    line, _, header_lines = text.partition(b"\r\n")
    method, target = _parse_request_line(line)
    head = RequestHead(method, b"", b"", [])
    host = head.host = _parse_headers(header_lines, head)
    if method == _CONNECT:
        _parse_connect(target, host, head)
        return head
    head.raw_path, mark, head.query_string = _origin_form(target, host).partition(b"?")
    head.has_empty_query = bool(mark) and not head.query_string
    return head


def _parse_request_line(line: bytes) -> tuple[bytes, bytes]:
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        if len(line) > URL_BYTES + REQUEST_LINE_EXTRA_BYTES:
            raise RequestRejected(414, "The URL is too long.")
        if not line.isascii():
            raise RequestRejected(400, "The request target must be percent-encoded: it has a character outside of ASCII.")
        raise RequestRejected(400, "The request line is malformed.")
    method, target, major, minor = match.groups()
    if (major, minor) != (b"1", b"1"):
        raise (
            RequestRejected(426, HTTP_1_1_REQUIRED)
            if (major, minor) == (b"1", b"0")
            else RequestRejected(505, "Only HTTP/1.1 is spoken here.")
        )
    if len(target) > URL_BYTES:
        raise RequestRejected(414, "The URL is too long.")
    if len(method) > _METHOD_BYTES:
        raise RequestRejected(501, "The method is not known.")
    if method not in _COMMON_METHODS:
        _require_method(method)
    return method, target


def _require_method(method: bytes) -> None:
    try:
        require_method(method.decode("ascii"))
    except BadRequest as error:
        reason = str(error)
        raise RequestRejected(400, f"{reason[0].upper()}{reason[1:]}.") from None
    if method in _FORBIDDEN_METHODS:
        raise RequestRejected(405, "The method is not allowed.")


def _parse_headers(lines: bytes, head: RequestHead) -> bytes:
    """Parse the header lines into `head`, and return the host."""
    if len(lines) > HEADERS_BYTES:
        raise RequestRejected(431, "The request headers are too large.")
    if HEADER_LINES.fullmatch(lines) is None or (not lines.isascii() and has_c1_control(lines)):
        raise _malformed(lines)
    fields = HEADER_LINE.findall(lines)
    if len(fields) > HEADER_COUNT:
        raise RequestRejected(431, "There are too many request headers.")
    special: dict[bytes, list[bytes]] = {}
    headers, may_be_large = head.headers, len(lines) > HEADER_BYTES
    for raw_name, raw_value in fields:
        if may_be_large and len(raw_value) + len(raw_name) > HEADER_BYTES:
            raise RequestRejected(431, "A request header is too large.")
        # CVE-2015-0219: CGI maps `_` and `-` to the same variable, so a name with `_` can spoof another header.
        name, value = raw_name.lower(), raw_value.strip(b" \t")
        if b"_" in name or name in IGNORED_HEADER_NAMES:
            head.ignored_header_names.append(raw_name)
            continue
        if name in _SPECIAL_HEADERS:
            special.setdefault(name, []).append(value)
        headers.append((name, value))
    if len(special) > 1:  # not only Host
        _parse_framing(special, head)
    return _parse_host(special)


def _malformed(lines: bytes) -> RequestRejected:
    """Return the rejection of malformed header lines, with its own advice for cookies.

    A browser sends a malformed cookie with each request until the user deletes it.
    """
    for line in _COOKIE_LINE.findall(lines):
        if HEADER_LINE.fullmatch(line) is None or has_c1_control(line):
            return RequestRejected(400, "The Cookie header is malformed.", default_advice(431))
    return RequestRejected(400, "A header line is malformed.")


def _parse_host(special: dict[bytes, list[bytes]]) -> bytes:
    hosts = special.get(b"host", [])
    if len(hosts) != 1:
        raise RequestRejected(400, "Exactly one Host header is required.")
    if _HOST.fullmatch(hosts[0]) is None:
        raise RequestRejected(400, "The Host header is malformed.")
    return hosts[0]


def _parse_framing(special: dict[bytes, list[bytes]], head: RequestHead) -> None:
    lengths, codings = special.get(b"content-length"), special.get(b"transfer-encoding")
    if codings is not None:
        if lengths is not None:
            raise RequestRejected(400, "Content-Length and Transfer-Encoding exclude each other.")
        _require_chunked(codings)
        head.body_length = None  # the chunked coding marks the end
    elif lengths is not None:
        # RFC 9110 8.6 allows equal duplicates, but a parser behind gate may use either.
        if len(lengths) != 1 or _CONTENT_LENGTH.fullmatch(lengths[0]) is None:
            raise RequestRejected(400, "Content-Length must be one decimal number.")
        head.body_length = int(lengths[0])
    for value in special.get(b"connection", ()):
        if b"close" in [option.strip(b" \t") for option in value.lower().split(b",")]:
            head.wants_close = True
    if any(protocol in value.lower() for value in special.get(b"upgrade", ()) for protocol in (b"websocket", b"spdy/")):
        # Bytes after a handshake are frames and never another request, for every response.
        head.ends_http = head.wants_close = True
    if (expectations := special.get(b"expect")) is not None:
        if [value.lower() for value in expectations] != [b"100-continue"]:
            raise RequestRejected(417, "The expectation can't be met.")
        head.expects_continue = head.body_length != 0


def _require_chunked(codings: list[bytes]) -> None:
    if len(codings) != 1:
        raise RequestRejected(400, "Transfer-Encoding may be given once.")
    if codings[0].lower() != b"chunked":
        raise RequestRejected(501, "The only transfer coding known is chunked.")


def _parse_connect(target: bytes, host: bytes, head: RequestHead) -> None:
    """Parse a CONNECT: a host and a port (RFC 9112 3.2.3), without content, and followed by bytes that are not HTTP (RFC 9110 9.3.6)."""
    if _AUTHORITY_FORM.fullmatch(target) is None:
        raise RequestRejected(400, "CONNECT is for a host and a port.")
    # RFC 9110 7.2: a parser that used the other one would connect to another host.
    if target.lower() != host.lower():
        raise RequestRejected(400, "The request target names another host than the Host header.")
    if any(name in (b"content-length", b"transfer-encoding") for name, _ in head.headers):
        raise RequestRejected(400, "A CONNECT request has no body.")
    head.raw_path = b"/"
    head.ends_http = head.wants_close = True


def _origin_form(target: bytes, host: bytes) -> bytes:
    if target.startswith(b"/"):
        return target
    match = _ABSOLUTE_FORM.fullmatch(target)
    if match is None:
        raise RequestRejected(400, "The request target must be a path or an http URL.")
    authority, rest = match.groups()
    # RFC 9112 3.2.2 prefers the target over Host; a parser that used the other one would route to another host.
    if authority.lower() != host.lower():
        raise RequestRejected(400, "The request target names another host than the Host header.")
    return rest if rest.startswith(b"/") else b"/" + rest
