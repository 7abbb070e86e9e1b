"""Parsed configuration document: its value, and the line and column of each key."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from foundation.errors import Problem

KeyPath = tuple[str | int, ...]

MAX_DEPTH = 64  # levels of nesting, in any format
MAX_VALUES = 500_000  # in any format: the values of 25,000 routes, which take two seconds to parse
MAX_DUPLICATES = 1_000  # keys, in any format

# A position packs line and column into one integer: a large document has hundreds of thousands.
COLUMN_BITS = 20
LAST_COLUMN = (1 << COLUMN_BITS) - 1
_KEY_PART = re.compile(r"\[(\d+)\]|\.?([^.\[\]]+)")


def pack_position(line: int, column: int) -> int:
    """Pack line and column, both counted from 1."""
    return line << COLUMN_BITS | (column if column < LAST_COLUMN else LAST_COLUMN)


def unpack_position(position: int) -> tuple[int, int]:
    return position >> COLUMN_BITS, position & LAST_COLUMN


def locate_offset(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of the character at `offset`."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class DocumentError(Exception):
    """The bytes are not valid in their format. `line` and `column` count from 1. The message never quotes the document."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None):
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass
class Document:
    """Parsed document. `problems` are duplicate keys, which do not stop parsing.

    `positions` has the positions by container and key. If the parser reports none, `locate` finds them on first use.
    """

    value: Any = None
    positions: dict[int, dict[Any, int] | list[int]] = field(default_factory=dict)  # id of the container -> key or index -> position
    problems: list[Problem] = field(default_factory=list)
    locate: Callable[[], Mapping[KeyPath, int]] | None = None
    _located: Mapping[KeyPath, int] | None = None

    def add_duplicate(self, path: Iterable[str | int], position: int, first: int | None = None) -> None:
        """Record a duplicate key. Raises DocumentError if there are too many."""
        line, column = unpack_position(position)
        if len(self.problems) == MAX_DUPLICATES:
            raise DocumentError(f"has more than {MAX_DUPLICATES} duplicate keys", line, column)
        where = "" if first is None else f", first in line {unpack_position(first)[0]}"
        self.problems.append(Problem(format_key_path(path), f"is a duplicate key{where}. Remove one of them", line, column))

    def find_location(self, path: Iterable[str | int]) -> tuple[int, int] | None:
        """Return line and column of the deepest part of `path` that is in the document."""
        key_path = tuple(path)
        if self.locate is not None and self._located is None:
            self._located = self.locate()
        position = self._by_container(key_path) if self._located is None else _find_position(self._located, key_path)
        return None if position is None else unpack_position(position)

    def key_lines(self, container: dict[str, Any], path: KeyPath) -> dict[str, int]:
        """Return the lines of the keys of a map of the document, which is at `path`.

        This is fast for thousands of maps if the parser reported positions.
        """
        known = self.positions.get(id(container))
        if isinstance(known, dict):
            return {key: position >> COLUMN_BITS for key, position in known.items()}
        locations = ((key, self.find_location((*path, key))) for key in container)
        return {key: location[0] for key, location in locations if location is not None}

    def _by_container(self, path: KeyPath) -> int | None:
        value, found = self.value, None
        for part in path:
            known = self.positions.get(id(value)) if isinstance(value, dict | list) else None
            position = known.get(part) if isinstance(known, dict) else _element(known or [], part)
            if position is None:
                return found
            value, found = value[part], position
        return found


def _element(positions: list[int], index: str | int) -> int | None:
    return positions[index] if isinstance(index, int) and index < len(positions) else None


def _find_position(located: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    for length in range(len(path), 0, -1):
        if (position := located.get(path[:length])) is not None:
            return position
    return None


def format_key_path(path: Iterable[str | int]) -> str:
    """Return the key path as `policy[3].from`, with unprintable characters escaped."""
    text = ""
    for part in path:
        name = f"[{part}]" if isinstance(part, int) else printable(part)
        text += name if isinstance(part, int) or not text else f".{name}"
    return text


def parse_key_path(key: str) -> KeyPath:
    """Parse what `format_key_path` returns, for keys without dots and brackets in their names."""
    return tuple(int(index) if index else name for index, name in _KEY_PART.findall(key))


def printable(text: str) -> str:
    """Return the text on one line, shortened, and without terminal control characters."""
    return text[:80] if text[:80].isprintable() else ascii(text[:80])


def printable_path(path: Path) -> str:
    """Return the full path on one line."""
    return str(path) if str(path).isprintable() else ascii(str(path))
