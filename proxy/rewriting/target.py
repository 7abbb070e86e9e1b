"""Request target and Host of the upstream request."""

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

# A segment that some server interprets as "." or "..": plain, encoded, with path parameters, or next to an encoded slash.
_DOT_SEGMENT = re.compile(
    r"(?:/|%(?:25)*(?:2f|5c))(?:\.|%(?:25)*2e){1,2}(?:(?:;|%(?:25)*3b)[^/]*)?(?=/|%(?:25)*(?:2f|5c|3f|23)|$)", re.IGNORECASE
)
_UNSAFE_TARGET = re.compile(r"[^\x21-\x7e]")
_MAX_PATH_CHARS = 8 * 1024  # of the result of a substitution; the limit of request URLs too

Substitute = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class PathRewrite:
    """Path rewrite of one route, from the canonical request path to the upstream's path.

    `replacement` replaces the prefix `matched`: "" means that it is prepended, None that it replaces the complete path (routes with
    `path` or `regex`). Without a `replacement` or `substitute` the path is unchanged.
    """

    matched: str | None
    replacement: str | None
    substitute: Substitute | None = None

    @classmethod
    def build(cls, route: Route, canonical_prefix: str | None = None) -> "PathRewrite":
        """Return the rewrite of a route: `regex_rewrite_pattern`, else `prefix_rewrite`, else the path of `to` is prepended.

        `canonical_prefix` is the prefix in canonical form, as routes match it.
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
        """Return the upstream's path.

        Raises BadRequest if it would leave the path that the route points to (`/a../x` with `/a` -> `/b/`).
        """
        if self.substitute is not None:
            joined = self.substitute(path)
        elif self.replacement is None:
            return path
        else:
            joined = self.replacement + ("" if self.matched is None else path[len(self.matched) :])
        if not joined.startswith("/"):
            joined = "/" + joined
        if not path.startswith("//"):
            joined = "/" + joined.lstrip("/")  # a target that starts with "//evil" looks like a host
        if _DOT_SEGMENT.search(joined) or _UNSAFE_TARGET.search(joined):
            raise BadRequest(Message("the path can't be forwarded"))
        # A substitution may split an escape sequence or create one.
        return joined if self.substitute is None else canonical_path(joined.encode("ascii"))


def substitution(pattern: str, replacement: str) -> Substitute:
    """Return a function that replaces every match of `pattern`. It raises BadRequest if its result is too long."""
    import re2  # 2 MiB, so only routes with a pattern import it

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
    """Return the prefix that a rewrite replaces; None for the complete path."""
    if route.path is not None or route.regex is not None:
        return None
    return canonical_prefix or route.prefix or "/"


def build_target(path: str, query: bytes, *, is_bare: bool = False) -> bytes:
    """Return the request target in origin form (RFC 9112 3.2.1).

    `is_bare` preserves a `?` before an empty query, because some applications distinguish it.
    """
    return path.encode("ascii") + b"?" + query if query or is_bare else path.encode("ascii")


def strip_token(query: bytes) -> bytes:
    """Return the query without gate's session token, however its name is encoded; the rest is unchanged."""
    if b"gate" not in query and b"%" not in query:
        return query
    pairs = query.split(b"&")
    return b"&".join(pair for pair in pairs if unquote_to_bytes(pair.partition(b"=")[0].replace(b"+", b" ")) != TOKEN_PARAM)


# enforcement-point: Upstream requests: Host header derived from the request
@dataclass(frozen=True, slots=True)
class HostRewrite:
    """Host header of upstream requests.

    It is `fixed`, the value of the request header `header`, or the result of `substitute` on the path. Without these it is the
    upstream's host name if `uses_upstream_name`, else the Host of the request.
    """

    fixed: bytes | None = None
    header: bytes | None = None
    substitute: Substitute | None = None
    uses_upstream_name: bool = False

    @classmethod
    def build(cls, route: Route) -> "HostRewrite":
        """Return the Host rewrite of a route; a Host in `set_request_headers` takes precedence."""
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
        """Return whether the result depends on more of a request than its Host."""
        return self.header is not None or self.substitute is not None

    def apply(self, request_host: bytes, upstream_name: bytes | None, path: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the Host header. `upstream_name` is the selected upstream's host name, None if it is an IP address.

        Raises BadRequest if the request determines the host and it is invalid or ambiguous.
        """
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
    """Return the host name of an upstream; None for an IP address, for which the request's Host is sent."""
    return None if parse_ip(url.host.strip("[]")) else url.host_port.encode("ascii")


def _validate_host(host_header: bytes) -> bytes:
    """Return the canonical form of a Host that a client can influence. Raises BadRequest unless it is a host with an optional port."""
    host, port = canonical_host(host_header)
    return (host if port is None else f"{host}:{port}").encode("ascii")
