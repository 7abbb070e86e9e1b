"""Values of foreign files that may be anything: addresses and expressions, or nothing that can be used."""

from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import re2

_RE2_OPTIONS = re2.Options()
_RE2_OPTIONS.log_errors = False  # else RE2 writes to stderr by itself


def split_url(value: object) -> SplitResult:
    """Parts of an address; all empty where it is none."""
    try:
        return urlsplit(str(value))
    except ValueError:
        return urlsplit("")


@lru_cache(maxsize=1024)
def compile_re2(expression: str) -> Any | None:
    """Compiled expression (RE2); None where it is none."""
    try:
        return re2.compile(expression, _RE2_OPTIONS)
    except re2.error:
        return None
