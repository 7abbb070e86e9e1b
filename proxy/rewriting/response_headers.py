"""Response headers for a client: those of the upstream that may pass, and those that the operator adds to each response."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import quote

from config.options import Options
from config.routes.route import Route
from foundation.bounded_cache import MemoCache
from foundation.crypto import cookies
from foundation.errors import UpstreamError
from foundation.web.asgi_types import Header, Headers
from foundation.web.field_values import has_c1_control
from proxy.rewriting.reserved_headers import CONNECTION_OPTIONS, HOP_BY_HOP, MAX_CACHED_NAME_BYTES, TOKEN

_UNSAFE_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110 5.5, like gate's listener


def _response_name(name: bytes) -> bytes | None:
    """Return the name in lower case, as ASGI requires; None for a hop-by-hop header other than Connection.

    Raises UpstreamError if the name is malformed.
    """
    folded = name.lower()
    if not TOKEN.fullmatch(name):
        raise UpstreamError("the upstream sent a malformed header name")
    return None if folded in HOP_BY_HOP and folded != b"connection" else folded


_NAMES = MemoCache(_response_name, 4096, max_key_length=MAX_CACHED_NAME_BYTES)


@dataclass(frozen=True, slots=True)
class ResponseHeaderRules:
    """Response header rules, precomputed from the configuration."""

    replaced: frozenset[bytes]
    added: tuple[Header, ...]
    is_gate_cookie: Callable[[bytes], bool] = field(repr=False)

    @classmethod
    def build(cls, options: Options) -> "ResponseHeaderRules":
        added = {name.lower(): value for name, value in options.headers.items()}
        return cls._build(added, (), options)

    @classmethod
    def for_route(cls, route: Route, options: Options) -> "ResponseHeaderRules | None":
        """Return the rules for responses of a route's upstream; None if the route sets none."""
        if not (route.set_response_headers or route.remove_response_headers):
            return None
        removed = {name.lower() for name in route.remove_response_headers}
        added = {name.lower(): value for name, value in (*options.headers.items(), *route.set_response_headers.items())}
        return cls._build({name: value for name, value in added.items() if name not in removed}, removed, options)

    @classmethod
    def _build(cls, added: Mapping[str, str], removed: Iterable[str], options: Options) -> "ResponseHeaderRules":
        replaced = frozenset(name.encode("ascii") for name in (*added, *removed))
        pairs = tuple((name.encode("ascii"), value.encode("latin-1")) for name, value in added.items())
        return cls(replaced, pairs, partial(cookies.is_gate_cookie, cookie_name=options.cookie_name))

    def to_envoy_rules(self) -> bytes:
        """Return the rules in the format of proxy/envoy/resources/response_filter.lua.

        `+name=value` sets a header and `-name` removes one, separated by `&`; names and values are percent-encoded.
        """
        removed = sorted(self.replaced.difference(name for name, _ in self.added))
        set_rules = [f"+{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.added]
        return "&".join([*set_rules, *(f"-{quote(name, safe='')}" for name in removed)]).encode("ascii")

    def filter(self, headers: Iterable[Header]) -> Headers:
        """Return the response headers for the client.

        A header with a C1 control character is dropped: `parse_head` rejects such a value in a request, so a cookie with one would lock
        the browser out. Raises UpstreamError if a name is malformed or a value contains another control character, such as CR, LF or
        NUL, because the response could be split.
        """
        allowed: Headers = []
        options: set[bytes] = set()
        for raw_name, value in headers:
            if _UNSAFE_VALUE.search(value):
                raise UpstreamError("the upstream sent a header with a control character")
            name = _NAMES[raw_name]
            if name == b"connection":
                options.update([option.strip(b" \t").lower() for option in value.split(b",")])
            elif (
                name is None
                or name in self.replaced
                or (not value.isascii() and has_c1_control(value))
                or (name == b"set-cookie" and self._sets_gate_cookie(value))
            ):
                continue
            else:
                allowed.append((name, value))
        if options - CONNECTION_OPTIONS:
            allowed = [pair for pair in allowed if pair[0] not in options or pair[0] == b"content-length"]
        return [*allowed, *self.added]

    def _sets_gate_cookie(self, value: bytes) -> bool:
        """Return whether a Set-Cookie value sets a cookie of gate.

        Browsers return a cookie without a name as its bare value, so `=_gate=x` would arrive as gate's cookie.
        """
        return self.is_gate_cookie(value.partition(b";")[0].strip(b" \t").lstrip(b"= \t").partition(b"=")[0].strip(b" \t"))
