"""A place is where the author will look: the deepest part of a path that is written down."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.parsing.document import (
    format_key_path,
    locate_offset,
    pack_position,
    parse_key_path,
    printable,
    printable_path,
    unpack_position,
)
from config.parsing.parser import parse
from tests.support.examples import examples

YAML = b"""a: 1
policy:
  - from: x
    to:
      - y
  - {from: z, redirect: {strip_query: true}}
"""
JSON = b"""{"a": 1,
"policy": [
  {"from": "x",
    "to": [
      "y"]},
  {"from": "z", "redirect": {"strip_query": true}}]}
"""
TOML = b"""a = 1 # a comment = with an equals sign
text = '''
b = 2
[c]
'''
[[policy]]
from = "x"
to = [
  "y",
]
[[policy]]
from = "z"
redirect = {strip_query = true, "quoted key" = [[1], [2]]}
[policy.inner]
deep.deeper = 1
"""


@pytest.mark.parametrize(
    ("content", "extension", "path", "place"),
    [
        (YAML, ".yaml", ("a",), (1, 1)),
        (YAML, ".yaml", ("policy", 0, "to", 0), (5, 9)),
        (YAML, ".yaml", ("policy", 0, "missing"), (3, 5)),
        (YAML, ".yaml", ("policy", 1, "redirect", "strip_query"), (6, 26)),
        (YAML, ".yaml", ("missing",), None),
        (YAML, ".yaml", ("policy", 7), (2, 1)),
        (YAML, ".yaml", (), None),
        (JSON, ".json", ("a",), (1, 2)),
        (JSON, ".json", ("policy", 0, "to", 0), (5, 7)),
        (JSON, ".json", ("policy", 0, "missing"), (3, 3)),
        (JSON, ".json", ("policy", 1, "redirect", "strip_query"), (6, 30)),
        (JSON, ".json", ("missing",), None),
        (TOML, ".toml", ("a",), (1, 1)),
        (TOML, ".toml", ("b",), None),
        (TOML, ".toml", ("policy", 0, "from"), (7, 1)),
        (TOML, ".toml", ("policy", 0, "to", 0), (9, 3)),
        (TOML, ".toml", ("policy", 0, "missing"), (6, 1)),
        (TOML, ".toml", ("policy", 1, "redirect", "strip_query"), (13, 13)),
        (TOML, ".toml", ("policy", 1, "redirect", "quoted key", 1, 0), (13, 55)),
        (TOML, ".toml", ("policy", 1, "inner", "deep", "deeper"), (15, 1)),
        (TOML, ".toml", ("missing",), None),
        (b"# c\n\n  a.b = 1\nc: \\\n  2\n", ".properties", ("a", "b"), (3, 3)),
        (b"a=1\n! c\nc: \\\n  2\n", ".properties", ("c",), (3, 1)),
    ],
)
def test_path_leads_to_its_innermost_known_part(content: bytes, extension: str, path: tuple[str | int, ...], place: Any) -> None:
    assert parse(content, extension).find_location(path) == place


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


def paths(value: Any, so_far: tuple[str | int, ...] = ()) -> Any:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for part, child in children:
        yield (*so_far, part)
        yield from paths(child, (*so_far, part))


@given(VALUES, st.sampled_from([None, 1]))
@examples(40)
def test_every_key_of_any_json_is_found_where_it_is_written(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    document = parse(text.encode(), ".json")
    lines = text.split("\n")
    for path in paths(value):
        line, column = document.find_location(path) or (0, 0)
        written = lines[line - 1][column - 1 :]
        assert written.startswith(json.dumps(path[-1])) or isinstance(path[-1], int)


def test_a_position_is_line_and_column() -> None:
    assert unpack_position(pack_position(7, 3)) == (7, 3)
    assert unpack_position(pack_position(7, 10**9))[0] == 7
    assert [locate_offset("ab\ncd", offset) for offset in (0, 1, 3, 4)] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_key_paths_are_read_back() -> None:
    path = ("policy", 3, "redirect", "port")
    assert format_key_path(path) == "policy[3].redirect.port"
    assert parse_key_path(format_key_path(path)) == path
    assert parse_key_path("policy_tests_file[0]") == ("policy_tests_file", 0)


def test_displayed_value_moves_no_cursor(tmp_path: Any) -> None:
    assert format_key_path(["a\x1b[31m"]) == "'a\\x1b[31m'"
    assert len(printable("x" * 500)) == 80
    assert printable_path(tmp_path / "a\nb").isprintable()
