"""YAML, JSON or TOML bytes -> plain values, with the line of each where that is cheap.

YAML is built from parser events by hand: composing recurses in C and ends the process on deep nesting, and hides duplicate
keys.  A plain scalar is a number or a truth only where YAML 1.1 and 1.2 agree: `no`, `12:30` and `1e5` stay text.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import yaml

from gateproject.errors import Problem

DEEPEST = 64
MOST_ALIASED_VALUES = 1_000_000
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"(?:\.[0-9]+|[-+]?[0-9]+\.[0-9]*)(?:[eE][-+][0-9]{1,3})?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!", None}


class DocumentError(Exception):
    """The bytes are no document of the format; `line` counts from 1."""

    def __init__(self, message: str, line: int | None = None):
        super().__init__(message)
        self.line = line


@dataclass
class Document:
    """`problems` are mistakes that do not stop reading: duplicate keys."""

    value: Any = None
    lines: dict[int, dict[Any, int]] = field(default_factory=dict)  # id of the container -> key or index -> line
    problems: list[Problem] = field(default_factory=list)

    def line_of(self, path: Iterable[str | int]) -> int | None:
        """The line of the deepest part of `path` that is in the document."""
        value, found = self.value, None
        for part in path:
            line = self.lines.get(id(value), {}).get(part)
            if line is None:
                return found
            value, found = value[part], line
        return found


def key_path(path: Iterable[str | int]) -> str:
    """`policy[3].from`; what can't be printed is escaped."""
    text = ""
    for part in path:
        name = f"[{part}]" if isinstance(part, int) else part[:80] if part.isprintable() else ascii(part[:80])
        text += name if isinstance(part, int) or not text else f".{name}"
    return text


def parse(content: bytes, extension: str) -> Document:
    """`extension` is `.yaml`, `.yml`, `.json` or `.toml`; raises DocumentError."""
    readers = {".yaml": _read_yaml, ".yml": _read_yaml, ".json": _read_json, ".toml": _read_toml}
    if extension.lower() not in readers:
        raise DocumentError("the name must end in .yaml, .yml, .json or .toml, which tells the format")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("is not valid UTF-8") from None
    return readers[extension.lower()](text)


def _read_json(text: str) -> Document:
    try:
        value = json.loads(text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise DocumentError(f"is not valid JSON: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"is not valid JSON: {error}") from None
    return Document(_not_too_deep(value))


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:80]!a} is there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON value")


def _read_toml(text: str) -> Document:
    try:
        return Document(_not_too_deep(tomllib.loads(text)))
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"is not valid TOML: {error}") from None


def _not_too_deep(value: Any) -> Any:
    level, depth = [value], 0
    while level:
        if (depth := depth + 1) > DEEPEST:
            raise DocumentError(f"is nested deeper than {DEEPEST} levels")
        level = [child for parent in level for child in _children(parent)]
    return value


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _read_yaml(text: str) -> Document:
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        # Only the problem: the whole message quotes the line where the Python parser made it, and the line may hold a secret.
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise DocumentError(f"is not valid YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError:
        raise DocumentError("is not valid YAML: it holds a character that YAML does not allow") from None
    return builder.document


@dataclass
class _Open:
    """A mapping or sequence that is being read; `size` counts the values in it, those behind aliases every time."""

    container: Any
    line: int
    anchor: str | None
    key: Any = None
    has_key: bool = False
    size: int = 1
    lines: dict[Any, int] = field(default_factory=dict)
    merged: list[dict[str, Any]] = field(default_factory=list)


class _Builder:
    def __init__(self) -> None:
        self.document = Document()
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliased = 0
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            self._add(_scalar(event, line), 1, line, event.anchor, is_plain=bool(event.implicit[0]))
        elif isinstance(event, yaml.CollectionStartEvent):
            self._start(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), line)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise DocumentError("holds more than one document", line)

    def _start(self, event: yaml.CollectionStartEvent, line: int) -> None:
        if event.tag not in _TAGS:
            raise DocumentError("a tag is not allowed here", line)
        if len(self._open) >= DEEPEST:
            raise DocumentError(f"is nested deeper than {DEEPEST} levels", line)
        container: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._open.append(_Open(container, line, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        for mapping in done.merged:  # what is written beside `<<` wins, and so does the earlier of two merges
            for key, value in mapping.items():
                if key not in done.container:
                    done.container[key] = value
                    done.lines[key] = done.line
        self.document.lines[id(done.container)] = done.lines
        self._add(done.container, done.size, done.line, done.anchor)

    def _alias(self, anchor: str, line: int) -> None:
        if anchor not in self._anchors:
            raise DocumentError("an alias names nothing that was finished before it", line)
        value, size = self._anchors[anchor]
        self._aliased += size
        if self._aliased > MOST_ALIASED_VALUES:
            raise DocumentError("its aliases unfold to too many values", line)
        self._add(value, size, line)

    def _add(self, value: Any, size: int, line: int, anchor: str | None = None, *, is_plain: bool = False) -> None:
        if anchor:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self.document.value = value
            return
        parent = self._open[-1]
        parent.size += size
        if isinstance(parent.container, list):
            parent.lines[len(parent.container)] = line
            parent.container.append(value)
        elif parent.has_key:
            self._pair(parent, value, line)
        else:
            parent.key, parent.has_key = _Merge if is_plain and value == "<<" else _key(value, line), True
            parent.lines.setdefault(parent.key, line)

    def _pair(self, parent: _Open, value: Any, line: int) -> None:
        key, parent.has_key = parent.key, False
        if key is _Merge:
            mappings = value if isinstance(value, list) else [value]
            if not all(isinstance(mapping, dict) for mapping in mappings):
                raise DocumentError("<< must be followed by a map, or a list of maps", line)
            parent.merged += mappings
        elif key in parent.container:
            path = [*(_place(above) for above in self._open[:-1]), key]
            self.document.problems.append(Problem(key_path(path), "is there twice in the same map", line))
        else:
            parent.container[key] = value


class _Merge:
    """The key `<<`, written plain."""


def _place(parent: _Open) -> str | int:
    return len(parent.container) if isinstance(parent.container, list) else str(parent.key)


def _key(value: Any, line: int) -> str:
    if not isinstance(value, str):
        raise DocumentError("a key must be text: put it in quotes", line)
    return value


def _scalar(event: yaml.ScalarEvent, line: int) -> Any:
    if event.tag not in _TAGS:
        raise DocumentError("a tag is not allowed here", line)
    if not event.implicit[0]:
        return event.value
    return plain_value(event.value)


def plain_value(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text):  # 007 is a name, not a number
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
