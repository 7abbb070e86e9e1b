"""Response headers: those of an upstream that a client may see, and what the operator adds to each answer."""

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
from proxy.rewriting.header_names import CONNECTION_OPTIONS, HOP_BY_HOP, MAX_CACHED_NAME_BYTES, TOKEN

_UNSAFE_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110 5.5, as our listener reads it


def _response_name(name: bytes) -> bytes | None:
    """The lower-case name, as ASGI wants it; None for what belongs to the upstream's connection and tells us nothing."""
    folded = name.lower()
    if not TOKEN.fullmatch(name):
        raise UpstreamError("the upstream sent a malformed header name")
    return None if folded in HOP_BY_HOP and folded != b"connection" else folded


_NAMES = MemoCache(_response_name, 4096, max_key_length=MAX_CACHED_NAME_BYTES)


@dataclass(frozen=True, slots=True)
class ResponseHeaderRules:
    """Response header rules of the configuration, worked out once."""

    replaced: frozenset[bytes]
    added: tuple[Header, ...]
    is_gate_cookie: Callable[[bytes], bool] = field(repr=False)

    @classmethod
    def build(cls, options: Options) -> "ResponseHeaderRules":
        added = {name.lower(): value for name, value in options.headers.items()}
        return cls._build(added, (), options)

    @classmethod
    def for_route(cls, route: Route, options: Options) -> "ResponseHeaderRules | None":
        """Rules for the answers of a route's upstream; None where it has none of its own."""
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
        """Rules as its script for answers reads them (proxy/envoy/resources/response_filter.lua): `+name=value` for what is
        set, `-name` for what goes, with `&` between them; names and values are percent-encoded."""
        removed = sorted(self.replaced.difference(name for name, _ in self.added))
        set_rules = [f"+{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.added]
        return "&".join([*set_rules, *(f"-{quote(name, safe='')}" for name in removed)]).encode("ascii")

    def filter(self, headers: Iterable[Header]) -> Headers:
        """Response headers.  UpstreamError where a value holds CR, LF, NUL or the like: such a response would be split on the way.

        A value with a C1 control is left out: `parse_head` refuses the same value in a request, so its cookie would lock a browser out.
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
        """Browsers send a cookie without a name back as its bare value, so `=_gate=x` would arrive as ours."""
        return self.is_gate_cookie(value.partition(b";")[0].strip(b" \t").lstrip(b"= \t").partition(b"=")[0].strip(b" \t"))
