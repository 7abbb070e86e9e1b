"""Whatever a provider says becomes one line of printable ASCII."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorize.upstream.header_values import header_value
from foundation.claim_values import ListedValues


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain text, 100% of it", b"plain text, 100% of it"),
        ("a\r\nX-Admin: 1", b"a%0D%0AX-Admin: 1"),
        ("a\x00b", b"a%00b"),
        ("Zoë", b"Zo%C3%AB"),
        ("50% Zoë", b"50%25 Zo%C3%AB"),
        ("a\x85b", b"a%C2%85b"),
        ("a\u2028b", b"a%E2%80%A8b"),
        ("\ud800", b"?"),
        (" admin", b"%20admin"),
        ("admin  ", b"admin%20%20"),
        ("  ", b"%20%20"),
        (" Zoë ", b"%20Zo%C3%AB%20"),
        (["a", " b", "c d "], b"a,%20b,c d%20"),
        (["a", "b"], b"a,b"),
        (["sales,admin", "x"], b"sales%2Cadmin,x"),
        (["sales,admin"], b"sales%2Cadmin"),
        (ListedValues(("sales,admin", "x")), b"sales%2Cadmin,x"),
        (ListedValues(("sales,admin",)), b"sales%2Cadmin"),
        (("Doe, Jane",), b"Doe, Jane"),
        (True, b"true"),
        (False, b"false"),
        (3, b"3"),
        (1.5, b"1.5"),
        (ListedValues((True, 1)), b"true,1"),
    ],
)
def test_a_value_is_one_line_of_ascii(value: Any, written: bytes) -> None:
    assert header_value(value) == written


@given(st.one_of(st.text(), st.lists(st.text()), st.tuples(st.text(), st.integers())))
def test_no_value_ends_its_header(value: Any) -> None:
    assert all(0x20 <= byte < 0x7F for byte in header_value(value))
