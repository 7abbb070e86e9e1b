"""Parser of configuration files: YAML, JSON, TOML or properties, by file extension. Returns plain values with their positions."""

import codecs
import json
import re
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from config.parsing.document import MAX_DEPTH, MAX_DUPLICATES, MAX_VALUES, Document, DocumentError, locate_offset
from config.parsing.key_positions import locate_json, locate_toml
from config.parsing.properties import read_properties
from config.parsing.yaml_reader import read_yaml

_TOML_LOCATION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TOML_TOKEN = re.compile(r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[{}\[\],=.\n]', re.DOTALL)
MAX_SLOW_FORMAT_LENGTH = 4_000_000  # characters, for formats without a parser in C; ten thousand routes have 2.5 million
MAX_TOML_TOKENS = 250_000  # for its slow parser; ten thousand routes have 140,000
_BOMS = ((codecs.BOM_UTF32_LE, "UTF-32"), (codecs.BOM_UTF32_BE, "UTF-32"), (codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"))


def parse(content: bytes, extension: str, *, with_tags: bool = False) -> Document:
    """Parse the bytes in the format of `extension`, which includes the dot.

    `with_tags` accepts YAML tags (see `read_yaml`). Raises DocumentError.
    """
    reader = _READERS.get(extension.lower())
    if reader is None:
        raise DocumentError("has an unsupported file extension. Use .yaml, .yml, .json, .toml or .properties")
    text = decode_utf8(content)
    if reader in (_read_toml, read_properties) and len(text) > MAX_SLOW_FORMAT_LENGTH:
        raise DocumentError(f"is longer than {MAX_SLOW_FORMAT_LENGTH} characters. Write it as YAML or JSON")
    return read_yaml(text, with_tags=True) if with_tags and reader is read_yaml else reader(text)


def decode_utf8(content: bytes) -> str:
    """Decode UTF-8 text. Raises DocumentError for other encodings."""
    for bom, encoding in _BOMS:
        if content.startswith(bom):
            raise DocumentError(f"is encoded in {encoding}. Save it in UTF-8", 1, 1)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError("is not valid UTF-8", content.count(b"\n", 0, error.start) + 1) from None


def _read_json(text: str) -> Document:
    duplicate_counts: list[int] = []

    def build_map(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            duplicate_counts.append(len(pairs) - len(found))
        return found

    # More separators than a valid document has. Checked before each of them becomes an object.
    if text.count(",") + text.count("[") + text.count("{") > 2 * MAX_VALUES:
        raise DocumentError(f"has more than {MAX_VALUES} values")
    try:
        value = json.loads(text, object_pairs_hook=build_map, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise DocumentError(f"is not valid JSON: {error.msg}", error.lineno, error.colno) from None
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"is not valid JSON: {error}") from None
    locate = cache(lambda: locate_json(text))
    document = Document(_bounded(value), locate=lambda: locate().positions)
    if sum(duplicate_counts) > MAX_DUPLICATES:
        raise DocumentError(f"has more than {MAX_DUPLICATES} duplicate keys")
    if duplicate_counts:
        for path, position in locate().duplicates:
            document.add_duplicate(path, position, locate().positions[path])
    return document


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _read_toml(text: str) -> Document:
    _bound_toml(text)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise DocumentError("is not valid TOML: it is nested too deeply") from None
    except ValueError as error:
        message = str(error)
        found = _TOML_LOCATION.search(message)
        place = (int(found[1]), int(found[2])) if found and found[1] else locate_offset(text, len(text)) if found else ()
        raise DocumentError(f"is not valid TOML: {_TOML_LOCATION.sub('', message)}", *place) from None
    return Document(_bounded(value), locate=lambda: locate_toml(text).positions)


def _bound_toml(text: str) -> None:
    """Reject a text that would take too long to parse.

    The TOML parser takes microseconds per token, and for each dot of a name time in proportion to the dots before it.
    """
    cost = dots = 0
    for found in _TOML_TOKEN.finditer(text):
        lexeme = found[0]
        dots = dots + 1 if lexeme == "." else 0 if len(lexeme) == 1 else dots
        if dots >= MAX_DEPTH:
            raise DocumentError(f"is nested deeper than {MAX_DEPTH} levels", *locate_offset(text, found.start()))
        cost += dots if lexeme == "." else lexeme in "=,["
        if cost > MAX_TOML_TOKENS:
            raise DocumentError("is too large for TOML. Write it as YAML or JSON", *locate_offset(text, found.start()))


def _bounded(value: Any) -> Any:
    level, depth, count = [value], 0, 0
    while level:
        if (count := count + len(level)) > MAX_VALUES:
            raise DocumentError(f"has more than {MAX_VALUES} values")
        if (depth := depth + 1) > MAX_DEPTH:
            raise DocumentError(f"is nested deeper than {MAX_DEPTH} levels")
        level = [child for parent in level for child in _children(parent)]
    return value


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


_READERS: dict[str, Callable[[str], Document]] = {
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".json": _read_json,
    ".toml": _read_toml,
    **dict.fromkeys((".properties", ".props", ".prop"), read_properties),
}
