"""Connection-bound authentication: schemes by which an upstream authenticates a connection for all its requests (RFC 4559 6)."""

import re
from collections.abc import Iterable
from enum import IntEnum

from foundation.errors import BadRequest
from foundation.web.asgi_types import Header
from foundation.web.message import Message

_SCHEME = rb"(?:\A|,)[ \t]*%b(?=[ \t,]|\Z)"
_CONNECTION_BOUND = re.compile(_SCHEME % rb"(?:ntlm|negotiate|kerberos)", re.IGNORECASE)
# Inside Negotiate, an NTLM message starts with "NTLMSSP\0".
_NTLM = re.compile(rb"%b|(?:\A|,)[ \t]*negotiate[ \t]+TlRMTVNTUA" % (_SCHEME % rb"ntlm"), re.IGNORECASE)
# Schemes that authenticate a single request.
_PER_REQUEST = re.compile(
    rb"[ \t]*(?:basic|bearer|digest|dpop|token|apikey|aws4-hmac-sha256|sharedkey|signature)(?:[ \t]|\Z)", re.IGNORECASE
)

NTLM_REFUSED = Message("NTLM authenticates a connection instead of a request, so gate does not forward it")
HTTP2_REFUSED = Message("Negotiate authenticates a connection, and the application's HTTP/2 connection carries requests of several users")


class ConnectionAuthRefused(BadRequest):
    """Error for credentials that gate does not forward, because they would authenticate a connection of several users."""

    status = 403


class ConnectionUse(IntEnum):
    """How a request may use a connection to its upstream, from the least to the most restrictive.

    SHARED is for any connection of the pool. WATCHED is shared unless the response authenticates the connection. EXCLUSIVE is a new
    connection that is closed after the response.
    """

    SHARED = 0
    WATCHED = 1
    EXCLUSIVE = 2


def connection_use(headers: Iterable[Header], *, is_http2: bool) -> ConnectionUse:
    """Return the connection use of a request with these headers.

    Raises ConnectionAuthRefused for NTLM, because its handshake takes several requests on one connection, and for Negotiate over HTTP/2.
    """
    use = ConnectionUse.SHARED
    for name, value in headers:
        if len(name) != 13 or name.lower() != b"authorization":
            continue
        if _NTLM.search(value):
            raise ConnectionAuthRefused(NTLM_REFUSED)
        if _CONNECTION_BOUND.search(value):
            if is_http2:
                raise ConnectionAuthRefused(HTTP2_REFUSED)
            use = ConnectionUse.EXCLUSIVE
        elif not _PER_REQUEST.match(value):
            use = max(use, ConnectionUse.WATCHED)
    return use


def authenticates_connection(headers: Iterable[Header]) -> bool:
    """Return whether a response offers connection-bound authentication or marks its connection as authenticated."""
    for raw_name, value in headers:
        name = raw_name.lower()
        if name == b"persistent-auth" and value.strip(b" \t").lower() != b"false":
            return True
        if name == b"www-authenticate" and _CONNECTION_BOUND.search(value):
            return True
    return False
