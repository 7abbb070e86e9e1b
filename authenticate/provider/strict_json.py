"""Strict JSON, because two parsers must never disagree: UTF-8, no duplicate keys, no NaN, no lone surrogates."""

import json
import math
from typing import Any


def parse_object(text: bytes) -> dict[str, Any]:
    """Return the JSON object in `text`. Raises ValueError if it is anything else or ambiguous."""
    if not isinstance(value := _parse(text), dict):
        raise ValueError("not a JSON object")
    return value


def parse_list(text: bytes) -> list[Any]:
    """Return the JSON list in `text`. Raises ValueError as in parse_object."""
    if not isinstance(value := _parse(text), list):
        raise ValueError("not a JSON list")
    return value


def _parse(text: bytes) -> Any:
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_without_repeats, parse_constant=_refuse, parse_float=_finite)
        # A lone surrogate ("\\ud800") can't be encoded in a page or header later. It can only come from an escape.
        if b"\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("duplicate key")
    return members


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
