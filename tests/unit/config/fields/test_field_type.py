"""A field type parses each written form, and reports a value that is specified but not implemented."""

import re
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter, ValidationError, ValidationInfo

from config.fields.field_type import TEXT, FieldType, choice_type


def adapter(reader: FieldType) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[Any, reader])


def test_reader_result_is_the_value() -> None:
    assert adapter(FieldType("string", str.upper, TEXT)).validate_python("a") == "A"


def test_reader_may_request_the_context() -> None:
    def read(value: Any, info: ValidationInfo) -> Any:
        return value, info.context

    assert adapter(FieldType("string", read, TEXT)).validate_python("a", context={"b": 1}) == ("a", {"b": 1})


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("c", "must be one of a, b$"),
        ("A", "must be one of a, b$"),
        ([], "must be one of a, b$"),
        ("\u201ca\u201d", "it contains U.201C LEFT DOUBLE QUOTATION MARK, U.201D RIGHT DOUBLE QUOTATION MARK$"),
        ("a\u200b", "it contains U.200B ZERO WIDTH SPACE$"),
        ("a\n", "it contains U.000A$"),
        ("\u00e0\u00e1\u00e2\u00e3", "it contains [^,]*, [^,]*, [^,]*$"),
    ],
)
def test_one_of_several_values(value: Any, message: str) -> None:
    reader = adapter(choice_type("a", "b"))
    assert reader.validate_python("b") == "b"
    with pytest.raises(ValidationError) as caught:
        reader.validate_python(value)
    assert re.search(message, caught.value.errors()[0]["msg"])
