"""Request head as Envoy shows it, read as strictly as one of our own listener; and what of it is written anew."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from authorize.identity.client_certificates import parse_pem_chain
from foundation.errors import BadRequest
from foundation.web.asgi_types import Header, Headers
from proxy.envoy.resources.internal_headers import EdgeFacts, is_between_us
from proxy.incoming_request import TLS_EXTENSION
from proxy.listener.http1.request_head import RequestHead, parse_head

_XFCC = b"x-forwarded-client-cert"  # written by Envoy, which takes away what a client sends under this name
_CHAIN = re.compile(rb'(?:^|;)Chain="([^"]*)"')
# What a connection is framed by is for Envoy to say, which carries the bytes.
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
# The question's own, and what is judged by the line.
_CHECK_HEADERS = FRAMING | {b"host", b"x-envoy-internal", b"x-envoy-expected-rq-timeout-ms"}
# Two of them have no reading (RFC 6265 5.4, RFC 9110 11.6.2).
_SINGLE = (b"cookie", b"authorization")
# Names of headers that Envoy takes away (envoy.extensions.filters.http.ext_authz.v3).
HEADERS_TO_REMOVE = b"x-envoy-auth-headers-to-remove"
_NO_BODY = (b"", b"0")
# So much the kernel takes of us at once for an upstream, whatever it does: nothing is left to be written when it answers and hangs up.
MAX_BUFFERED_BODY = 32 * 1024
_MAX_LENGTH_DIGITS = 9  # digits
# Methods of requests that hardly ever have a body.
_BODILESS = frozenset((b"GET", b"HEAD", b"OPTIONS"))


@dataclass(slots=True)  # not frozen: one is made for each request
class EnvoyRequestHead:
    """Request head in Envoy's words, and who sent it.  `headers` are those that Envoy has, less the framing and what it tells us; each has
    its lines joined by commas.  `target` is as it came.

    `is_doubtful`: Envoy shows bytes that are no UTF-8 as `!`, and what may not be said twice joined by a comma, so what it has may differ
    from what is shown.
    """

    line: RequestHead
    target: bytes
    host: bytes
    headers: Headers
    downstream: EdgeFacts
    is_ambiguous: bool

    @classmethod
    def parse(cls, text: bytes) -> "EnvoyRequestHead":
        """Head of a question of Envoy's, up to its empty line.  Raises RequestRejected where our listener would refuse it."""
        line = parse_head(text)
        last = dict(line.headers)
        headers = [pair for pair in line.headers if pair[0] not in _CHECK_HEADERS and not is_between_us(pair[0])]
        target = text[: text.index(b"\r\n")].split(b" ", 2)[1]
        is_doubtful = b"!" in text or any(b"," in last.get(name, b"") for name in _SINGLE)
        return cls(line, target, last[b"host"], headers, EdgeFacts.of(last), is_doubtful)

    @property
    def method(self) -> bytes:
        return self.line.method

    @property
    def has_body(self) -> bool:
        """Whether there may be a body; over HTTP/2 a request need not say so."""
        facts = self.downstream
        if facts.is_http2 and not facts.length:
            return self.method not in _BODILESS
        return facts.length not in _NO_BODY or bool(facts.coding)

    @property
    def can_buffer(self) -> bool:
        """Whether its body has a length that was told, and that Envoy may take as a whole."""
        length = self.downstream.length
        return length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS and int(length) <= MAX_BUFFERED_BODY

    @property
    def is_body_undeclared(self) -> bool:
        """Whether Envoy alone knows that there is no body."""
        return self.downstream.is_http2 and not self.downstream.length

    def scope(self, scheme: str) -> dict[str, Any]:
        """ASGI scope, as our own listener would make it of the same bytes; raises BadRequest where it would refuse them."""
        line = self.line
        if not line.raw_path.startswith(b"/"):
            raise BadRequest("the request target is no path")
        if self.downstream.length and not self.downstream.length.isdigit():
            raise BadRequest("Content-Length is no number")
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": line.method.decode(),
            "scheme": scheme,
            "path": unquote(line.raw_path.decode()),
            "raw_path": line.raw_path,
            "query_string": line.query_string,
            "root_path": "",
            "headers": [(b"host", self.host), *self.client_headers()],
            "client": list(self.downstream.client) if self.downstream.client else None,
            "extensions": connection_extensions(scheme, self.downstream, self.headers),
        }
        if line.has_empty_query:
            scope["gate.bare_query"] = True
        return scope

    def client_headers(self) -> Headers:
        """Headers that the client sent, less the host; what Envoy added is left out, what it overwrote is as it was."""
        facts = self.downstream
        headers = [pair for pair in self.headers if not is_set_by_envoy(pair[0])]
        reported = (
            (b"x-forwarded-proto", facts.proto),
            (b"connection", facts.connection),
            (b"content-length", facts.length),
            (b"transfer-encoding", facts.coding),
        )
        return headers + [pair for pair in reported if pair[1]]


def connection_extensions(scheme: str, facts: EdgeFacts, headers: Iterable[Header]) -> dict[str, Any]:
    """ASGI extensions: what the connection said of itself, and the certificates that the client showed, DER, its own first."""
    if scheme != "https":
        return {}
    certificates = next((value for name, value in headers if name == _XFCC), None)
    match = None if certificates is None else _CHAIN.search(certificates)
    return {
        TLS_EXTENSION: {"server_name": facts.server_name, "chain": parse_pem_chain(match[1].decode("ascii", "replace")) if match else ()}
    }


def is_set_by_envoy(name: bytes) -> bool:
    """Whether Envoy wrote a header of this name, whatever the client sent."""
    return name.startswith(b"x-envoy-") or name in (_XFCC, b"x-forwarded-proto")


def header_mutations(head: EnvoyRequestHead, upstream_headers: Headers, *, is_http2: bool = False) -> Headers:
    """Headers that Envoy is told to set, and last the names of those to take away: every one that is not in `after` goes, but for framing.

    What several lines were joined of, or may have been, is set as it was judged. `is_http2`: the upstream speaks HTTP/2. Then all headers
    of an HTTP/2 client are set: Envoy (1.40) accepts blanks around a value, which its question does not show, and an upstream would end
    the connection that it shares with other users (RFC 9113 8.2.1). Raises ValueError where a name has several values.
    """
    sets_all = is_http2 and head.downstream.is_http2
    before, new = dict(head.headers), {name.lower(): value for name, value in upstream_headers}
    if len(new) != len(upstream_headers):
        new = _require_single(upstream_headers)
    mutations = [
        (name, value)
        for name, value in new.items()
        if (sets_all or before.get(name) != value or b"," in value or (head.is_ambiguous and b"!" in value)) and name not in FRAMING
    ]
    if removed := [name for name in before if name not in new] + head.line.ignored_header_names:
        mutations.append((HEADERS_TO_REMOVE, b",".join(removed)))
    return mutations


def _require_single(headers: Headers) -> dict[bytes, bytes]:
    found = group_by_name(headers)
    if any(len(values) > 1 for values in found.values()):
        raise ValueError("Envoy can't be told of a header with several values")
    return {name: values[0] for name, values in found.items()}


def group_by_name(headers: Iterable[Header]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    if len(cookies := found.get(b"cookie", ())) > 1:
        found[b"cookie"] = [b"; ".join(cookies)]  # RFC 6265 5.4: one header
    return found
