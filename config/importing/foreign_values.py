"""Values of foreign files that may be anything: addresses and expressions, or nothing that can be used."""

from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import re2

_QUIET = re2.Options()
_QUIET.log_errors = False  # else RE2 writes to stderr by itself


def address_parts(value: object) -> SplitResult:
    """Parts of an address; all empty where it is none."""
    try:
        return urlsplit(str(value))
    except ValueError:
        return urlsplit("")


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Any | None:
    """Compiled expression (RE2); None where it is none."""
    try:
        return re2.compile(expression, _QUIET)
    except re2.error:
        return None
