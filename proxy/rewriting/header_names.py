"""Header names: which are hop-by-hop, which only we may write, and the one form in which they are compared."""

import re

TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
# RFC 9110 7.6.1, and what belongs to our own connections: framing is rewritten, `Expect` was answered by our listener; by what else an
# upstream is reached (RFC 7838) is nothing to our clients.
HOP_BY_HOP = frozenset(
    b"connection proxy-connection keep-alive te trailer transfer-encoding upgrade expect http2-settings alt-svc "
    b"proxy-authenticate proxy-authorization proxy-authentication-info persistent-auth".split()
)

CONNECTION_OPTIONS = frozenset((b"close", b"keep-alive"))

# Kept from a trusted peer under exactly these names; nobody else's, and no other X-Forwarded-* from anybody.
FORWARDED_HEADER_NAMES = frozenset(
    (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"x-real-ip", b"forwarded")
)

MAX_CACHED_NAME_BYTES = 64  # bytes of a name: thousands of long ones, which clients and upstreams choose, would be a hundred megabytes

_INTERNAL_NAMES = frozenset((b"forwarded", b"x-forwarded", b"x-real-ip", b"x-request-id", b"daphne-root-path", b"proxy"))
_INTERNAL_PREFIXES = (b"x-gate-", b"x-forwarded-", b"x-original-", b"x-rewrite-", b"x-envoy-", b"impersonate-")
_DASHLESS_NAMES = frozenset((b"xrealip", b"xrequestid", b"daphnerootpath"))
_DASHLESS_PREFIXES = tuple(
    b"xgatejwt xgateclaim xgateset xgatesession xgateroute xenvoy xforwarded impersonateuser impersonategroup impersonateextra".split()
)

# By these an application or its server runs another method, or serves another URL, than the one that was judged; without dashes, as above.
_OVERRIDE_NAMES = frozenset(
    b"xhttpmethodoverride xhttpmethod xhttpverb xmethod xmethodoverride xoverridemethod xoriginalmethod "  # Rack, Express, Symfony, OData
    b"xoriginalurl xoriginaluri xoriginalpath xoriginalhost xrewriteurl xrewriteuri xrewritepath xoverrideurl "  # IIS and who reads it
    b"xmsoriginalurl xwawsunencodedurl xhttphostoverride xproxyurl xhost "
    b"xscriptname scriptname xpathinfo pathinfo xhttppathinfo".split()  # WSGI servers and middlewares
)

_FOLD = bytes(byte if chr(byte).isalnum() and byte < 0x80 else ord("-") for byte in range(256)).lower()
_DASHES = re.compile(rb"-+")


def fold(name: bytes) -> bytes:
    """Folded header name, the one form in which names are compared: an upstream behind CGI sees `X_Gate.Jwt` and `X-Gate-Jwt` as one."""
    return name.translate(_FOLD)


# enforcement-point: Upstream requests: Headers that only gate sets
def is_reserved_header(folded: bytes) -> bool:
    """Whether a folded name carries identity, or anything else that only we may tell an upstream.  The only door for such names."""
    folded = _DASHES.sub(b"-", folded).strip(b"-")
    if folded in _INTERNAL_NAMES or folded.startswith(_INTERNAL_PREFIXES):
        return True
    without_dashes = folded.replace(b"-", b"")
    return without_dashes in _DASHLESS_NAMES or without_dashes in _OVERRIDE_NAMES or without_dashes.startswith(_DASHLESS_PREFIXES)


def is_override_header(folded: bytes) -> bool:
    """Whether an application that heeds this folded name would run another method, or serve another URL, than was judged."""
    return folded.replace(b"-", b"") in _OVERRIDE_NAMES


def is_identity_header(folded: bytes) -> bool:
    """Whether an upstream would take a header of this folded name for our word about who is asking."""
    return is_reserved_header(folded) and folded.replace(b"-", b"").startswith((b"xgate", b"impersonate"))
