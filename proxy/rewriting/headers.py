"""Header rewriting: which headers cross the proxy, in both directions, and which it writes itself."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from authorize.client import WithheldCredentials
from config.options import Options
from config.routes.route import Route
from config.routes.upstream_credentials import shows_credentials
from foundation.bounded_cache import bounded_lru_cache, together
from foundation.crypto import cookies
from foundation.errors import UpstreamError
from proxy.client_address import TrustedPeers

Header = tuple[bytes, bytes]
Headers = list[Header]

# RFC 9110 7.6.1, and what belongs to our own connections: framing is rewritten, `Expect` was answered by our listener.
HOP_BY_HOP = frozenset(
    b"connection proxy-connection keep-alive te trailer transfer-encoding upgrade expect http2-settings "
    b"proxy-authenticate proxy-authorization proxy-authentication-info".split()
)

# Kept from a trusted peer under exactly these names; nobody else's, and no other X-Forwarded-* from anybody.
FORWARDING = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host", b"x-forwarded-port", b"x-real-ip", b"forwarded"))

_INTERNAL_NAMES = frozenset((b"forwarded", b"x-forwarded", b"x-real-ip", b"x-request-id", b"daphne-root-path", b"proxy"))
_INTERNAL_PREFIXES = (b"x-gate-", b"x-forwarded-", b"x-original-", b"x-rewrite-", b"x-envoy-", b"impersonate-")
_DASHLESS_NAMES = frozenset((b"xrealip", b"xrequestid", b"daphnerootpath"))
_DASHLESS_PREFIXES = tuple(
    b"xgatejwt xgateclaim xgateset xgatesession xgateroute xenvoy xforwarded impersonateuser impersonategroup impersonateextra".split()
)

# By these an application or its server runs another method, or serves another URL, than the one that was judged; without dashes, as above.
_STEERING_NAMES = frozenset(
    b"xhttpmethodoverride xhttpmethod xhttpverb xmethod xmethodoverride xoverridemethod xoriginalmethod "  # Rack, Express, Symfony, OData
    b"xoriginalurl xoriginaluri xoriginalpath xoriginalhost xrewriteurl xrewriteuri xrewritepath xoverrideurl "  # IIS and who reads it
    b"xmsoriginalurl xwawsunencodedurl xhttphostoverride xproxyurl xhost "
    b"xscriptname scriptname xpathinfo pathinfo xhttppathinfo".split()  # WSGI servers and middlewares
)

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # RFC 9110 5.6.2
_FOLD = bytes(byte if chr(byte).isalnum() and byte < 0x80 else ord("-") for byte in range(256)).lower()
_DASHES = re.compile(rb"-+")
_UNSAFE_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110 5.5, as our listener reads it
_CONNECTION_STATES = frozenset((b"close", b"keep-alive"))
_OUR_CREDENTIALS = re.compile(rb"[ \t]*(?:gate[ \t]|bearer[ \t]+gate[-_])", re.IGNORECASE)
_PLAIN_HOST = re.compile(rb"[A-Za-z0-9.:_\[\]-]+")

# Where Authorization is ours, so is what stands in for it there: a serverless service prefers the first of these, and a cluster that
# trusts our client certificate believes the others.
AUTHORIZING = frozenset((b"authorization", b"x-serverless-authorization", b"x-remote-user", b"x-remote-uid", b"x-remote-group"))

LONGEST_REMEMBERED = 64  # bytes of a name: thousands of long ones, which clients and upstreams choose, would be a hundred megabytes

PLAIN, DROP, CONNECTION, COOKIE, AUTHORIZATION, TRUSTED_ONLY = range(6)
_WITHHELD = {
    WithheldCredentials.OURS: (DROP,),
    WithheldCredentials.AUTHORIZATION: (DROP, AUTHORIZATION),
    WithheldCredentials.ALL: (DROP, AUTHORIZATION, COOKIE),
}


def fold(name: bytes) -> bytes:
    """Folded header name, the one form in which names are compared: an upstream behind CGI sees `X_Gate.Jwt` and `X-Gate-Jwt` as one."""
    return name.translate(_FOLD)


def is_internal_header(folded: bytes) -> bool:
    """Whether a folded name carries identity, or anything else that only we may tell an upstream.  The only door for such names."""
    folded = _DASHES.sub(b"-", folded).strip(b"-")
    if folded in _INTERNAL_NAMES or folded.startswith(_INTERNAL_PREFIXES):
        return True
    squeezed = folded.replace(b"-", b"")
    return squeezed in _DASHLESS_NAMES or squeezed in _STEERING_NAMES or squeezed.startswith(_DASHLESS_PREFIXES)


def is_steering_header(folded: bytes) -> bool:
    """Whether an application that heeds this folded name would run another method, or serve another URL, than was judged."""
    return folded.replace(b"-", b"") in _STEERING_NAMES


def is_identity_header(folded: bytes) -> bool:
    """Whether an upstream would take a header of this folded name for our word about who is asking."""
    return is_internal_header(folded) and folded.replace(b"-", b"").startswith((b"xgate", b"impersonate"))


@bounded_lru_cache(4096, longest=LONGEST_REMEMBERED)
def _known(name: bytes) -> tuple[int, bytes]:
    """(what to do with a client's header of this name, its folded name)."""
    folded = fold(name)
    if not _TOKEN.fullmatch(name) or folded in (b"host", b"content-length"):
        return DROP, folded
    if folded == b"connection":
        return CONNECTION, folded
    if name.lower() in FORWARDING:
        return TRUSTED_ONLY, folded
    if folded in HOP_BY_HOP or is_internal_header(folded):
        return DROP, folded
    if folded == b"cookie":
        return COOKIE, folded
    return (AUTHORIZATION if folded == b"authorization" else PLAIN), folded


@dataclass(slots=True)  # not frozen: one is made for each request
class Downstream:
    """Downstream of a request: the peer's address (empty for a Unix socket), the scheme and Host it used, the request's id."""

    address: str
    scheme: str
    host: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class RouteHeaders:
    """Request header rules of one route, worked out once."""

    cookie_prefix: bytes  # every cookie of ours begins with it, in any case
    trusted: TrustedPeers
    append_address: bool
    replaced: frozenset[bytes]  # folded names that the route removes or sets
    added: tuple[Header, ...]
    is_our_cookie: Callable[[bytes], bool] = field(repr=False)

    @classmethod
    def build(cls, route: Route, options: Options) -> "RouteHeaders":
        added = tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in route.set_request_headers.items())
        names = [name.encode("ascii") for name in route.remove_request_headers]
        ours = AUTHORIZING if shows_credentials(route, options) else frozenset()
        return cls(
            cookie_prefix=options.cookie_name.lower().encode("ascii"),
            trusted=TrustedPeers(options.trusted_proxies),
            append_address=not options.skip_xff_append,
            replaced=ours.union(fold(name) for name in [*names, *(name for name, _ in added)]),
            added=tuple(pair for pair in added if _may_be_set(fold(pair[0])) and fold(pair[0]) not in ours),
            is_our_cookie=partial(cookies.is_ours, cookie_name=options.cookie_name),
        )

    @classmethod
    def of_another_proxy(cls, options: Options) -> "RouteHeaders":
        is_ours = partial(cookies.is_ours, cookie_name=options.cookie_name)
        return cls(options.cookie_name.lower().encode("ascii"), TrustedPeers(()), False, frozenset(), (), is_ours)

    def credentials(self, headers: Iterable[Header], withheld: WithheldCredentials) -> Headers:
        """Cookie and Authorization as `for_upstream` leaves them, empty where nothing remains; two Authorizations have no reading."""
        given = [pair for pair in headers if pair[0] in (b"cookie", b"authorization")]
        kept, _, _ = self._cleaned(given, _WITHHELD[withheld])
        cookie, authorization = ([value for name, value in kept if name == wanted] for wanted in (b"cookie", b"authorization"))
        is_single = sum(name == b"authorization" for name, _ in given) == 1
        return [(b"cookie", b"; ".join(cookie)), (b"authorization", authorization[0] if authorization and is_single else b"")]

    def for_upstream(
        self,
        headers: Iterable[Header],
        downstream: Downstream,
        upstream_host: bytes,
        identity: Iterable[Header],
        withheld: WithheldCredentials,
    ) -> Headers:
        """Request headers: the client's, cleaned; then ours, in rising authority: forwarding, the route's own, the request id, identity.

        Connection removes client headers only: it is applied before ours are written.
        """
        kept, options, forwarded = self._cleaned(headers, _WITHHELD[withheld])
        if options - _CONNECTION_STATES:
            kept = _without_named(kept, options)
        trusted = forwarded if forwarded and downstream.address in self.trusted else []
        own = _forwarding(downstream.address, downstream.scheme, downstream.host, tuple(trusted), self.append_address)
        result = [(b"host", upstream_host), *kept]
        result += [pair for pair in own if pair[0] not in self.replaced] if self.replaced else own
        result += self.added
        result.append((b"x-request-id", downstream.request_id.encode()))
        result += identity
        return result

    def _cleaned(self, headers: Iterable[Header], withheld: tuple[int, ...]) -> tuple[Headers, set[bytes], Headers]:
        """(the client's own headers, the names that Connection lists, forwarding headers that count only from a trusted peer)."""
        kept: Headers = []
        options: set[bytes] = set()
        forwarded: Headers = []
        for pair in headers:
            kind, folded = _known(pair[0])
            if kind == CONNECTION:
                options.update(option.strip(b" \t").lower() for option in pair[1].split(b","))
            elif kind == TRUSTED_ONLY:
                forwarded.append((folded, pair[1]))
            elif kind in withheld or folded in self.replaced:
                continue
            elif kind == COOKIE:
                kept += [(pair[0], value) for value in self._without_ours(pair[1])]
            elif kind != AUTHORIZATION or _OUR_CREDENTIALS.match(pair[1]) is None:
                kept.append(pair)
        return kept, options, forwarded

    def _without_ours(self, cookie: bytes) -> list[bytes]:
        if self.cookie_prefix not in cookie.lower():
            return [cookie]
        return cookies.without([cookie], self.is_our_cookie)


def _may_be_set(folded: bytes) -> bool:
    """`set_request_headers` may replace forwarding headers and steer an application, but never say identity or framing; Host has its own
    rule in rewrite.py."""
    if folded in FORWARDING or is_steering_header(folded):
        return True
    return not (is_internal_header(folded) or folded in HOP_BY_HOP or folded in (b"host", b"content-length"))


def _without_named(kept: Headers, options: set[bytes]) -> Headers:
    """RFC 9110 7.6.1: headers named by Connection go.  Cookie and Authorization are for the end of the path, never for one hop."""
    return [pair for pair in kept if pair[0].lower() not in options or _known(pair[0])[0] in (COOKIE, AUTHORIZATION)]


@bounded_lru_cache(1024, longest=1024, size=together)
def _forwarding(address: str, scheme: str, host: bytes, trusted: tuple[Header, ...], append: bool) -> tuple[Header, ...]:
    """The forwarding headers: a trusted peer's values kept and extended by its address, or ours alone."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in trusted:
        given.setdefault(name, []).append(value)
    peer = address.encode() if append else b""
    ours = {b"x-forwarded-proto": scheme.encode(), b"x-forwarded-host": host, b"x-forwarded-port": _port(scheme, host)}
    headers = {b"x-forwarded-for": b", ".join(filter(None, [*given.get(b"x-forwarded-for", []), peer]))}
    # The nearest hop writes last, so of several values its own is the last one.
    headers |= {name: given.get(name, [value])[-1] for name, value in ours.items()}
    headers[b"x-real-ip"] = given.get(b"x-real-ip", [address.encode()])[-1]
    headers[b"forwarded"] = b", ".join(filter(None, [*given.get(b"forwarded", []), _forwarded(address, scheme, host) if append else b""]))
    return tuple((name, value) for name, value in headers.items() if value)


def _forwarded(address: str, scheme: str, host: bytes) -> bytes:
    """RFC 7239 4: IPv6 addresses in brackets, and everything with a colon in quotes."""
    node = f'"[{address}]"' if ":" in address else address or "unknown"
    parts = [b"for=" + node.encode(), b"proto=" + scheme.encode()]
    if _PLAIN_HOST.fullmatch(host):
        parts.insert(1, b'host="' + host + b'"')
    return b";".join(parts)


def _port(scheme: str, host: bytes) -> bytes:
    _, colon, port = host.rpartition(b":")
    return port if colon and port.isdigit() else (b"443" if scheme == "https" else b"80")


@bounded_lru_cache(4096, longest=LONGEST_REMEMBERED)
def _response_name(name: bytes) -> bytes | None:
    """The lower-case name, as ASGI wants it; None for what belongs to the upstream's connection and tells us nothing."""
    folded = name.lower()
    if not _TOKEN.fullmatch(name):
        raise UpstreamError("the upstream sent a malformed header name")
    return None if folded in HOP_BY_HOP and folded != b"connection" else folded


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    """Response header rules of the configuration, worked out once."""

    replaced: frozenset[bytes]
    added: tuple[Header, ...]
    is_our_cookie: Callable[[bytes], bool] = field(repr=False)

    @classmethod
    def build(cls, options: Options) -> "ResponseHeaders":
        added = tuple((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in options.headers.items())
        return cls(frozenset(name for name, _ in added), added, partial(cookies.is_ours, cookie_name=options.cookie_name))

    def for_client(self, headers: Iterable[Header]) -> Headers:
        """Response headers.  UpstreamError where a value holds CR, LF, NUL or the like: such a response would be split on the way."""
        kept: Headers = []
        options: set[bytes] = set()
        for raw_name, value in headers:
            if _UNSAFE_VALUE.search(value):
                raise UpstreamError("the upstream sent a header with a control character in it")
            name = _response_name(raw_name)
            if name == b"connection":
                options.update(option.strip(b" \t").lower() for option in value.split(b","))
            elif name is None or name in self.replaced or (name == b"set-cookie" and self._sets_ours(value)):
                continue
            else:
                kept.append((name, value))
        if options - _CONNECTION_STATES:
            kept = [pair for pair in kept if pair[0] not in options or pair[0] == b"content-length"]
        return [*kept, *self.added]

    def _sets_ours(self, value: bytes) -> bool:
        """Browsers send a cookie without a name back as its bare value, so `=_gate=x` would arrive as ours."""
        return self.is_our_cookie(value.partition(b";")[0].strip(b" \t").lstrip(b"= \t").partition(b"=")[0].strip(b" \t"))
