"""All mistakes are found at once, also those of rules over several settings."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from pydantic import Field, ValidationError

from config.fields.basic_types import Bool, Text
from config.validation import MAX_DETAILS, Finding, Rule, Settings, _limit_unknown_keys, validate
from foundation.version import RELEASE


def _no_b_with_a(settings: Any) -> Iterator[Finding]:
    if settings.a and settings.b:
        yield ("b",), "not with a"


class Inner(Settings):
    needed: Text = Field(json_schema_extra={"when_missing": "think of one"})
    REMOVED: ClassVar[dict[str, str]] = {"old": "use needed"}


class Sample(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_no_b_with_a,)

    a: Bool = False
    b: Bool = False
    other: Bool = False
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()


def findings(raw: Any) -> dict[tuple[str | int, ...], str]:
    return dict(validate(Sample, raw, {})[1])


def test_of_very_many_unknown_keys_only_the_first_are_described() -> None:
    """Describing each of 300,000 takes seconds; what is known is read nevertheless."""
    unknown = {f"unknown{number}": 1 for number in range(2 * MAX_DETAILS)}
    found = findings({**unknown, "a": "perhaps"})
    assert len(found) == MAX_DETAILS
    assert ("a",) in found
    assert ("unknown0",) in found
    assert len(_limit_unknown_keys(Sample, {**unknown, "a": "perhaps"})) == MAX_DETAILS + 1


def test_valid_document_becomes_the_model() -> None:
    sample, found = validate(Sample, {"a": True, "inner": {"needed": "x"}}, {})
    assert found == []
    assert sample is not None
    assert sample.inner == Inner(needed="x")


def test_rule_is_checked_although_another_setting_is_invalid() -> None:
    found = findings({"a": "yes", "b": "yes", "other": "perhaps"})
    assert found.keys() == {("b",), ("other",)}
    assert found[("b",)] == "not with a"


def test_rule_over_invalid_setting_is_not_checked() -> None:
    assert list(findings({"a": "perhaps", "b": True})) == [("a",)]


def test_a_rule_that_is_broken_is_reported_once() -> None:
    assert validate(Sample, {"a": True, "b": True}, {})[1] == [(("b",), "not with a")]


def test_nested_error_has_complete_path() -> None:
    found = findings({"inner": {}, "many": [{"needed": "x"}, {"needed": 5, "old": 1}]})
    assert found.keys() == {("inner", "needed"), ("many", 1, "needed"), ("many", 1, "old")}
    assert found[("inner", "needed")].endswith("think of one")
    assert "quotes" in found[("many", 1, "needed")]
    assert found[("many", 1, "old")] == "use needed"


def test_unknown_keys_are_explained() -> None:
    found = findings({"othr": True, "zzzzzz": 1})
    assert "mean other?" in found[("othr",)]
    assert found[("zzzzzz",)] == f"unknown setting (gate v{RELEASE})"


def test_non_mapping_is_reported() -> None:
    assert findings([]) == {(): "must be a map"}
    assert findings({"many": 5}) == {("many",): "must be a list"}


def test_not_even_the_validators_own_message_holds_the_value() -> None:
    """The exception contains no secret, because it may be logged."""

    class Numbered(Settings):
        number: int

    with pytest.raises(ValidationError) as caught:
        Numbered.model_validate({"number": "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_parts_validated_alone_are_not_validated_again_together():
    validated = []

    class Part(Settings):
        RULES = (lambda part: validated.append(part) or (),)
        n: int

    class Whole(Settings):
        parts: tuple[Part, ...]

    made = [Part(n=number) for number in range(3)]
    whole = Whole(parts=(*made, {"n": 3}))
    assert [part.n for part in validated] == [0, 1, 2, 3]
    assert all(reused is part for reused, part in zip(whole.parts, made, strict=False))
