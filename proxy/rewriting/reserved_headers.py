"""Classes of header names: hop-by-hop, forwarding, reserved for gate; and the folded form in which names are compared."""

import re

TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
# RFC 9110 7.6.1, and other headers of a single connection: gate frames bodies itself, the listener has answered `Expect`, and an
# upstream's alternative services (RFC 7838) are not reachable for clients.
HOP_BY_HOP = frozenset(
    b"connection proxy-connection keep-alive te trailer transfer-encoding upgrade expect http2-settings alt-svc "
    b"proxy-authenticate proxy-authorization proxy-authentication-info persistent-auth".split()
)

CONNECTION_OPTIONS = frozenset((b"close", b"keep-alive"))

# Accepted from a trusted peer only, and only under exactly these names. Every other X-Forwarded-* is dropped.
FORWARDED_HEADER_NAMES = frozenset(
    (b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"x-real-ip", b"forwarded")
)

MAX_CACHED_NAME_BYTES = 64  # clients and upstreams choose the names: thousands of long ones would take a hundred megabytes

_INTERNAL_NAMES = frozenset((b"forwarded", b"x-forwarded", b"x-real-ip", b"x-request-id", b"daphne-root-path", b"proxy"))
_INTERNAL_PREFIXES = (b"x-gate-", b"x-forwarded-", b"x-original-", b"x-rewrite-", b"x-envoy-", b"impersonate-")
_DASHLESS_NAMES = frozenset((b"xrealip", b"xrequestid", b"daphnerootpath"))
_DASHLESS_PREFIXES = tuple(
    b"xgatejwt xgateclaim xgateset xgatesession xgateroute xenvoy xforwarded impersonateuser impersonategroup impersonateextra".split()
)

# Without dashes, as above. With these an application or its server runs another method or serves another URL than gate authorized.
_OVERRIDE_NAMES = frozenset(
    b"xhttpmethodoverride xhttpmethod xhttpverb xmethod xmethodoverride xoverridemethod xoriginalmethod "  # Rack, Express, Symfony, OData
    b"xoriginalurl xoriginaluri xoriginalpath xoriginalhost xrewriteurl xrewriteuri xrewritepath xoverrideurl "  # IIS and the like
    b"xmsoriginalurl xwawsunencodedurl xhttphostoverride xproxyurl xhost "
    b"xscriptname scriptname xpathinfo pathinfo xhttppathinfo".split()  # WSGI servers and middlewares
)

_FOLD = bytes(byte if chr(byte).isalnum() and byte < 0x80 else ord("-") for byte in range(256)).lower()
_DASHES = re.compile(rb"-+")


def fold(name: bytes) -> bytes:
    """Return the folded form of a header name, because an upstream behind CGI does not distinguish `X_Gate.Jwt` from `X-Gate-Jwt`."""
    return name.translate(_FOLD)


# enforcement-point: Upstream requests: Headers that only gate sets
def is_reserved_header(folded: bytes) -> bool:
    """Return whether only gate may send a header of this folded name to an upstream, such as an identity header."""
    folded = _DASHES.sub(b"-", folded).strip(b"-")
    if folded in _INTERNAL_NAMES or folded.startswith(_INTERNAL_PREFIXES):
        return True
    without_dashes = folded.replace(b"-", b"")
    return without_dashes in _DASHLESS_NAMES or without_dashes in _OVERRIDE_NAMES or without_dashes.startswith(_DASHLESS_PREFIXES)


def is_override_header(folded: bytes) -> bool:
    """Return whether a header of this folded name overrides the method or the URL that gate authorized."""
    return folded.replace(b"-", b"") in _OVERRIDE_NAMES


def is_identity_header(folded: bytes) -> bool:
    """Return whether an upstream could mistake a header of this folded name for gate's identity header."""
    return is_reserved_header(folded) and folded.replace(b"-", b"").startswith((b"xgate", b"impersonate"))
