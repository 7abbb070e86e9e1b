"""Parser of YAML that returns plain values with their positions.

It builds the values from parser events, because composing recurses in C, which crashes the process on deep nesting, and hides duplicate
keys. A plain scalar is a number or a boolean only if YAML 1.1 and 1.2 agree: `no`, `12:30` and `1e5` are text.
"""

import re
from functools import lru_cache
from typing import Any

import yaml

from config.parsing.document import (
    COLUMN_BITS,
    LAST_COLUMN,
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    DocumentError,
    locate_offset,
    pack_position,
    unpack_position,
)

MAX_ALIASED_VALUES = 1_000_000
_INTEGER = re.compile(r"[-+]?[0-9]{1,18}")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_FLOAT = re.compile(r"(?:\.[0-9]+|[-+]?[0-9]+\.[0-9]*)(?:[eE][-+][0-9]{1,3})?")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_IMPLICIT_NON_STRING = frozenset("~nNtTfF+-.0123456789")  # first characters of all plain scalars that are not text
_TAGS = {"tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq", "!", None}
_FORBIDDEN_CHARACTERS = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

# libyaml's message -> advice.
_ADVICE = {
    "found character that cannot start any token": (
        "a value can't start with this character. Indent with spaces instead of tabs, and quote other characters"
    ),
    "did not find expected '-' indicator": "this line is not indented like the rest of its list",
    "did not find expected key": "this line is not indented like the lines before it",
    "mapping values are not allowed in this context": "unexpected colon. Check the indentation, or quote the value",
    "found unexpected end of stream": "unclosed quotation mark or bracket",
    "did not find expected alphabetic or numeric character": "a value that starts with * or & must be in quotes",
}


def read_yaml(text: str, *, with_tags: bool = False) -> Document:
    """Parse a YAML text. Raises DocumentError.

    A tagged value is an error, or with `with_tags` a map of the tag to the value.
    """
    if found := _FORBIDDEN_CHARACTERS.search(text):
        raise DocumentError("is not valid YAML: it contains a character that YAML does not allow", *locate_offset(text, found.start()))
    _bound(text)
    builder = _Builder(with_tags)
    try:
        builder.read(yaml.CSafeLoader(text))
    except yaml.MarkedYAMLError as error:
        # Use only the problem: the full message of the Python parser quotes the line, which may contain a secret.
        mark = error.problem_mark
        place = (mark.line + 1, mark.column + 1) if mark else ()
        problem = str(error.problem or error.context)
        raise DocumentError(f"is not valid YAML: {_ADVICE.get(problem, problem)}", *place) from None
    except yaml.YAMLError:
        raise DocumentError("is not valid YAML") from None
    return builder.document


def _bound(text: str) -> None:
    """Reject a text with more indicators than a valid document has, before the parser takes two seconds per million values."""
    pairs, elements = text.count(": ") + text.count(":\n"), text.count("\n") + text.count(",")
    if max(2 * pairs, elements, text.count("[") + text.count("{")) > MAX_VALUES:
        raise DocumentError(f"has more than {MAX_VALUES} values and lines")


class _Merge:
    """The plain key `<<`."""


class _Open:
    """A mapping or sequence that is being read. `size` counts its values; those of an alias count each time."""

    __slots__ = ("anchor", "container", "has_key", "is_list", "key", "merged", "position", "positions", "size", "tag")

    def __init__(self, *, is_list: bool, position: int, anchor: str | None, tag: str | None):
        self.container: Any = [] if is_list else {}
        self.positions: Any = [] if is_list else {}
        self.is_list, self.position, self.anchor, self.tag = is_list, position, anchor, tag
        self.key: Any = None
        self.has_key = False
        self.size = 1
        self.merged: list[dict[str, Any]] = []


class _Builder:
    def __init__(self, with_tags: bool) -> None:
        self.document = Document()
        self._with_tags = with_tags
        self._open: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0
        self._aliased = 0
        self._documents = 0

    def read(self, loader: Any) -> None:
        """Read all events. Each handler runs once per value, of which there may be hundreds of thousands; two thirds are scalars."""
        next_event, scalar = loader.get_event, self._read_scalar
        # Not stored in `self`: a reference cycle would keep the document alive (gateproject/process/gc_tuning.py).
        handlers = {
            yaml.MappingStartEvent: self._start_collection,
            yaml.SequenceStartEvent: self._start_collection,
            yaml.MappingEndEvent: self._end_collection,
            yaml.SequenceEndEvent: self._end_collection,
            yaml.AliasEvent: self._read_alias,
            yaml.DocumentStartEvent: self._start_document,
        }
        while (event := next_event()) is not None:
            mark = event.start_mark
            line, column = mark.line + 1, mark.column + 1
            position = line << COLUMN_BITS | column if column < LAST_COLUMN else pack_position(line, column)
            if type(event) is yaml.ScalarEvent:
                scalar(event, position)
            elif handler := handlers.get(type(event)):
                handler(event, position)

    def _start_document(self, event: Any, position: int) -> None:
        self._documents += 1
        if self._documents > 1:
            raise DocumentError("contains more than one document", *unpack_position(position))

    def _read_scalar(self, event: Any, position: int) -> None:
        if event.tag is not None and event.tag not in _TAGS:
            self._add({self._tag(event, position): event.value}, 2, position, event.anchor)
            return
        value, is_plain = event.value, event.implicit[0]
        if is_plain and (not value or value[0] in _IMPLICIT_NON_STRING):
            value = _plain_value(value)
        if event.anchor or not self._open or self._values >= MAX_VALUES:
            self._add(value, 1, position, event.anchor, is_plain)
            return
        # Inlined from `_add` for plain text, which is the most frequent value.
        self._values += 1
        parent = self._open[-1]
        parent.size += 1
        if parent.is_list:
            parent.positions.append(position)
            parent.container.append(value)
        elif not parent.has_key:
            self._set_key(parent, value, position, is_plain)
        elif parent.key is _Merge or parent.key in parent.container:
            self._set_pair(parent, value, position)
        else:
            parent.has_key = False
            parent.container[parent.key] = value

    def _start_collection(self, event: Any, position: int) -> None:
        tag = None if event.tag in _TAGS else self._tag(event, position)
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(f"is nested deeper than {MAX_DEPTH} levels", *unpack_position(position))
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._open.append(_Open(is_list=type(event) is yaml.SequenceStartEvent, position=position, anchor=event.anchor, tag=tag))

    def _tag(self, event: Any, position: int) -> str:
        if not self._with_tags:
            raise DocumentError("has a tag (!...), which is not allowed here. Remove it", *unpack_position(position))
        return str(event.tag)

    def _end_collection(self, event: Any, position: int) -> None:
        done = self._open.pop()
        for mapping in done.merged:  # explicit keys override merged ones, and an earlier merge overrides a later one
            for key, value in mapping.items():
                if key not in done.container:
                    done.container[key] = value
                    done.positions[key] = done.position
        self.document.positions[id(done.container)] = done.positions
        self._add(done.container if done.tag is None else {done.tag: done.container}, done.size, done.position, done.anchor)

    def _read_alias(self, event: Any, position: int) -> None:
        if event.anchor not in self._anchors:
            raise DocumentError("has an alias (*...) without an anchor (&...) before it", *unpack_position(position))
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED_VALUES:
            raise DocumentError("has aliases that expand to too many values", *unpack_position(position))
        self._add(value, size, position)

    def _add(self, value: Any, size: int, position: int, anchor: str | None = None, is_plain: bool = False) -> None:
        self._values += 1
        if self._values > MAX_VALUES:
            raise DocumentError(f"has more than {MAX_VALUES} values", *unpack_position(position))
        if anchor:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self.document.value = value
            return
        parent = self._open[-1]
        parent.size += size
        if parent.is_list:
            parent.positions.append(position)
            parent.container.append(value)
        elif parent.has_key:
            self._set_pair(parent, value, position)
        else:
            self._set_key(parent, value, position, is_plain)

    def _set_key(self, parent: _Open, value: Any, position: int, is_plain: bool) -> None:
        if type(value) is not str:
            raise DocumentError("has a key that is not text. Put it in quotes", *unpack_position(position))
        parent.key, parent.has_key = _Merge if is_plain and value == "<<" else value, True
        if parent.key not in parent.positions:
            parent.positions[parent.key] = position

    def _set_pair(self, parent: _Open, value: Any, position: int) -> None:
        key, parent.has_key = parent.key, False
        if key is _Merge:
            mappings = value if isinstance(value, list) else [value]
            if not all(isinstance(mapping, dict) for mapping in mappings):
                raise DocumentError("has a merge key (<<) whose value is neither a map nor a list of maps", *unpack_position(position))
            parent.merged += mappings
        elif key in parent.container:
            path = [*(_place(above) for above in self._open[:-1]), key]
            self.document.add_duplicate(path, position, parent.positions[key])
        else:
            parent.container[key] = value


def _place(parent: _Open) -> str | int:
    return len(parent.container) if parent.is_list else str(parent.key)


def parse_plain_scalar(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text) and not _LEADING_ZERO.match(text):  # 007 is text, not a number
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


_plain_value = lru_cache(maxsize=1024)(
    parse_plain_scalar
)  # thousands of routes share a few keys and scalars, such as `to`, `timeout`, `true` and `30s`
