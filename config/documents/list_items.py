"""Items of a list in a YAML text, told apart without its parser, so that those which are known need not be read again.

Only where the text's shape leaves no doubt.  Everywhere else the answer is None, and the parser of the whole text decides.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from config.documents.document import MOST_VALUES, Document, DocumentError, packed
from config.documents.yaml_reader import read_yaml

# Tabs indent nothing, and the others end lines, too; the last begins a text.
_DOUBTFUL, _DOUBTFUL_BEYOND_ASCII = "\t\r", "\x85\u2028\u2029\ufeff"
_COMMENTS = r"(?: *(?:#[^\n]*)?\n)*"
# The line of the key, and the first item behind it, with as many blanks before it as before each.
_BEGINNING = rf"(?P<line>{{key}}:(?: +(?:#[^\n]*)?)?\n{_COMMENTS})(?P<indent> *)- "
# A map in block style begins with a key at the left edge; a document's perhaps behind a line of its own.
_MAP = re.compile(rf"{_COMMENTS}[A-Za-z_\"']")
_DOCUMENT = re.compile(rf"(?:{_COMMENTS}--- *\n)?{_MAP.pattern}")
_END, _END_AT_THE_EDGE = re.compile(r"\n[^ \n#]"), re.compile(r"\n(?!- )[^ \n#]")


@dataclass(frozen=True, slots=True)
class ListText:
    """Text of a document with a list under one of its keys: what is `before` its `line`, the `items`, each with whatever stands before the
    next one, and what is `after` them.
    """

    before: str
    line: str
    indent: int
    items: tuple[str, ...]
    after: str

    @classmethod
    def of(cls, text: str, key: str) -> "ListText | None":
        """None where there is no such list, or its shape leaves a doubt.  Whether the parser sees these items is still to be asked."""
        if any(sign in text for sign in _DOUBTFUL) or (not text.isascii() and any(sign in text for sign in _DOUBTFUL_BEYOND_ASCII)):
            return None
        start = 0 if text.startswith(f"{key}:") else text.find(f"\n{key}:") + 1
        found = re.compile(_BEGINNING.format(key=re.escape(key))).match(text, start)
        if found is None:
            return None
        indent, begin = found["indent"], found.start("indent")
        end = (_END if indent else _END_AT_THE_EDGE).search(text, begin)
        stop = len(text) if end is None else end.start() + 1
        *others, last = text[begin + len(indent) + 2 : stop].split(f"\n{indent}- ")
        items = (*(f"{indent}- {each}\n" for each in others), f"{indent}- {last}")
        return cls(text[:start], found["line"], len(indent), items, text[stop:])


def item_texts(text: str, key: str, document: Document) -> tuple[str, ...]:
    """Texts of the items of a list in a document that was read as a whole; none where one could be anything else by itself."""
    value = document.value
    found = ListText.of(text, key) if document.is_plain and not document.problems and isinstance(value, dict) else None
    if found is None:
        return ()
    line, keys = 1 + found.before.count("\n"), document.positions.get(id(value))
    expected, line = [packed(line, 1)], line + found.line.count("\n")
    for item in found.items:
        expected.append(packed(line, found.indent + len("- ") + 1))
        line += item.count("\n")
    if not isinstance(keys, dict):
        return ()
    # What is open in a line goes on in the next, wherever that begins: but not where the parser has seen what follows begin.
    is_over = not found.after or packed(line, 1) in keys.values()
    seen = [keys.get(key), *document.positions.get(id(value.get(key)), ())]
    return found.items if is_over and seen == expected else ()


def read_unknown_items(text: str, key: str, is_known: Callable[[str], bool]) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """Value of a text, with None for each item of the list whose text `is_known`; and the texts of the items.

    None wherever something is wrong, or doubtful, or most items are unknown.  What is before the list, each item, and what is after it is
    read by itself.  Where they can be, the whole means the same: each ends with its line, with nothing open, and what comes next begins
    further left than anything in it might go on.
    """
    found = ListText.of(text, key)
    if found is None or not _is_bounded(text):
        return None
    unknown = {item for item in found.items if not is_known(item)}
    if 2 * len(unknown) > len(found.items):
        return None
    try:
        before = _settings(found.before + found.line, _DOCUMENT)
        after = _settings(found.after, _MAP) if found.after else {}
        values: Mapping[str, Any] = {item: _item(item) for item in unknown}
    except DocumentError:
        return None
    if before.pop(key, key) is not None or key in after or before.keys() & after.keys():
        return None
    return {**before, key: [values.get(item) for item in found.items], **after}, found.items


def _settings(text: str, shape: re.Pattern[str]) -> dict[str, Any]:
    value = _by_itself(text, 0) if shape.match(text) else None
    if not isinstance(value, dict):
        raise DocumentError("is no map by itself")
    return value


def _item(text: str) -> Any:
    value = _by_itself(text, 1)
    if not isinstance(value, list) or len(value) != 1:
        raise DocumentError("is no item by itself")
    return value[0]


def _by_itself(text: str, above: int) -> Any:
    document = read_yaml(text, above=above)
    if document.problems or not document.is_plain:
        raise DocumentError("means something in what is around it")
    return document.value


def _is_bounded(text: str) -> bool:
    """Whether the whole would surely be read: each value has one of these signs, and a key and its value have one together."""
    pairs = sum(map(text.count, (":", "?", ",", "{")))
    values = 1 + 2 * pairs + sum(map(text.count, ("[", "- ", "-\n"))) + text.endswith("-")
    return max(values, text.count("\n") + text.count(",")) <= MOST_VALUES
