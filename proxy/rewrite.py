"""Where at the upstream a request goes: its path, its query, and the Host that is sent."""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from gateproject.config.route import Route
from gateproject.errors import BadRequest

TOKEN_KEY = b"gate_session"

# A segment that some server reads as "." or "..": plain, encoded, with path parameters, or beside an encoded slash.
_DOT_SEGMENT = re.compile(r"(?:/|%2f|%5c)(?:\.|%2e){1,2}(?:(?:;|%3b)[^/]*)?(?=/|%2f|%5c|$)", re.IGNORECASE)
_UNSAFE_TARGET = re.compile(r"[^\x21-\x7e]")


@dataclass(frozen=True, slots=True)
class PathRewrite:
    """How one route turns a canonical path into the upstream's.

    `matched` is the prefix that `replacement` takes the place of; None stands for the whole path (routes by `path` or `regex`).
    Without a `replacement` the path goes as it is: a prefix is never stripped unless something takes its place.
    """

    matched: str | None
    replacement: str | None

    @classmethod
    def build(cls, route: Route, canonical_prefix: str | None = None) -> "PathRewrite":
        """`prefix_rewrite` outranks the path of `to`.  `canonical_prefix` is the prefix in the form it is matched in."""
        replacement = route.prefix_rewrite if route.prefix_rewrite is not None else (route.to[0].url.path if route.to else "") or None
        return cls(matched_part(route, canonical_prefix), replacement)

    def apply(self, path: str) -> str:
        """Raises BadRequest where the joined path would leave the place that the route points to (`/a../x` under `/a` -> `/b/`)."""
        if self.replacement is None:
            return path
        joined = self.replacement + ("" if self.matched is None else path[len(self.matched) :])
        if not joined.startswith("/"):
            joined = "/" + joined
        if joined.startswith("//") and not path.startswith("//"):
            joined = "/" + joined.lstrip("/")  # "//evil" at the start of a target reads as a host
        if _DOT_SEGMENT.search(joined) or _UNSAFE_TARGET.search(joined):
            raise BadRequest("the path can't be forwarded")
        return joined


def matched_part(route: Route, canonical_prefix: str | None) -> str | None:
    """The prefix that a rewrite replaces; None for the whole path."""
    if route.path is not None or route.regex is not None:
        return None
    return canonical_prefix or route.prefix or "/"


def target(path: str, query: bytes, *, is_bare: bool = False) -> bytes:
    """The origin-form target.  `is_bare` keeps a `?` with nothing behind it, which some applications tell apart from none."""
    return path.encode("ascii") + b"?" + query if query or is_bare else path.encode("ascii")


def without_token(query: bytes) -> bytes:
    """The query less our session token, under any spelling of its name; the rest survives byte for byte."""
    if b"gate" not in query and b"%" not in query:
        return query
    pairs = query.split(b"&")
    kept = [pair for pair in pairs if unquote_to_bytes(pair.partition(b"=")[0].replace(b"+", b" ")) != TOKEN_KEY]
    return query if len(kept) == len(pairs) else b"&".join(kept)


@dataclass(frozen=True, slots=True)
class HostRewrite:
    """The Host sent upstream; None stands for the Host that came in."""

    fixed: bytes | None

    @classmethod
    def build(cls, route: Route) -> "HostRewrite":
        """`set_request_headers` may set Host (specification, release 0.9); an address has no name of its own, so Host passes."""
        for name, value in route.set_request_headers.items():
            if name.lower() == "host":
                return cls(value.encode("latin-1"))
        if route.preserve_host_header or _is_address(route.to[0].url.host):
            return cls(None)
        return cls(route.to[0].url.host_port.encode("ascii"))

    def apply(self, incoming: bytes) -> bytes:
        return incoming if self.fixed is None else self.fixed


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
