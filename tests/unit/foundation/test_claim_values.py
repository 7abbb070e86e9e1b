"""Kinds of claim values, apart from the values that rules compare."""

import pytest

from foundation.claim_values import ListedValues, NullValues, PartialValues, claim_exists, is_partial


@pytest.mark.parametrize(
    ("values", "exists", "partial"),
    [
        (("",), True, False),
        ((False,), True, False),
        (ListedValues(("a",)), True, False),
        (ListedValues(), None, False),
        (PartialValues(("a",)), True, True),
        (PartialValues(), True, True),
        (NullValues(), None, True),
    ],
)
def test_each_kind_reports_presence_and_completeness(values: tuple[object, ...], exists: bool | None, partial: bool) -> None:
    assert (claim_exists(values), is_partial(values)) == (exists, partial)
