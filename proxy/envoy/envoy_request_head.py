"""Request head of an authorization request, parsed as strictly as by gate's listener, and the header mutations for Envoy."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from authorize.identity.client_certificates import parse_pem_chain
from foundation.errors import BadRequest
from foundation.web.asgi_types import Header, Headers
from proxy.envoy.resources.internal_headers import DownstreamInfo, is_internal
from proxy.incoming_request import TLS_EXTENSION
from proxy.listener.http1.request_head import RequestHead, parse_head

_XFCC = b"x-forwarded-client-cert"  # set by Envoy, which removes the client's own
_CHAIN = re.compile(rb'(?:^|;)Chain="([^"]*)"')
# Envoy frames the connection itself.
FRAMING = frozenset((b"content-length", b"transfer-encoding"))
# Headers of the check itself, and the host, which is parsed with the request line.
_CHECK_HEADERS = FRAMING | {b"host", b"x-envoy-internal", b"x-envoy-expected-rq-timeout-ms"}
# Several values are invalid (RFC 6265 5.4, RFC 9110 11.6.2).
_SINGLE = (b"cookie", b"authorization")
# Header with the names that Envoy removes (envoy.extensions.filters.http.ext_authz.v3).
HEADERS_TO_REMOVE = b"x-envoy-auth-headers-to-remove"
_NO_BODY = (b"", b"0")
# The kernel accepts this much in one write, so nothing is left to be sent if the upstream responds early and closes.
MAX_BUFFERED_BODY = 32 * 1024
_MAX_LENGTH_DIGITS = 9  # digits
# Methods of requests that rarely have a body.
_BODILESS = frozenset((b"GET", b"HEAD", b"OPTIONS"))


@dataclass(slots=True)  # not frozen: one is made for each request
class EnvoyRequestHead:
    """Request head of a check, and information about its downstream connection.

    `headers` are those that Envoy has, without framing and internal headers; Envoy joins repeated lines with commas. `target` is as
    received. `is_ambiguous` is true if the check may differ from Envoy's own head, because Envoy replaces invalid UTF-8 with `!` and
    joins repeated headers that must be single.
    """

    line: RequestHead
    target: bytes
    host: bytes
    headers: Headers
    downstream: DownstreamInfo
    is_ambiguous: bool

    @classmethod
    def parse(cls, text: bytes) -> "EnvoyRequestHead":
        """Parse the head of a check, without its empty line. Raises RequestRejected if gate's listener would reject it."""
        line = parse_head(text)
        last = dict(line.headers)
        headers = [pair for pair in line.headers if pair[0] not in _CHECK_HEADERS and not is_internal(pair[0])]
        target = text[: text.index(b"\r\n")].split(b" ", 2)[1]
        is_doubtful = b"!" in text or any(b"," in last.get(name, b"") for name in _SINGLE)
        return cls(line, target, last[b"host"], headers, DownstreamInfo.parse(last), is_doubtful)

    @property
    def method(self) -> bytes:
        return self.line.method

    @property
    def has_body(self) -> bool:
        """Whether the request may have a body, which HTTP/2 need not declare."""
        facts = self.downstream
        if facts.is_http2 and not facts.length:
            return self.method not in _BODILESS
        return facts.length not in _NO_BODY or bool(facts.coding)

    @property
    def can_buffer(self) -> bool:
        """Whether Envoy can buffer the complete body, by its declared length."""
        length = self.downstream.length
        return length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS and int(length) <= MAX_BUFFERED_BODY

    @property
    def is_body_undeclared(self) -> bool:
        """Whether only Envoy knows if there is a body."""
        return self.downstream.is_http2 and not self.downstream.length

    def scope(self, scheme: str) -> dict[str, Any]:
        """Return the ASGI scope that gate's listener would create. Raises BadRequest if it would reject the request."""
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
        """Return the client's headers without the host: those that Envoy added are removed, those that it replaced are restored."""
        facts = self.downstream
        headers = [pair for pair in self.headers if not is_set_by_envoy(pair[0])]
        reported = (
            (b"x-forwarded-proto", facts.proto),
            (b"connection", facts.connection),
            (b"content-length", facts.length),
            (b"transfer-encoding", facts.coding),
        )
        return headers + [pair for pair in reported if pair[1]]


def connection_extensions(scheme: str, facts: DownstreamInfo, headers: Iterable[Header]) -> dict[str, Any]:
    """Return the ASGI extensions with the server name and the client certificate chain (DER, leaf first)."""
    if scheme != "https":
        return {}
    certificates = next((value for name, value in headers if name == _XFCC), None)
    match = None if certificates is None else _CHAIN.search(certificates)
    return {
        TLS_EXTENSION: {"server_name": facts.server_name, "chain": parse_pem_chain(match[1].decode("ascii", "replace")) if match else ()}
    }


def is_set_by_envoy(name: bytes) -> bool:
    """Return whether Envoy sets this header itself."""
    return name.startswith(b"x-envoy-") or name in (_XFCC, b"x-forwarded-proto")


def header_mutations(head: EnvoyRequestHead, upstream_headers: Headers, *, is_http2: bool = False) -> Headers:
    """Return the headers that Envoy sets, and last the names that it removes: all that are not in `upstream_headers`, except framing.

    Headers that may have been joined from several lines are set as they were authorized. `is_http2` is true for an HTTP/2 upstream;
    then all headers of an HTTP/2 client are set, because Envoy (1.40) accepts blanks around a value, which the check does not show, and
    the upstream would close a connection that other users share (RFC 9113 8.2.1).
    Raises ValueError if a name has several values.
    """
    sets_all = is_http2 and head.downstream.is_http2
    before, new = dict(head.headers), {name.lower(): value for name, value in upstream_headers}
    if len(new) != len(upstream_headers):
        new = _require_single_values(upstream_headers)
    mutations = [
        (name, value)
        for name, value in new.items()
        if (sets_all or before.get(name) != value or b"," in value or (head.is_ambiguous and b"!" in value)) and name not in FRAMING
    ]
    if removed := [name for name in before if name not in new] + head.line.ignored_header_names:
        mutations.append((HEADERS_TO_REMOVE, b",".join(removed)))
    return mutations


def _require_single_values(headers: Headers) -> dict[bytes, bytes]:
    by_name = group_by_name(headers)
    if any(len(values) > 1 for values in by_name.values()):
        raise ValueError("a header has several values, which a check response cannot express")
    return {name: values[0] for name, values in by_name.items()}


def group_by_name(headers: Iterable[Header]) -> dict[bytes, list[bytes]]:
    by_name: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        by_name.setdefault(name.lower(), []).append(value)
    if len(cookies := by_name.get(b"cookie", ())) > 1:
        by_name[b"cookie"] = [b"; ".join(cookies)]  # RFC 6265 5.4: one header
    return by_name
