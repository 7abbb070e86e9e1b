"""Values of requests and answers: one reading each, and no time that a database could choke on."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from authenticate.api.api_types import MAX_PAGE_SIZE, CursorText, DateTimeParam, PageQuery, PlainText, to_rfc3339


@pytest.mark.parametrize("text", ["0", "-1", "+5", " 5", "5 ", "1_0", "5.0", "1e2", "٥", "201", "9999", "", "05", "true"])
def test_page_size_limits(text: str) -> None:
    with pytest.raises(ValidationError):
        PageQuery.model_validate({"limit": text})


def test_accepts_maximum_page_size() -> None:
    assert PageQuery.model_validate({"limit": str(MAX_PAGE_SIZE)}).limit == MAX_PAGE_SIZE


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2027-01-31T18:00:00Z", datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ("2027-01-31t18:00:00z", datetime(2027, 1, 31, 18, tzinfo=UTC)),
        ("2027-01-31T18:00:00.5+01:00", datetime(2027, 1, 31, 17, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-12-31T23:59:60Z", datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("2027-01-31T18:00:00.123456789Z", datetime(2027, 1, 31, 18, 0, 0, 123_456, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", datetime(1, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59-14:00", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_times_are_those_of_rfc_3339(text: str, meant: datetime) -> None:
    assert TypeAdapter(DateTimeParam).validate_python(text) == meant


@pytest.mark.parametrize(
    "text", ["", "now", "2027-01-31", "2027-01-31T18:00:00", "2027-02-30T18:00:00Z", "1800000000", 1_800_000_000, None]
)
def test_invalid_time_is_refused(text: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(DateTimeParam).validate_python(text)


@given(st.text())
def test_any_text_is_a_time_or_refused(text: str) -> None:
    with suppress(ValidationError):
        assert TypeAdapter(DateTimeParam).validate_python(text).tzinfo is UTC


@pytest.mark.parametrize("text", ["", "a\0b", "a\nb", "\x7f", "x" * 321])
def test_no_text_contains_characters_unsupported_by_the_database(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(PlainText).validate_python(text)


@pytest.mark.parametrize("text", ["", "a=b", "é", "a" * 1001, "a\n"])
def test_a_cursor_has_the_form_of_one(text: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(CursorText).validate_python(text)


@pytest.mark.parametrize("moment", [None, 0, 0.0, float("nan"), float("inf"), 1e30, -1e30, "soon"])
def test_unrepresentable_time_is_null(moment: Any) -> None:
    assert to_rfc3339(moment) is None


def test_times_are_utc() -> None:
    assert to_rfc3339(1_800_000_000.9) == "2027-01-15T08:00:00Z"
