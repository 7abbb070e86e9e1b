"""Request head to an upstream: which bytes it sees before a body."""

from typing import TYPE_CHECKING

from foundation.errors import UpstreamError

if TYPE_CHECKING:
    from proxy.upstreams.client import OutgoingRequest


def request_head(request: "OutgoingRequest") -> bytes:
    """Request line and headers as they go out (RFC 9112 3).  Raises UpstreamError for anything that would add a line."""
    parts = [b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), request.target)]
    parts += [b"%b: %b\r\n" % pair for pair in request.headers]
    if request.content_length is not None:
        parts.append(b"content-length: %d\r\n" % request.content_length)
    elif request.has_body:
        parts.append(b"transfer-encoding: chunked\r\n")
    parts.append(b"\r\n")
    head = b"".join(parts)
    # One count over the whole head instead of one look at each value: every line break must be one that was written above.
    if not (head.count(b"\r\n") == head.count(b"\n") == head.count(b"\r") == len(parts)) or b"\0" in head or parts[0].count(b" ") != 2:
        raise UpstreamError("the request holds a line break, a NUL or a space where none may be")
    return head
