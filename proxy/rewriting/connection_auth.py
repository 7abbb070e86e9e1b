"""Connection-bound authentication: schemes by which an upstream takes all requests of a connection for one user's (RFC 4559 6)."""

import re
from collections.abc import Iterable
from enum import IntEnum

from foundation.errors import BadRequest
from foundation.web.asgi_types import Header
from foundation.web.message import Message

_SCHEME = rb"(?:\A|,)[ \t]*%b(?=[ \t,]|\Z)"
_CONNECTION_BOUND = re.compile(_SCHEME % rb"(?:ntlm|negotiate|kerberos)", re.IGNORECASE)
# Within Negotiate, NTLM's messages begin with "NTLMSSP\0".
_NTLM = re.compile(rb"%b|(?:\A|,)[ \t]*negotiate[ \t]+TlRMTVNTUA" % (_SCHEME % rb"ntlm"), re.IGNORECASE)
# Schemes that authenticate one request each.
_PER_REQUEST = re.compile(
    rb"[ \t]*(?:basic|bearer|digest|dpop|token|apikey|aws4-hmac-sha256|sharedkey|signature)(?:[ \t]|\Z)", re.IGNORECASE
)

NTLM_REFUSED = Message("NTLM authenticates a connection instead of a request, so gate does not forward it")
HTTP2_REFUSED = Message("Negotiate authenticates a connection, and the application's HTTP/2 connection carries requests of several users")


class ConnectionAuthRefused(BadRequest):
    status = 403


class ConnectionUse(IntEnum):
    """Use of a connection to an upstream: SHARED with other requests, WATCHED (shared, unless the response says that the connection is
    authenticated), or OWN (new, and closed after the response)."""

    SHARED = 0
    WATCHED = 1
    EXCLUSIVE = 2


def connection_use(headers: Iterable[Header], *, is_http2: bool) -> ConnectionUse:
    """Connection use of a request with these headers.

    Raises ConnectionAuthRefused for NTLM, whose handshake takes several requests on one connection, and for Negotiate over HTTP/2.
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
    """Whether a response offers connection-bound authentication, or says that its connection is authenticated."""
    for raw_name, value in headers:
        name = raw_name.lower()
        if name == b"persistent-auth" and value.strip(b" \t").lower() != b"false":
            return True
        if name == b"www-authenticate" and _CONNECTION_BOUND.search(value):
            return True
    return False
