"""Request headers for an upstream: those of the client that may pass, and those that gate adds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, partial

from authorize.authorizer import WithheldCredentials
from config.fields.header_template import static_value
from config.options import Options
from config.routes.route import Route
from config.routes.route_identity_headers import IdentityHeaderNames
from config.routes.upstreams.upstream_credentials import sets_authorization
from foundation.bounded_cache import MIB, MemoCache
from foundation.crypto import cookies
from foundation.errors import BadRequest
from foundation.web.asgi_types import Header, Headers
from foundation.web.message import Message
from proxy.client_address import TrustedPeers, trusted_peers
from proxy.rewriting.forwarded_headers import FORWARDED_HEADER_CACHE
from proxy.rewriting.reserved_headers import (
    CONNECTION_OPTIONS,
    FORWARDED_HEADER_NAMES,
    HOP_BY_HOP,
    MAX_CACHED_NAME_BYTES,
    TOKEN,
    fold,
    is_override_header,
    is_reserved_header,
)

# Also after a comma, because some proxies join several Authorization headers with one.
_GATE_CREDENTIALS = re.compile(rb"(?:\A|,)[ \t]*(?:gate[ \t]|bearer[ \t]+gate[-_])", re.IGNORECASE)

# If gate sets Authorization, it also owns its equivalents: serverless services prefer X-Serverless-Authorization, and a Kubernetes
# cluster that trusts gate's client certificate accepts X-Remote-*.
AUTHORIZATION_EQUIVALENTS = frozenset(
    (b"authorization", b"x-serverless-authorization", b"x-remote-user", b"x-remote-uid", b"x-remote-group")
)

MAX_CACHED_COOKIE_HEADERS, MAX_COOKIE_HEADER_BYTES, MAX_COOKIE_CACHE_BYTES = 8_000, 16 * 1024, 8 * MIB

PASS, DROP, CONNECTION, COOKIE, AUTHORIZATION, FROM_TRUSTED_PEER = range(6)
_WITHHELD = {
    WithheldCredentials.GATE: (DROP,),
    WithheldCredentials.AUTHORIZATION: (DROP, AUTHORIZATION),
    WithheldCredentials.ALL: (DROP, AUTHORIZATION, COOKIE),
}


def framing(headers: Iterable[Header]) -> tuple[bool, int | None]:
    """Return whether a request has a body, and its Content-Length (None if chunked or absent).

    Raises BadRequest if the framing is ambiguous (RFC 9112 6.3).
    """
    lengths, has_coding = [], False
    for name, value in headers:
        if name == b"content-length":
            lengths.append(value)
        elif name == b"transfer-encoding":
            has_coding = True
    if has_coding:
        if lengths:
            raise BadRequest(Message("the request has both Content-Length and Transfer-Encoding"))
        return True, None
    if not lengths:
        return False, None
    if len(lengths) > 1 or not lengths[0].isdigit():
        raise BadRequest(Message("the request has no single Content-Length"))
    return int(lengths[0]) > 0, int(lengths[0])


def _classify(name: bytes) -> tuple[int, bytes]:
    """Return the kind of a client's header of this name, and its folded name."""
    folded = fold(name)
    if not TOKEN.fullmatch(name) or folded in (b"host", b"content-length"):
        return DROP, folded
    if folded == b"connection":
        return CONNECTION, folded
    if name.lower() in FORWARDED_HEADER_NAMES:
        return FROM_TRUSTED_PEER, folded
    if folded in HOP_BY_HOP or is_reserved_header(folded):
        return DROP, folded
    if folded == b"cookie":
        return COOKIE, folded
    return (AUTHORIZATION if folded == b"authorization" else PASS), folded


_HEADER_KINDS = MemoCache(_classify, 4096, max_key_length=MAX_CACHED_NAME_BYTES)


@dataclass(slots=True)  # not frozen: one is made for each request
class Downstream:
    """Downstream side of a request: address of the peer (empty for a Unix socket), scheme, Host and request id."""

    address: str
    scheme: str
    host: bytes
    request_id: str


@dataclass(frozen=True, slots=True)
class RequestHeaderRules:
    """Request header rules of one route, precomputed from its settings."""

    cookies: MemoCache[bytes, tuple[bytes, ...]] = field(repr=False)  # Cookie header to its values without gate's cookies
    trusted: TrustedPeers
    append_address: bool
    replaced: frozenset[bytes]  # folded names that the route removes or sets, or uses for identity headers
    added: tuple[Header, ...]

    @classmethod
    def build(cls, route: Route, options: Options, identity_header_names: IdentityHeaderNames) -> "RequestHeaderRules":
        static_headers = ((name, static_value(value)) for name, value in route.set_request_headers.items())
        added = tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in static_headers if value is not None)
        names = [*(name.encode("ascii") for name in route.remove_request_headers), *identity_header_names.headers_for(route)]
        authorization_names = AUTHORIZATION_EQUIVALENTS if sets_authorization(route, options) else frozenset()
        return cls(
            cookies=gate_cookie_filter(options.cookie_name),
            trusted=trusted_peers(options.trusted_proxies),
            append_address=not options.skip_xff_append,
            replaced=authorization_names.union(fold(name) for name in [*names, *(name for name, _ in added)]),
            added=tuple(pair for pair in added if _is_settable(fold(pair[0])) and fold(pair[0]) not in authorization_names),
        )

    @classmethod
    def for_delegation(cls, options: Options) -> "RequestHeaderRules":
        """Return rules for requests that another proxy forwards: they only strip gate's credentials."""
        return cls(gate_cookie_filter(options.cookie_name), TrustedPeers(()), False, frozenset(), ())

    def remaining_credentials(self, headers: Iterable[Header], withheld: WithheldCredentials) -> Headers:
        """Return Cookie and Authorization as `for_upstream` sends them, empty if nothing remains.

        Several Authorization headers are ambiguous, so their value is empty too.
        """
        credentials = [pair for pair in headers if pair[0] in (b"cookie", b"authorization")]
        remaining, _, _ = self._filter(credentials, _WITHHELD[withheld])
        cookie, authorization = ([value for name, value in remaining if name == credential] for credential in (b"cookie", b"authorization"))
        is_single = sum(name == b"authorization" for name, _ in credentials) == 1
        return [(b"cookie", b"; ".join(cookie)), (b"authorization", authorization[0] if authorization and is_single else b"")]

    def for_upstream(
        self,
        headers: Iterable[Header],
        downstream: Downstream,
        upstream_host: bytes,
        identity: Iterable[Header],
        withheld: WithheldCredentials,
    ) -> Headers:
        """Return the request headers: the client's after filtering, then gate's.

        Gate's come in rising precedence: forwarding headers, those of the route, the request id, `identity`. Connection options remove
        client headers only, because they are applied before gate adds its own.
        """
        client_headers, options, forwarded = self._filter(headers, _WITHHELD[withheld])
        if options - CONNECTION_OPTIONS:
            client_headers = _drop_connection_options(client_headers, options)
        trusted_headers, trusted = (tuple(forwarded), self.trusted) if forwarded and downstream.address in self.trusted else ((), None)
        forwarding = FORWARDED_HEADER_CACHE[
            downstream.address, downstream.scheme, downstream.host, trusted_headers, self.append_address, trusted
        ]
        result = [(b"host", upstream_host), *client_headers]
        result += [pair for pair in forwarding if pair[0] not in self.replaced] if self.replaced else forwarding
        result += self.added
        result.append((b"x-request-id", downstream.request_id.encode()))
        result += identity
        return result

    def _filter(self, headers: Iterable[Header], withheld: tuple[int, ...]) -> tuple[Headers, set[bytes], Headers]:
        """Return the headers that may pass, the options of Connection, and the forwarding headers, which need a trusted peer."""
        remaining: Headers = []
        options: set[bytes] = set()
        forwarded: Headers = []
        for pair in headers:
            kind, folded = _HEADER_KINDS[pair[0]]
            if kind == CONNECTION:
                options.update(option.strip(b" \t").lower() for option in pair[1].split(b","))
            elif kind == FROM_TRUSTED_PEER:
                forwarded.append((folded, pair[1]))
            elif kind in withheld or folded in self.replaced:
                continue
            elif kind == COOKIE:
                remaining += [(pair[0], value) for value in self.cookies[pair[1]]]
            elif kind != AUTHORIZATION or _GATE_CREDENTIALS.search(pair[1]) is None:
                remaining.append(pair)
        return remaining, options, forwarded


@cache
def gate_cookie_filter(cookie_name: str) -> MemoCache[bytes, tuple[bytes, ...]]:
    """Return a cache from Cookie headers to their values without gate's cookies; empty if they contain no others.

    All routes share the cache, because nearly every request of a browser repeats the header of the previous one.
    """
    prefix, is_gate_cookie = cookie_name.lower().encode("ascii"), partial(cookies.is_gate_cookie, cookie_name=cookie_name)

    def strip(cookie: bytes) -> tuple[bytes, ...]:
        # The prefix is in the name of every cookie of gate, in upper or lower case.
        return tuple(cookies.strip_cookies([cookie], is_gate_cookie)) if prefix in cookie.lower() else (cookie,)

    return MemoCache(strip, MAX_CACHED_COOKIE_HEADERS, max_key_length=MAX_COOKIE_HEADER_BYTES, max_key_bytes=MAX_COOKIE_CACHE_BYTES)


def _is_settable(folded: bytes) -> bool:
    """Return whether `set_request_headers` may set a header of this folded name.

    It may replace forwarding and override headers, but not identity or framing. HostRewrite handles Host.
    """
    if folded in FORWARDED_HEADER_NAMES or is_override_header(folded):
        return True
    return not (is_reserved_header(folded) or folded in HOP_BY_HOP or folded in (b"host", b"content-length"))


def _drop_connection_options(headers: Headers, options: set[bytes]) -> Headers:
    """Return the headers that Connection does not list (RFC 9110 7.6.1). Cookie and Authorization pass, because they are end-to-end."""
    return [pair for pair in headers if pair[0].lower() not in options or _HEADER_KINDS[pair[0]][0] in (COOKIE, AUTHORIZATION)]
