"""Items of a list that are read by themselves mean what they mean in the whole text, or nothing is read by itself."""

import marshal
import random
from contextlib import suppress
from typing import Any

import pytest

from config.documents import list_items
from config.documents.document import DEEPEST, DocumentError
from config.documents.list_items import item_texts, read_unknown_items
from config.documents.yaml_reader import read_yaml

ROUTES = """\
name: x
policy:  # of all
  # of the first
  - from: a
    to: [b, c]
  # of the second
  - from: d
    note: |
      - from: no item

      more
  - {from: e,
     to: f}

after: 1
"""
# What lists, and what is around them, are made of: whole pieces of text at every indentation that a list may have.
PIECES = (
    *(
        "- from: a\n",
        "- a\n",
        "-\n",
        "- \n",
        "- - a\n  - b\n",
        "-   from: far\n    to: b\n",
        "- # nothing\n",
        "-\n  from: below\n",
        "- a: 1\n",
    ),
    *(
        "- |\n  text\n",
        "- >-\n   folded\n\n  \n",
        "- |+\n  kept\n\n\n",
        "- |2\n    two\n",
        "- 'single\n  line'\n",
        '- "double\\\n  line"\n',
    ),
    *(
        "- {a: 1, b: [x, 'y']}\n",
        "- {a: 1,\n   b: 2}\n",
        "- [a,\n- b]\n",
        "- from: a\n  from: b\n",
        "- <<: {a: 1}\n  b: 2\n",
        "- plain\n  goes on\n",
    ),
    *(
        "- &x a\n",
        "- *x\n",
        "- a: &x {b: 1}\n",
        "- <<: *x\n",
        "- !!str 5\n",
        "- !own a\n",
        "- ? a\n  : b\n",
        "- ? a\n",
        "- a: # none\n",
        "- a:\n  - b\n",
    ),
    *(
        "- a: 007\n",
        "- a: yes\n",
        "- a: true\n",
        "- a: 1\n",
        "- a: 1.0\n",
        "- a: null\n",
        "- a: ~\n",
        "- 'it''s'\n",
        '- "\\u2028"\n',
        "- 5: a\n",
    ),
    *(
        "# a comment\n",
        "    # deep\n",
        "\n",
        "   \n",
        "---\n",
        "--- \n",
        "...\n",
        "%YAML 1.1\n",
        "%TAG ! tag:x,2000:\n",
        "{\n",
        "]\n",
        "'\n",
        '"\n',
    ),
    *(
        "other: 1\n",
        "other:\n- a\n",
        "other:\n  - a\n",
        "'quoted': 1\n",
        "policy:\n",
        "policy: # again\n",
        '"policy": 1\n',
        "policy: []\n",
        "? policy\n",
    ),
    *(
        "other: |\n  policy:\n  - a\n",
        "other: 'a\npolicy:\n  - b'\n",
        "other: {\npolicy:\n  - b\n}\n",
        "other: &x 1\n",
        "other: *x\n",
        "a\n",
        "{a: 1}\n",
    ),
    *(
        "- ü\n",
        "- a\u2028b\n",
        "- a\x85b\n",
        "- \ufeffa\n",
        "- a\tb\n",
        "\t- a\n",
        "- a\r\n",
        "- a\r",
        "- \x07\n",
        "- 🐘\n",
        "- a: b: c\n",
        "- a: |x\n",
    ),
)
SIGNS = "-:#'\"|>&*!%{}[],?\n\n   ab1~<\t\r\u2028é"


GOOD = tuple(piece for piece in PIECES if piece.startswith("- ") and "policy" not in piece)


def random_text(chance: random.Random) -> str:
    """Text that is mostly good: a list of a few items under `policy`, indented alike."""
    indent = " " * chance.choice((0, 0, 1, 2, 2, 2, 4))
    before = "".join(
        chance.choices(("a: 1\n", "b: 'x'\n", "# c\n", "\n", "---\n", "c:\n  - a\n", "d: |+\n  e\n\n"), (6, 6, 3, 1, 1, 2, 2), k=2)
    )
    items = [
        indented(chance.choice(GOOD) if chance.random() < 0.3 else f"- from: {number}\n", indent)
        for number in range(chance.randrange(3, 9))
    ]
    after = "".join(chance.choices(("", "z: 1\n", "y:\n  - a\n", "x: |\n  - b\n"), (9, 6, 2, 2), k=1))
    return before + "policy:\n" + "".join(items) + after


def indented(piece: str, indent: str) -> str:
    return "".join(f"{indent}{line}" if line.strip() else line for line in piece.splitlines(keepends=True))


def edited(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines) + 1)
    kind = chance.randrange(8)
    if kind < 3:
        piece = indented(chance.choice(PIECES), " " * chance.choice((0, 1, 2, 2, 2, 4, 6)))
        return "".join([*lines[:place], piece, *lines[place + (kind == 2) :]])
    if kind == 3:
        return "".join([*lines[:place], *lines[place + 1 :]])
    if kind == 4 and lines:
        return "".join([*lines[:place], chance.choice(lines), *lines[place:]])
    at, count = chance.randrange(len(text) + 1), chance.choice((0, 0, 1, 1, 2))
    return text[:at] + chance.choice(SIGNS) * chance.choice((1, 1, 1, 2, 0)) + text[at + count :]


class Reader:
    """Reader that knows the items of the texts it has read, as one of a running gate does."""

    def __init__(self) -> None:
        self.known: dict[str, Any] = {}
        self.quick = 0

    def read(self, text: str) -> Any:
        """Value as by items, or else as a whole; DocumentError."""
        found = read_unknown_items(text, "policy", self.known.__contains__)
        if found is not None:
            self.quick += 1
            value, texts = found[0].value, found[1].texts
            items = [self.known.get(text, item) for text, item in zip(texts, value["policy"], strict=True)]
            self.known = dict(zip(texts, items, strict=True))
            return {**value, "policy": items}
        document = read_yaml(text)
        texts = item_texts(text, "policy", document).texts
        self.known = dict(zip(texts, document.value["policy"], strict=True)) if texts else {}
        return "twice" if document.problems else document.value


def told(read: Any, text: str) -> object:
    try:
        return marshal.dumps(read(text), 0)  # in which 1 is not true, nor 1.0
    except DocumentError as error:
        return str(error)


def whole(text: str) -> Any:
    document = read_yaml(text)
    return "twice" if document.problems else document.value


def quick_ones(texts: int, seed: int) -> int:
    """How many of so many texts, made of one another, were read by items; each means what the whole means."""
    chance, quick = random.Random(seed), 0
    for _ in range(texts // 10):
        text = good = random_text(chance)
        reader = Reader()
        for _ in range(10):
            assert told(reader.read, text) == told(whole, text), text
            good = text if isinstance(told(whole, text), bytes) else good
            text = edited(good, chance) if chance.random() < 0.7 else edited(edited(good, chance), chance)
        quick += reader.quick
    return quick


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_edited_means_what_the_whole_means(seed: int) -> None:
    assert quick_ones(1500, seed) > 100


def test_only_what_is_new_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader()
    before = reader.read(ROUTES)
    read: list[str] = []
    monkeypatch.setattr(list_items, "read_yaml", lambda text, **given: (read.append(text), read_yaml(text, **given))[1])
    after = reader.read(ROUTES.replace("to: [b, c]", "to: g"))
    assert read == ["name: x\npolicy:  # of all\n  # of the first\n", "after: 1\n", "  - from: a\n    to: g\n  # of the second\n"]
    assert after == {**before, "policy": [{"from": "a", "to": "g"}, *before["policy"][1:]]}


@pytest.mark.parametrize("last", ["- [a,\n--b]\n", "- [a,\n  - b]\n", "- from: a\n  from: a\n", "- &x a\n", "- 'a\nb: c'\n", "-  far\n"])
def test_what_is_open_wrong_or_named_elsewhere_is_not_known(last: str) -> None:
    for indent in ("", "  "):
        text = f"policy:\n{indent}- a\n{indent}{last}"
        with suppress(DocumentError):
            assert not item_texts(text, "policy", read_yaml(text))


@pytest.mark.parametrize(
    "edit",
    [
        ("  - from: a\n", "  - from: &x a\n"),
        ("  - from: a\n", "  - from: *x\n"),
        ("  - from: a\n", "  - from: a\n    from: b\n"),
        ("  - from: a\n", "  -\tfrom: a\n"),
        ("  - from: a\n", "  - from: a\r\n"),
        ("  - from: a\n", "  - from: 'a\n  - from: b'\n"),
        ("  - from: a\n", "  - from: a\n  -\n    from: b\n"),
        ("name: x\n", "after: x\n"),
        ("name: x\n", "name: x\nname: y\n"),
        ("name: x\n", "{name: x}\n"),
        ("name: x\n", "name: x\n...\n"),
        ("name: x\n", " name: x\n"),
        ("name: x\n", "%YAML 1.1\n---\nname: x\n"),
        ("after: 1\n", "policy: 1\n"),
        ("after: 1\n", "---\nafter: 1\n"),
        ("after: 1\n", "after: 1\n...\n"),
        ("after: 1\n", "- after\n"),
        ("after: 1\n", "after: 1\u20281\n"),
        ("after: 1\n", "after: \x07\n"),
        ("policy:  # of all\n", "policy: [\n"),
        ("policy:  # of all\n", "policy: &x\n"),
        ("policy:  # of all\n", "policy:# of all\n"),
        ("policy:  # of all\n", "policies:\n"),
    ],
)
def test_where_there_is_a_doubt_nothing_is_read_by_itself(edit: tuple[str, str]) -> None:
    text = ROUTES.replace(*edit)
    assert text != ROUTES
    known = item_texts(ROUTES, "policy", read_yaml(ROUTES)).texts
    assert len(known) == 3
    assert read_unknown_items(text, "policy", set(known).__contains__) is None


@pytest.mark.parametrize(
    "edit", [("name: x\n", ""), ("name: x\n", "# c\n---\n\nname: x\n"), ("\nafter: 1\n", ""), ("after: 1\n", "'after': |+\n  a\n\n")]
)
def test_what_is_around_the_list_may_be_anything_that_is_whole(edit: tuple[str, str]) -> None:
    text, known = ROUTES.replace(*edit), item_texts(ROUTES, "policy", read_yaml(ROUTES)).texts
    found = read_unknown_items(text, "policy", set(known[:2]).__contains__)
    assert found is not None
    assert found[0].value == {**read_yaml(text).value, "policy": [None, None, {"from": "e", "to": "f"}]}


def test_a_text_that_may_hold_too_many_values_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    known = item_texts(ROUTES, "policy", read_yaml(ROUTES)).texts
    monkeypatch.setattr(list_items, "MOST_VALUES", 20)
    assert read_unknown_items(ROUTES, "policy", set(known).__contains__) is None


def test_an_item_is_as_deep_as_it_is_in_the_whole() -> None:
    for depth in (DEEPEST - 2, DEEPEST - 1):
        text = ROUTES.replace("to: [b, c]", "to: " + "[" * (depth - 1) + "]" * (depth - 1))
        reader = Reader()
        reader.read(ROUTES)
        assert told(reader.read, text) == told(whole, text)


def test_mostly_new_items_are_read_as_a_whole() -> None:
    known = item_texts(ROUTES, "policy", read_yaml(ROUTES)).texts
    assert read_unknown_items(ROUTES, "policy", {known[0]}.__contains__) is None
