"""Request target at the upstream: its path, its query, and the Host that is sent."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from authorize.policy.paths.canonical import canonical_host, canonical_path
from config.routes.rewrites import template
from config.routes.route import Route
from foundation.errors import BadRequest
from foundation.values import Url, parse_ip
from foundation.web.message import Message

TOKEN_PARAM = b"gate_session"

# A segment that some server reads as "." or "..": plain, encoded, with path parameters, or beside an encoded slash.
_DOT_SEGMENT = re.compile(
    r"(?:/|%(?:25)*(?:2f|5c))(?:\.|%(?:25)*2e){1,2}(?:(?:;|%(?:25)*3b)[^/]*)?(?=/|%(?:25)*(?:2f|5c|3f|23)|$)", re.IGNORECASE
)
_UNSAFE_TARGET = re.compile(r"[^\x21-\x7e]")
_MAX_PATH_CHARS = 8 * 1024  # characters of what a substitution makes, as of the URL that came in

Substitute = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class PathRewrite:
    """Path rewrite of one route, from a canonical path to the upstream's.

    `matched` is the prefix that `replacement` takes the place of, "" where it stands in front; None stands for the whole path (routes
    by `path` or `regex`).  Without a `replacement` the path goes as it is.
    """

    matched: str | None
    replacement: str | None
    substitute: Substitute | None = None

    @classmethod
    def build(cls, route: Route, canonical_prefix: str | None = None) -> "PathRewrite":
        """Rewrite of a route; `prefix_rewrite` and `regex_rewrite_pattern` outrank the path of `to`, to which the request's is appended.

        `canonical_prefix` is the prefix in the form it is matched in.
        """
        if route.regex_rewrite_pattern is not None and route.regex_rewrite_substitution is not None:
            return cls(None, None, substitution(route.regex_rewrite_pattern, route.regex_rewrite_substitution))
        if route.prefix_rewrite is not None:
            return cls(replaced_prefix(route, canonical_prefix), route.prefix_rewrite)
        return cls("", (route.to[0].url.path.rstrip("/") if route.to else "") or None)

    @property
    def is_noop(self) -> bool:
        return self.replacement is None and self.substitute is None

    def apply(self, path: str) -> str:
        """Path at the upstream.  BadRequest where it would leave the place that the route points to (`/a../x` under `/a` -> `/b/`)."""
        if self.substitute is not None:
            joined = self.substitute(path)
        elif self.replacement is None:
            return path
        else:
            joined = self.replacement + ("" if self.matched is None else path[len(self.matched) :])
        if not joined.startswith("/"):
            joined = "/" + joined
        if not path.startswith("//"):
            joined = "/" + joined.lstrip("/")  # "//evil" at the start of a target reads as a host
        if _DOT_SEGMENT.search(joined) or _UNSAFE_TARGET.search(joined):
            raise BadRequest(Message("the path can't be forwarded"))
        # A substitution may cut an escape into pieces, or make one out of pieces.
        return joined if self.substitute is None else canonical_path(joined.encode("ascii"))


def substitution(pattern: str, replacement: str) -> Substitute:
    """Regex substitution of every match.  The result may have a bounded length only (BadRequest)."""
    import re2  # 2 MiB, for expressions alone

    regex, parts = re2.compile(pattern), template(replacement)

    def expand(match: Any) -> str:
        return "".join(part if isinstance(part, str) else match.group(part) or "" for part in parts)

    def substitute(text: str) -> str:
        result = str(regex.sub(expand, text))
        if len(result) > _MAX_PATH_CHARS:
            raise BadRequest(Message("the rewritten path is too long"))
        return result

    return substitute


def replaced_prefix(route: Route, canonical_prefix: str | None) -> str | None:
    """Prefix that a rewrite replaces; None for the whole path."""
    if route.path is not None or route.regex is not None:
        return None
    return canonical_prefix or route.prefix or "/"


def build_target(path: str, query: bytes, *, is_bare: bool = False) -> bytes:
    """Request target in origin form (RFC 9112 3.2.1).  `is_bare` keeps a `?` with nothing behind it: some applications see it."""
    return path.encode("ascii") + b"?" + query if query or is_bare else path.encode("ascii")


def strip_token(query: bytes) -> bytes:
    """Query less our session token, under any spelling of its name; the rest survives byte for byte."""
    if b"gate" not in query and b"%" not in query:
        return query
    pairs = query.split(b"&")
    return b"&".join(pair for pair in pairs if unquote_to_bytes(pair.partition(b"=")[0].replace(b"+", b" ")) != TOKEN_PARAM)


# enforcement-point: Upstream requests: Host header derived from the request
@dataclass(frozen=True, slots=True)
class HostRewrite:
    """Host sent upstream: `fixed`, or of a `header`, or out of the path; else the upstream's own name where `is_own`; else the Host
    that came in."""

    fixed: bytes | None = None
    header: bytes | None = None
    substitute: Substitute | None = None
    uses_upstream_name: bool = False

    @classmethod
    def build(cls, route: Route) -> "HostRewrite":
        """Host rewrite of a route; `set_request_headers` may set Host (specification, release 0.9)."""
        for name, value in route.set_request_headers.items():
            if name.lower() == "host":
                return cls(fixed=value.encode("latin-1"))
        if route.host_rewrite is not None:
            return cls(fixed=route.host_rewrite.encode("ascii"))
        if route.host_rewrite_header is not None:
            return cls(header=route.host_rewrite_header.lower().encode("ascii"))
        if route.host_path_regex_rewrite_pattern is not None and route.host_path_regex_rewrite_substitution is not None:
            return cls(substitute=substitution(route.host_path_regex_rewrite_pattern, route.host_path_regex_rewrite_substitution))
        if route.preserve_host_header:
            return cls()
        names = {upstream_hostname(upstream.url) for upstream in route.to}
        return cls(fixed=names.pop()) if len(names) == 1 else cls(uses_upstream_name=True)

    @property
    def depends_on_request(self) -> bool:
        """Whether more of a request than its Host has a say."""
        return self.header is not None or self.substitute is not None

    def apply(self, request_host: bytes, upstream_name: bytes | None, path: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Host header.  `own` is the name of the chosen upstream, None where it is an address.  Raises BadRequest for what is no host."""
        if self.fixed is not None:
            return self.fixed
        if self.uses_upstream_name:
            return request_host if upstream_name is None else upstream_name
        if self.substitute is not None:
            return _validate_host(self.substitute(path).encode("ascii", "replace"))
        if self.header is None:
            return request_host
        values = {value for name, value in headers if name == self.header}
        if len(values) > 1:
            raise BadRequest(Message("the header %(name)s contains more than one host", name=self.header.decode()))
        return _validate_host(values.pop()) if any(values) else request_host


def upstream_hostname(url: Url) -> bytes | None:
    """Host name of an upstream; an address has no name of its own, so the Host that came in passes."""
    return None if parse_ip(url.host.strip("[]")) else url.host_port.encode("ascii")


def _validate_host(host_header: bytes) -> bytes:
    """The one door for a Host that a client has a say in: what is no host name with an optional port is refused."""
    host, port = canonical_host(host_header)
    return (host if port is None else f"{host}:{port}").encode("ascii")
