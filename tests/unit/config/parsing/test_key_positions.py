"""Any TOML that its parser accepts can be searched for places."""

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from config.parsing.key_positions import locate_json, locate_toml
from tests.support.examples import examples

PIECES = st.sampled_from(
    [
        "a = 1\n",
        "[t]\n",
        "[[l]]\n",
        '"q k" = """x\n=[\n"""\n',
        "b.c = 1.5\n",
        "d = [1, [2, {x = 3}], ]\n",
        "# c = [\n",
        "e = 1979-05-27\n",
        "\n",
        "f = {a.b = 1, 'c' = \"]\"}\n",
        "g = '''\n]\n'''\n",
        "[t.'u v']\n",
        "[l.m]\n",
        "h = [ # comment ]\n 1,\n]\n",
    ]
)


@given(st.lists(PIECES, max_size=8).map("".join))
@example('a = """x\\""" # not the end\n"""\nb = 1\n')
@example("a = ''''quoted''''\nb = 1\n")
@examples(60)
def test_every_top_level_key_has_the_line_on_which_it_stands(text: str) -> None:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    positions = locate_toml(text).positions
    lines = text.split("\n")
    for key in value:
        line = lines[(positions[(key,)] >> 20) - 1]
        assert key in line


@pytest.mark.parametrize("text", ['{"a": [1, {"a": 2}, []], "b": {}}', "[]", "5", '"x"'])
def test_keys_on_different_levels_are_not_confused(text: str) -> None:
    located = locate_json(text)
    assert located.duplicates == []
    assert all(position >> 20 == 1 for position in located.positions.values())
