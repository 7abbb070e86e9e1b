"""Redirect URIs of OAuth clients: the only comparison of a requested URI with a registered one (RFC 6749 3.1.2, RFC 8252 7.3)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

MAX_REDIRECT_URI_LENGTH = 512
MAX_PORT = 65535
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "[::1]", "localhost"})
# Stricter than RFC 3986 on purpose: what two URL parsers could read differently (user info, backslashes, controls, spaces, non-ASCII,
# upper case in the host, ports with leading zeros, dot segments, fragments) is refused.
_URI = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<path>/[!$&-;=@-Z_a-z~%]*)?"
    r"(?P<query>\?[!$&-;=?-Z_a-z~%/]*)?",
    re.ASCII,
)
_DOT_SEGMENT = re.compile(r"(?:\A|/)(?:\.|%2e){1,2}(?:/|\Z)", re.IGNORECASE)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True)
class RedirectUri:
    """A redirect URI without a fragment. `rest` is everything after the port."""

    scheme: str
    host: str
    port: int | None
    rest: str

    @property
    def is_loopback(self) -> bool:
        return self.scheme == "http"

    @property
    def host_port(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


def parse_redirect_uri(uri: str) -> RedirectUri | None:
    """Parse a redirect URI; None if it is ambiguous, or neither https nor http to this machine."""
    match = _URI.fullmatch(uri) if len(uri) <= MAX_REDIRECT_URI_LENGTH else None
    if match is None or _DOT_SEGMENT.search(match["path"] or "") or _BAD_ESCAPE.search(uri):
        return None
    port = int(match["port"]) if match["port"] else None
    if (port is not None and port > MAX_PORT) or (match["scheme"] == "http" and match["host"] not in LOOPBACK_HOSTS):
        return None
    return RedirectUri(match["scheme"], match["host"], port, (match["path"] or "") + (match["query"] or ""))


# enforcement-point: Authorization server: Redirect URIs of clients
def matches_registered_uri(requested: str, registered: Iterable[str]) -> bool:
    """Return whether a requested redirect URI is one of the registered ones: character by character, except for the port of a loopback
    address, which a program learns only when it listens (RFC 8252 7.3)."""
    uri = parse_redirect_uri(requested)
    if uri is None:
        return False
    for each in registered:
        if requested == each:
            return True
        known = parse_redirect_uri(each)
        if known is not None and uri.is_loopback and known.is_loopback and (uri.host, uri.rest) == (known.host, known.rest):
            return True
    return False
