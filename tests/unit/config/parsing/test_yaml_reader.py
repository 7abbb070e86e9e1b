"""The reader's own bounds; what documents hold and refuse is in test_documents.py."""

import pytest

from config.parsing import yaml_reader
from config.parsing.document import DocumentError
from config.parsing.yaml_reader import parse_plain_scalar, read_yaml


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a: 1\nb: \x00", (2, 4)),
        ("a: 1\nb: !!binary x", (2, 4)),
        ("a:\n  - *x", (2, 5)),
        ("a: 1\n5: 1", (2, 1)),
        ("a: b: c", (1, 5)),
        ("a: 1\n---\nb: 1", (2, 1)),
        ("a: \ud800", (1, 4)),
    ],
)
def test_an_error_has_its_place(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(DocumentError) as caught:
        read_yaml(text)
    assert (caught.value.line, caught.value.column) == place


def test_a_word_that_only_begins_like_a_number_is_text() -> None:
    assert [parse_plain_scalar(text) for text in ("1.2.3.4", "-", "+1", "0x10", "nulls", "Trueish")] == [
        "1.2.3.4",
        "-",
        1,
        "0x10",
        "nulls",
        "Trueish",
    ]


def test_a_document_with_too_many_values_is_refused_when_the_first_of_them_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_VALUES", 10)
    assert read_yaml("- a\n" * 9).value == ["a"] * 9
    with pytest.raises(DocumentError, match="more than 10 values") as caught:
        read_yaml("- a\n- " + "- " * 11)
    assert (caught.value.line, caught.value.column) == (2, 7)


@pytest.mark.parametrize(
    "text", ["a: \n" * 9, "- a\n" * 11, "[a, a, a, a, a, a, a, a, a, a, a, a]", "- [[[[[[]]]]]]\n" * 2, "{" * 11, "k: x\n" * 6]
)
def test_a_text_with_signs_of_too_many_values_is_not_even_parsed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(yaml_reader, "MAX_VALUES", 10)
    monkeypatch.setattr(yaml_reader.yaml, "CSafeLoader", None)
    with pytest.raises(DocumentError, match="more than 10 values and lines"):
        read_yaml(text)


def test_tags_are_errors_or_where_they_are_wanted_maps() -> None:
    text = "a: !KeyOf x\nb: !Find [m, [k, !Env y]]\nc: !Map {d: 1}\n"
    with pytest.raises(DocumentError):
        read_yaml(text)
    document = read_yaml(text, with_tags=True)
    assert document.value == {"a": {"!KeyOf": "x"}, "b": {"!Find": ["m", ["k", {"!Env": "y"}]]}, "c": {"!Map": {"d": 1}}}
    assert document.find_location(["b"]) == (2, 1)
