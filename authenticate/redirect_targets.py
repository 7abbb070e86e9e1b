"""Redirect targets: the only enforcement point for external redirect URIs, against open redirects."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from foundation.values import DEFAULT_PORTS, Url

MAX_LENGTH = 8192
MAX_PORT = 65535

# Stricter than RFC 3986 on purpose: anything that two URL parsers could interpret differently (user info, backslashes, controls,
# spaces, non-ASCII, ports with leading zeros, hosts with trailing dots, missing slashes) is rejected.
_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[1-9][0-9]{0,4}))?"
    r"(?P<rest>[/?#][!-\[\]-~]*)?",
    re.ASCII | re.IGNORECASE,
)

IsRouteOrigin = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class RedirectTarget(Url):
    """A URL on a host of gate. Its `path` is everything after the origin."""

    def truncated(self, limit: int) -> str:
        """Return the URL, without its query, or its path too, if it is longer than `limit`."""
        candidates = (str(self), self.origin + re.split(r"[?#]", self.path)[0], self.origin + "/")
        return next(candidate for candidate in candidates if len(candidate) <= limit or candidate is candidates[-1])


def parse(url: str) -> RedirectTarget | None:
    """Parse a URL and rebuild it from its parts; None if it is ambiguous."""
    match = _URL.fullmatch(url) if len(url) <= MAX_LENGTH else None
    if match is None:
        return None
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else None
    # Reject https on port 80 and http on port 443, which code that ignores default ports would take for the origin without a port.
    if port is not None and (port > MAX_PORT or (port in DEFAULT_PORTS.values() and port != DEFAULT_PORTS[scheme])):
        return None
    rest = match["rest"] or "/"
    return RedirectTarget(
        scheme, match["host"].lower(), None if port == DEFAULT_PORTS[scheme] else port, rest if rest[0] == "/" else "/" + rest
    )


# enforcement-point: Sign-in and sign-out: Redirect targets
class RedirectTargets:
    """Allow-list: the authenticate host and, by `is_route_origin`, the route hosts. Scheme, host and port are all compared."""

    def __init__(self, authenticate_origin: str):
        self._authenticate_origin = authenticate_origin

    def resolve(self, url: str, is_route_origin: IsRouteOrigin) -> RedirectTarget | None:
        target = parse(url)
        if target is not None and (self.is_authenticate_page(target) or is_route_origin(target.origin)):
            return target
        return None

    def is_authenticate_page(self, target: RedirectTarget) -> bool:
        """Return whether this is a page of the authenticate host."""
        return target.origin == self._authenticate_origin
