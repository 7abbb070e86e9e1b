"""Positions of the keys of a JSON or TOML text that its parser has accepted. Computed only to report a problem."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from config.parsing.document import KeyPath, pack_position

_TEXT = r'"(?:[^"\\]++|\\.)*+"'
_PLAIN = r'[^\s{}\[\],:"]++'
# A key with a scalar value, a bracket, or an element of a list.
_JSON_TOKEN = re.compile(rf"({_TEXT})\s*+:(?:\s*+(?:{_TEXT}|{_PLAIN}))?|[{{}}\[\]]|{_TEXT}|{_PLAIN}")
_TOML_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|\n|[{}\[\],=.]|[^\s{}\[\],=.#"\']+', re.DOTALL
)


@dataclass(slots=True)
class _Level:
    """An open array or object; `part` is the current index or key."""

    is_list: bool
    part: Any = None
    expects_key: bool = False


@dataclass
class KeyPositions:
    positions: dict[KeyPath, int] = field(default_factory=dict)
    duplicates: list[tuple[KeyPath, int]] = field(default_factory=list)

    def record(self, path: KeyPath, position: int) -> None:
        if path in self.positions:
            self.duplicates.append((path, position))
        else:
            self.positions[path] = position


def _tokenize(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], int]]:
    line, line_start, seen = 1, 0, 0
    for found in pattern.finditer(text):
        start = found.start()
        if lines := text.count("\n", seen, start):
            line, line_start = line + lines, text.rindex("\n", seen, start) + 1
        seen = start
        yield found, pack_position(line, start - line_start + 1)


def locate_json(text: str) -> KeyPositions:
    """Return the positions of the keys of a JSON text, of which there may be hundreds of thousands."""
    located = KeyPositions()
    above: list[tuple[KeyPath, int | None]] = []
    # The current state: path of the innermost container, next index in an array, path of the next value.
    base: KeyPath = ()
    index: int | None = None
    here: KeyPath = ()
    for found, position in _tokenize(_JSON_TOKEN, text):
        symbol, key = found[0], found[1]
        if key is not None:
            here = (*base, json.loads(key) if "\\" in key else key[1:-1])
            located.record(here, position)
        elif symbol in ("}", "]"):
            base, index = above.pop()
        else:
            if index is not None:
                here, index = (*base, index), index + 1
                located.record(here, position)
            if symbol in ("{", "["):
                above.append((base, index))
                base, index = here, 0 if symbol == "[" else None
    return located


def _advance(level: _Level) -> None:
    if level.is_list:
        level.part += 1
    else:
        level.expects_key = True


def locate_toml(text: str) -> KeyPositions:
    return _Toml().run(text)


class _Toml:
    """Parser of statements: a table header, or a key with its value, which may contain arrays and inline tables."""

    def __init__(self) -> None:
        self.located = KeyPositions()
        self._table: KeyPath = ()
        self._tables: dict[KeyPath, int] = {}  # array of tables -> index of its last table

    def run(self, text: str) -> KeyPositions:
        symbols = ((found[0], position) for found, position in _tokenize(_TOML_TOKEN, text) if not found[0].startswith("#"))
        for symbol, position in symbols:
            if symbol == "[":
                self._read_header(symbols, position)
            elif symbol != "\n":
                self._read_assignment(symbols, symbol, position)
        return self.located

    def _read_header(self, symbols: Iterator[tuple[str, int]], position: int) -> None:
        opened, names = 1, []
        for symbol, _ in symbols:
            if symbol == "\n":
                break
            opened += symbol == "["
            names += [_toml_key(symbol)] if symbol not in "[]." else []
        path = self._resolved(tuple(names[:-1]), position)
        if opened == 2:
            array = (*path, names[-1])
            self._tables[array] = self._tables.get(array, -1) + 1
            self.located.positions.setdefault(array, position)
            self._table = (*array, self._tables[array])
        else:
            self._table = self._resolved(tuple(names), position)
        self.located.positions.setdefault(self._table, position)

    def _resolved(self, names: KeyPath, position: int) -> KeyPath:
        """Resolve the name of an array of tables to its last table."""
        path: KeyPath = ()
        for name in names:
            path = (*path, name)
            self.located.positions.setdefault(path, position)
            if path in self._tables:
                path = (*path, self._tables[path])
        return path

    def _read_assignment(self, symbols: Iterator[tuple[str, int]], first: str, position: int) -> None:
        path = self._key(symbols, self._table, first, position)
        levels: list[_Level] = []
        bases: list[KeyPath] = [path]
        for symbol, start in symbols:
            if symbol == "\n":
                if not levels:
                    return
            elif symbol in ("]", "}"):
                levels.pop()
                bases.pop()
            elif symbol == ",":
                _advance(levels[-1])
            elif levels and levels[-1].expects_key:
                levels[-1].expects_key = False
                levels[-1].part = self._key(symbols, bases[-1], symbol, start)
            else:
                self._read_value(levels, bases, symbol, start)

    def _read_value(self, levels: list[_Level], bases: list[KeyPath], symbol: str, start: int) -> None:
        here = bases[-1]
        if levels:
            here = (*bases[-1], levels[-1].part) if levels[-1].is_list else levels[-1].part
            self.located.positions.setdefault(here, start)
        if symbol in ("[", "{"):
            is_list = symbol == "["
            levels.append(_Level(is_list, 0 if is_list else None, expects_key=not is_list))
            bases.append(here)

    def _key(self, symbols: Iterator[tuple[str, int]], base: KeyPath, first: str, position: int) -> KeyPath:
        """Return the path of a dotted key up to its `=`."""
        path: KeyPath = (*base, _toml_key(first))
        self.located.positions.setdefault(path, position)
        for symbol, _ in symbols:
            if symbol == "=":
                break
            if symbol != ".":
                path = (*path, _toml_key(symbol))
                self.located.positions.setdefault(path, position)
        return path


def _toml_key(symbol: str) -> str:
    return next(iter(tomllib.loads(f"{symbol} = 0"))) if symbol[0] in "\"'" else symbol
