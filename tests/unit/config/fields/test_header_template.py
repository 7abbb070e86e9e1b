"""A template is read once, and what it does not know it names."""

import re

import pytest

from config.fields.header_template import Variable, static_value, template


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("${user}", (Variable("user"),)),
        ("App ${claim.realm.role}!", ("App ", Variable("claim.realm.role"), "!")),
        ("${user}${groups}", (Variable("user"), Variable("groups"))),
        ("a $ b", ("a $ b",)),
        ("$$", ("$",)),
        ("$${user}", ("$", "{user}")),
        ("$$${user}", ("$", Variable("user"))),
    ],
)
def test_text_and_variables_in_turn(text: str, parts: tuple[object, ...]) -> None:
    assert template(text) == parts


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("${usr}", "did you mean ${user}"),
        ("${claims.email}", "did you mean ${claim.email}"),
        ("${claim.}", "is unknown"),
        ("${}", "use claim.<name>"),
        ("${refresh_token}", "is unknown"),
        ("${user", "unterminated"),
        ("${a{b}}", "unterminated"),
    ],
)
def test_unknown_variable_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        template(text)


def test_a_literal_has_no_variables() -> None:
    assert (static_value("a $$ b"), static_value("a"), static_value("${user}")) == ("a $ b", "a", None)
