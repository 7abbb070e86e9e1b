"""Parser of Java properties: `key = value` or `key: value`; dots in a key create nested maps. Returns plain values with positions."""

import re
from typing import Any

from config.parsing.document import MAX_DEPTH, MAX_VALUES, Document, DocumentError, pack_position

_KEY = re.compile(r"((?:\\.|[^\s:=\\])*)[ \t\f]*[:=]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|u|.|$)", re.DOTALL)
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def read_properties(text: str) -> Document:
    if text.count("\n") + text.count("\r") > MAX_VALUES:
        raise DocumentError(f"has more than {MAX_VALUES} lines")
    document = Document({})
    for line, column, content in _logical_lines(text):
        found = _KEY.match(content)
        if found is None or not found[1]:
            raise DocumentError("is not valid: expected `key = value`", line, column)
        path = _plain(found[1], line).split(".")
        if len(path) > MAX_DEPTH:
            raise DocumentError(f"is nested deeper than {MAX_DEPTH} levels", line, column)
        _put(document, path, _plain(content[found.end() :], line), pack_position(line, column))
    return document


def _logical_lines(text: str) -> list[tuple[int, int, str]]:
    """Return the lines without blanks and comments, with continuation lines joined."""
    found: list[tuple[int, int, str]] = []
    parts: list[str] = []
    begin = (0, 0)
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        stripped = line.lstrip(" \t\f")
        if not parts:
            if not stripped or stripped[0] in "#!":
                continue
            begin = (number, len(line) - len(stripped) + 1)
        if _CONTINUED.search(stripped):
            parts.append(stripped[:-1])
        else:
            found.append((*begin, "".join([*parts, stripped])))
            parts = []
    return [*found, (*begin, "".join(parts))] if parts else found


def _plain(text: str, line: int) -> str:
    def unescape(escape: re.Match[str]) -> str:
        if escape[1] == "u":
            raise DocumentError("is not valid: \\u must be followed by four hexadecimal digits", line)
        return chr(int(escape[1][1:], 16)) if escape[1].startswith("u") else _LETTERS.get(escape[1], escape[1])

    return _ESCAPE.sub(unescape, text) if "\\" in text else text


def _put(document: Document, path: list[str], value: str, position: int) -> None:
    container: dict[str, Any] = document.value
    for depth, part in enumerate(path):
        places: Any = document.positions.setdefault(id(container), {})
        is_last = depth == len(path) - 1
        present = container.get(part)
        if part in container and (is_last or not isinstance(present, dict)):
            document.add_duplicate(path[: depth + 1], position, places.get(part))
            return
        places.setdefault(part, position)
        if is_last:
            container[part] = value
        else:
            container = container.setdefault(part, {})
