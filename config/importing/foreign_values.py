"""Parsers of untrusted values in source files: URLs and regular expressions."""

from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlsplit

import re2

_RE2_OPTIONS = re2.Options()
_RE2_OPTIONS.log_errors = False  # RE2 would write to stderr


def split_url(value: object) -> SplitResult:
    """Split a URL; all parts are empty if it is invalid."""
    try:
        return urlsplit(str(value))
    except ValueError:
        return urlsplit("")


@lru_cache(maxsize=1024)
def compile_re2(expression: str) -> Any | None:
    """Compile an RE2 expression; None if it is invalid."""
    try:
        return re2.compile(expression, _RE2_OPTIONS)
    except re2.error:
        return None
