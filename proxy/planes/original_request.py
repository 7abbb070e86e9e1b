"""Original request, which the client sent to the front proxy: one URL that all sources agree on, with one interpretation."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from authorize.policy.paths.canonical import canonical_host, require_canonical
from authorize.policy.policy_request import PolicyRequest, parse_request
from foundation.errors import BadRequest
from proxy.incoming_request import IncomingRequest

T = TypeVar("T")

_URL = re.compile(rb"(https?)://([^/?#@\\]+)(/[^?#]*)?(\?[^#]*)?", re.IGNORECASE)
_UNENCODED_URL = re.compile(rb"https?://", re.IGNORECASE)
# Encoders leave unreserved characters (RFC 3986 2.3) as they are, and some encoders "!*'()/" too.
_ENCODED_URL = re.compile(rb"https?%3a(?:[A-Za-z0-9._~!*'()/-]|%[0-9a-f]{2})*", re.IGNORECASE)
# An escape that is itself escaped, or an escaped "?" or "#", means that only a part of the URL was encoded.
_PARTIALLY_ENCODED = re.compile(rb"%(?:25|3f|23)", re.IGNORECASE)

SCHEMES = {b"http": "http", b"https": "https", b"ws": "http", b"wss": "https"}
DEFAULT_PORTS = {"http": 80, "https": 443}

URL_HEADERS = frozenset((b"x-original-url",))
SCHEME_HEADERS = frozenset((b"x-forwarded-proto",))
HOST_HEADERS = frozenset((b"x-forwarded-host",))
TARGET_HEADERS = frozenset((b"x-forwarded-uri", b"x-original-uri"))
METHOD_HEADERS = frozenset((b"x-forwarded-method", b"x-original-method"))
ALL_HEADERS = URL_HEADERS | SCHEME_HEADERS | HOST_HEADERS | TARGET_HEADERS | METHOD_HEADERS

NO_URL = "it has no URL. The front proxy must send ?uri=<url>, or URL headers from an address in trusted_proxies"


@dataclass(frozen=True, slots=True)
class OriginalRequest:
    """Original request.  `request.method` is empty unless a trusted peer sent it.  `url` is the URL that the front proxy forwards."""

    scheme: str
    request: PolicyRequest

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.request.host_port}"

    @property
    def url(self) -> str:
        query = f"?{self.request.query}" if self.request.query else ""
        return f"{self.origin}{self.request.path}{query}"


def parse_original_request(incoming: IncomingRequest, default_ports: frozenset[int]) -> OriginalRequest:
    """Parse the original request.  Headers count only if the peer is trusted, because otherwise the client may have sent them.

    Raises BadRequest if there is no URL, if two sources differ, or if the front proxy may forward another URL than gate authorizes.
    """
    headers = list(_forwarding_headers(incoming)) if incoming.is_trusted else []
    urls = [_parse_url(value) for value in _uri_parameter(incoming.scope["query_string"])]
    urls += [_parse_url(value) for name, value in headers if name in URL_HEADERS]
    schemes = [scheme for scheme, _, _ in urls] + [_parse_scheme(value) for name, value in headers if name in SCHEME_HEADERS]
    hosts = [host for _, host, _ in urls] + [value for name, value in headers if name in HOST_HEADERS]
    targets = [target for _, _, target in urls] + [value for name, value in headers if name in TARGET_HEADERS]
    scheme = _require_agreement(schemes, "scheme")
    _require_agreement([_parse_host(host, scheme) for host in hosts], "host")
    methods = [value for name, value in headers if name in METHOD_HEADERS]
    method = _require_agreement(methods, "method").decode("latin-1") if methods else ""
    return _build_original(scheme, hosts[0], _require_agreement(targets, "path and query"), default_ports, method, incoming)


def parse_original_url(url: str, default_ports: frozenset[int]) -> OriginalRequest:
    """Parse the URL that a browser sends back to gate.  Raises BadRequest if it has more than one interpretation."""
    try:
        return _build_original(*_parse_url(url.encode("ascii")), default_ports)
    except UnicodeEncodeError as error:
        raise BadRequest("the URL contains a character that must be percent-encoded") from error


def _build_original(
    scheme: str, host: bytes, target: bytes, default_ports: frozenset[int], method: str = "", incoming: IncomingRequest | None = None
) -> OriginalRequest:
    _, port = _parse_host(host, scheme)
    if port in DEFAULT_PORTS.values() and port != DEFAULT_PORTS[scheme]:
        raise BadRequest("the port is the default of the other scheme")
    raw_path, _, query = target.partition(b"?")
    request = parse_request(
        method,
        host,
        raw_path,
        query,
        default_ports,
        origin=incoming.headers.get(b"origin", b"") if incoming else b"",
        access_control_request_method=incoming.headers.get(b"access-control-request-method", b"") if incoming else b"",
    )
    # gate's data plane forwards the canonical path, but a front proxy forwards the client's.
    require_canonical(raw_path, request.path)
    return OriginalRequest(scheme, request)


def _uri_parameter(query: bytes) -> list[bytes]:
    """Return a list with the URL of `?uri=`, which must be the complete query; [] without a query.

    A completely encoded URL (`https%3A...`) is decoded once.  A plain URL (`https://...`), from a front proxy that can't encode,
    extends to the end of the query, so that a client's `&uri=` has no effect.
    """
    if not query:
        return []
    name, _, value = query.partition(b"=")
    if name != b"uri":
        raise BadRequest("its query must be uri=<url> and nothing else")
    if _ENCODED_URL.fullmatch(value):
        return [unquote_to_bytes(value)]
    if not _UNENCODED_URL.match(value):
        raise BadRequest("uri must be one URL with http or https, completely percent-encoded or not at all")
    if _PARTIALLY_ENCODED.search(value.partition(b"?")[0]):
        raise BadRequest("uri is ambiguous. Percent-encode it completely, or send X-Original-URL from a trusted proxy")
    return [value]


def _forwarding_headers(incoming: IncomingRequest) -> Iterator[tuple[bytes, bytes]]:
    for name, value in incoming.scope["headers"]:
        if name == b"x-forwarded-prefix" and value:
            raise BadRequest("the front proxy stripped a path prefix before forward auth (X-Forwarded-Prefix). Strip it after")
        if name in ALL_HEADERS:
            yield name, value


def _parse_url(url: bytes) -> tuple[str, bytes, bytes]:
    """Return (scheme, host, path and query)."""
    match = _URL.fullmatch(url)
    if match is None:
        raise BadRequest("the URL must be absolute, with http or https, without user name and fragment")
    scheme, host, path, query = match.groups()
    return _parse_scheme(scheme), host, (path or b"/") + (query or b"")


def _parse_scheme(value: bytes) -> str:
    if value.lower() not in SCHEMES:
        raise BadRequest("the scheme must be http or https")
    return SCHEMES[value.lower()]


def _parse_host(host: bytes, scheme: str) -> tuple[str, int]:
    name, port = canonical_host(host)
    return name, port or DEFAULT_PORTS[scheme]


def _require_agreement(values: Iterable[T], label: str) -> T:
    distinct = set(values)
    if not distinct:
        raise BadRequest(NO_URL)
    if len(distinct) > 1:
        raise BadRequest(f"conflicting {label}: the uri parameter and the headers of the front proxy must agree")
    return distinct.pop()
