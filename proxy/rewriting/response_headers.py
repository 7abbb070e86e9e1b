"""Response headers: those of an upstream that a client may see, and what the operator adds to each answer."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from config.options import Options
from foundation.bounded_cache import Remembered
from foundation.crypto import cookies
from foundation.errors import UpstreamError
from proxy.rewriting.header_names import CONNECTION_STATES, HOP_BY_HOP, LONGEST_REMEMBERED, TOKEN, Header, Headers

_UNSAFE_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")  # RFC 9110 5.5, as our listener reads it


def _response_name(name: bytes) -> bytes | None:
    """The lower-case name, as ASGI wants it; None for what belongs to the upstream's connection and tells us nothing."""
    folded = name.lower()
    if not TOKEN.fullmatch(name):
        raise UpstreamError("the upstream sent a malformed header name")
    return None if folded in HOP_BY_HOP and folded != b"connection" else folded


_NAMES = Remembered(_response_name, 4096, longest=LONGEST_REMEMBERED)


@dataclass(frozen=True, slots=True)
class ResponseHeaders:
    """Response header rules of the configuration, worked out once."""

    replaced: frozenset[bytes]
    added: tuple[Header, ...]
    is_our_cookie: Callable[[bytes], bool] = field(repr=False)

    @classmethod
    def build(cls, options: Options) -> "ResponseHeaders":
        added = tuple((name.lower().encode("ascii"), value.encode("latin-1")) for name, value in options.headers.items())
        return cls(frozenset(name for name, _ in added), added, partial(cookies.is_ours, cookie_name=options.cookie_name))

    def for_client(self, headers: Iterable[Header]) -> Headers:
        """Response headers.  UpstreamError where a value holds CR, LF, NUL or the like: such a response would be split on the way."""
        kept: Headers = []
        options: set[bytes] = set()
        for raw_name, value in headers:
            if _UNSAFE_VALUE.search(value):
                raise UpstreamError("the upstream sent a header with a control character in it")
            name = _NAMES[raw_name]
            if name == b"connection":
                options.update([option.strip(b" \t").lower() for option in value.split(b",")])
            elif name is None or name in self.replaced or (name == b"set-cookie" and self._sets_ours(value)):
                continue
            else:
                kept.append((name, value))
        if options and options - CONNECTION_STATES:
            kept = [pair for pair in kept if pair[0] not in options or pair[0] == b"content-length"]
        return [*kept, *self.added]

    def _sets_ours(self, value: bytes) -> bool:
        """Browsers send a cookie without a name back as its bare value, so `=_gate=x` would arrive as ours."""
        return self.is_our_cookie(value.partition(b";")[0].strip(b" \t").lstrip(b"= \t").partition(b"=")[0].strip(b" \t"))
