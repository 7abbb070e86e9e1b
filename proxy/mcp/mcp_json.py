"""Reader and writer of the JSON of MCP messages, for texts that all JSON readers interpret equally.

orjson reads a canonical text in a third of the time of the strict parser.  A text is canonical if it equals what orjson writes for the
value that it has read.  This proves that the text has no duplicate keys, trailing data, NaN, lone surrogates or numbers that lose
digits.  Most SDKs write this form.  The strict parser reads any other text.
"""

import json
import math
from json import JSONDecoder
from typing import Any


class AmbiguousJson(ValueError):
    """JSON that readers interpret differently.  The message says why, after "the body"."""


# enforcement-point: Requests: JSON of MCP messages
def parse_json(body: bytes) -> Any:
    """Return the value of a text as `parse_strictly` does."""
    import orjson  # 0.3 MiB, for MCP routes alone

    try:
        value = orjson.loads(body)
        if orjson.dumps(value) == body:
            return value
    except (ValueError, TypeError):  # TypeError: orjson can't write the value
        pass
    return parse_strictly(body)


def parse_strictly(body: bytes) -> Any:
    """Return the value of a JSON text in UTF-8, which may have lone surrogates.

    Raises AmbiguousJson, ValueError for invalid JSON, and RecursionError.
    """
    return _DECODER.decode(body.decode("utf-8"))


def serialize_json(value: Any) -> bytes:
    """Return the JSON text of a value that `parse_json` returned, without spaces.  Lone surrogates become question marks."""
    import orjson

    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, or deep nesting
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise AmbiguousJson("has a duplicate key")
    return members


def _parse_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise AmbiguousJson("has a number that is too large")
    return value


def _reject_constant(name: str) -> float:
    raise AmbiguousJson(f"has {name}, which is not JSON")


_DECODER = JSONDecoder(object_pairs_hook=_build_object, parse_float=_parse_float, parse_constant=_reject_constant)
