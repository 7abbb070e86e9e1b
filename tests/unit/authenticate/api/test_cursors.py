"""Cursors: round trip, and refusal of malformed and foreign ones."""

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authenticate.api.api_problems import ApiProblem
from authenticate.api.api_types import MAX_CURSOR_LENGTH
from authenticate.api.cursors import decode_cursor, encode_cursor


def written(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=320))
def test_cursor_round_trip(key: str) -> None:
    assert decode_cursor("users", encode_cursor("users", key)) == (key,)
    assert decode_cursor("grants", encode_cursor("grants", key, "x"), 2) == (key, "x")


def test_a_list_begins_without_one() -> None:
    assert decode_cursor("users", None) is None


def test_maximum_length_user_id_fits() -> None:
    assert len(encode_cursor("users", "x" * 320)) <= MAX_CURSOR_LENGTH


@pytest.mark.parametrize(
    "cursor",
    [
        encode_cursor("sessions", "x"),
        encode_cursor("users", "x", "y"),
        encode_cursor("users"),
        written("users"),
        written({"users": "x"}),
        written(["users", 7]),
        written(["users", None]),
        written(["users", ["x"]]),
        written(["users", "a\0b"]),
        written(["users", "\ud800"]),
        written(["users", "x" * 341]),
        written([["users"], "x"]),
        "0",
        "A" * 1000,
        "_" * 999,
        base64.urlsafe_b64encode(b"[" * 700).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        encode_cursor("users", "x")[:-1],
    ],
)
def test_foreign_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ApiProblem) as caught:
        decode_cursor("users", cursor)
    assert caught.value.status == 400
    (error,) = caught.value.members["errors"]
    assert (error["in"], error["name"]) == ("query", "cursor")
    assert "not valid" in error["reason"]


@given(st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", max_size=MAX_CURSOR_LENGTH))
def test_no_text_is_more_than_refused(cursor: str) -> None:
    with suppress(ApiProblem):
        assert len(decode_cursor("users", cursor) or ()) == 1
