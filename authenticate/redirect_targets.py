"""Redirect targets: the only door for a redirect URI from outside; open redirects end here."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from foundation.values import DEFAULT_PORTS, Url

MAX_LENGTH = 8192
MAX_PORT = 65535

# Stricter than RFC 3986 on purpose: whatever two URL parsers could read differently (user info, backslashes, controls, spaces,
# non-ASCII, ports with leading zeros, hosts with trailing dots, missing slashes) is no URL of ours.
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
    """A URL on a host of ours; its `path` is all that follows the origin."""

    def short(self, limit: int) -> str:
        """The URL, without its query or even its path where it is longer than `limit`."""
        candidates = (str(self), self.origin + re.split(r"[?#]", self.path)[0], self.origin + "/")
        return next(candidate for candidate in candidates if len(candidate) <= limit or candidate is candidates[-1])


def parse(url: str) -> RedirectTarget | None:
    """The URL in its one reading, rebuilt from its parts; None where there are two."""
    match = _URL.fullmatch(url) if len(url) <= MAX_LENGTH else None
    if match is None:
        return None
    scheme = match["scheme"].lower()
    port = int(match["port"]) if match["port"] else None
    # https on port 80 is no URL of anybody; where both default ports count as none, it would pass for ours.
    if port is not None and (port > MAX_PORT or (port in DEFAULT_PORTS.values() and port != DEFAULT_PORTS[scheme])):
        return None
    rest = match["rest"] or "/"
    return RedirectTarget(
        scheme, match["host"].lower(), None if port == DEFAULT_PORTS[scheme] else port, rest if rest[0] == "/" else "/" + rest
    )


# enforcement-point: Sign-in and sign-out: Redirect targets
class RedirectTargets:
    """Allow-list: the authenticate host and, by `is_route_origin`, the routes'.  Origins are compared whole: scheme, host and port."""

    def __init__(self, own_origin: str):
        self._own_origin = own_origin

    def target(self, url: str, is_route_origin: IsRouteOrigin) -> RedirectTarget | None:
        target = parse(url)
        if target is not None and (self.is_own(target) or is_route_origin(target.origin)):
            return target
        return None

    def is_own(self, target: RedirectTarget) -> bool:
        """Whether this is a page of the authenticate host itself."""
        return target.origin == self._own_origin
