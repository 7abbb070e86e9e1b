"""Items of a list in a YAML text, told apart without its parser, so that those which are known need not be read again.

Only where the text's shape leaves no doubt.  Everywhere else the answer is None, and the parser of the whole text decides.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

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

    @property
    def line_of_key(self) -> int:
        return 1 + self.before.count("\n")

    @property
    def line_of_items(self) -> int:
        return self.line_of_key + self.line.count("\n")

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


class ItemTexts(Sequence[Mapping[str, int]]):
    """Items of a list by the lines of their keys, which are found when they are asked for; `texts` are what is written of each."""

    def __init__(self, texts: tuple[str, ...] = (), line: int = 1):
        self.texts, self._line = texts, line
        self._begins: list[int] = []  # line of each, once one is asked for

    def __len__(self) -> int:
        return len(self.texts)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, int]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, int]]: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, int] | Sequence[Mapping[str, int]]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        self._begins = self._begins or list(itertools.accumulate((each.count("\n") for each in self.texts), initial=self._line))
        text, begins = self.texts[index], self._begins[index % len(self)]
        document = read_yaml(text, above=1)
        (item,) = document.value
        lines = document.lines_of(item, (0,)) if isinstance(item, dict) else {}
        return {key: begins + line - 1 for key, line in lines.items()}


def item_texts(text: str, key: str, document: Document) -> ItemTexts:
    """Texts of the items of a list in a document that was read as a whole; none where one could be anything else by itself."""
    value = document.value
    found = ListText.of(text, key) if document.is_plain and not document.problems and isinstance(value, dict) else None
    keys = document.positions.get(id(value))
    if found is None or not isinstance(keys, dict):
        return ItemTexts()
    expected, line = [packed(found.line_of_key, 1)], found.line_of_items
    for item in found.items:
        expected.append(packed(line, found.indent + len("- ") + 1))
        line += item.count("\n")
    # What is open in a line goes on in the next, wherever that begins: but not where the parser has seen what follows begin.
    is_over = not found.after or packed(line, 1) in keys.values()
    seen = [keys.get(key), *document.positions.get(id(value.get(key)), ())]
    return ItemTexts(found.items, found.line_of_items) if is_over and seen == expected else ItemTexts()


def read_unknown_items(text: str, key: str, is_known: Callable[[str], bool]) -> tuple[Document, ItemTexts] | None:
    """Document of a text, with None for each item of the list whose text `is_known`, and with places for its own keys alone; and its items.

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
        before, first = _settings(found.before + found.line, _DOCUMENT, 1)
        last_line = found.line_of_items + sum(item.count("\n") for item in found.items)
        after, last = _settings(found.after, _MAP, last_line) if found.after else ({}, {})
        values: Mapping[str, Any] = {item: _item(item) for item in unknown}
    except DocumentError:
        return None
    if before.pop(key, key) is not None or key in after or before.keys() & after.keys():
        return None
    document = Document({**before, key: [values.get(item) for item in found.items], **after})
    document.positions[id(document.value)] = {**first, **last}
    return document, ItemTexts(found.items, found.line_of_items)


def _settings(text: str, shape: re.Pattern[str], line: int) -> tuple[dict[str, Any], dict[Any, int]]:
    """Settings, and their places in the whole, in which they begin in this line."""
    document = _by_itself(text, 0) if shape.match(text) else Document()
    places = document.positions.get(id(document.value))
    if not isinstance(document.value, dict) or not isinstance(places, dict):
        raise DocumentError("is no map by itself")
    return document.value, {key: position + packed(line - 1, 0) for key, position in places.items()}


def _item(text: str) -> Any:
    value = _by_itself(text, 1).value
    if not isinstance(value, list) or len(value) != 1:
        raise DocumentError("is no item by itself")
    return value[0]


def _by_itself(text: str, above: int) -> Document:
    document = read_yaml(text, above=above)
    if document.problems or not document.is_plain:
        raise DocumentError("means something in what is around it")
    return document


def _is_bounded(text: str) -> bool:
    """Whether the whole would surely be read: each value has one of these signs, and a key and its value have one together."""
    pairs = sum(map(text.count, (":", "?", ",", "{")))
    values = 1 + 2 * pairs + sum(map(text.count, ("[", "- ", "-\n"))) + text.endswith("-")
    return max(values, text.count("\n") + text.count(",")) <= MOST_VALUES
