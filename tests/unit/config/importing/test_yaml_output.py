"""The text is YAML that holds exactly what was converted, whatever the foreign file contained."""

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.importing.conversion import Conversion, ConvertedSection, ForeignKey
from config.importing.yaml_output import render_yaml
from tests.support.examples import examples

scalars = st.one_of(st.text(), st.integers(), st.booleans(), st.none())
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(min_size=1), inner), max_leaves=8)


@given(value=values, text=st.text())
@examples(40)
def test_values_come_back_and_notes_stay_comments(value: Any, text: str) -> None:
    converted, route = Conversion("other"), ConvertedSection()
    converted.top.set(ForeignKey("theirs"), "ours", value, check=text)
    route.mark_lost(ForeignKey(text), text)
    route.set(ForeignKey("theirs"), "from", "https://a.example.com", check=text)
    route.set(None, "deep", value)
    converted.routes.append(route)
    assert yaml.safe_load(render_yaml(converted, text)) == {"ours": value, "policy": [{"from": "https://a.example.com", "deep": value}]}


def test_a_scalar_is_written_plainly() -> None:
    converted = Conversion("other")
    converted.top.set(None, "address", ":443")
    assert "\naddress: :443\n" in render_yaml(converted, "x").replace("':443'", ":443")


def test_no_line_of_a_comment_is_very_long() -> None:
    converted = Conversion("other")
    converted.top.mark_lost(ForeignKey("key"), "word " * 200)
    assert max(map(len, render_yaml(converted, "x").splitlines())) <= 170


def test_without_routes_the_policy_is_an_empty_list() -> None:
    assert yaml.safe_load(render_yaml(Conversion("other"), "x")) == {"policy": []}
