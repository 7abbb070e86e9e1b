"""Properties are read as Java does, and dots lead into maps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.parsing.document import DocumentError
from config.parsing.properties import read_properties
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", {"a": "1"}),
        ("a : b = c", {"a": "b = c"}),
        ("a b", {"a": "b"}),
        ("a", {"a": ""}),
        ("# a\n! b\n\n   \n", {}),
        ("a = x\\\n    y\n", {"a": "xy"}),
        ("a = x\\\\\nb = y", {"a": "x\\", "b": "y"}),
        ("a = x\\", {"a": "x"}),
        (r"a\ b\=c = d\te\u0041", {"a b=c": "d\teA"}),
        ("headers.X-A = 1\nheaders.X-B = 2", {"headers": {"X-A": "1", "X-B": "2"}}),
        ("a = 1\r\nb = 2\rc = 3", {"a": "1", "b": "2", "c": "3"}),
    ],
)
def test_properties_are_read(text: str, value: object) -> None:
    document = read_properties(text)
    assert document.value == value
    assert document.problems == []


@given(st.text(max_size=60))
@examples(40)
def test_any_text_is_properties_or_an_error(text: str) -> None:
    try:
        document = read_properties(text)
    except DocumentError:
        return
    assert isinstance(document.value, dict)
