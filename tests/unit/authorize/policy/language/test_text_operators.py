"""The operators on text."""

import pytest

from authorize.policy.language.text_operators import text_matcher


@pytest.mark.parametrize(
    ("operator", "operand", "text", "holds"),
    [
        ("is", ("a",), "a", True),
        ("is", ("a",), "A", False),
        ("in", ("a", "b"), "b", True),
        ("in", ("ab",), "a", False),
        ("starts_with", ("a", "x"), "xyz", True),
        ("starts_with", ("y",), "xyz", False),
        ("ends_with", (".org",), "a.org", True),
        ("ends_with", (".org",), "a.organ", False),
        ("contains", ("b",), "abc", True),
        ("contains", ("d",), "abc", False),
        ("matches", ("a.c",), "abc", True),
        ("matches", ("b",), "abc", False),
        ("matches", ("x", "a.*"), "abc", True),
        ("matches", ("(a+)+$",), "a" * 50_000 + "!", False),
    ],
)
def test_each_operator_takes_any_of_its_alternatives(operator: str, operand: tuple[str, ...], text: str, holds: bool) -> None:
    assert text_matcher(operator, operand)(text) is holds
