"""Three-valued logic, for answers that are certain and for those that are not."""

import itertools

import pytest

from authorize.policy.truth import AND, FALSE, MAYBE, NOT, OR, TRUE, UNKNOWN

CERTAIN = (TRUE, FALSE, UNKNOWN)


@pytest.mark.parametrize(
    ("one", "other", "both", "either"),
    [
        (TRUE, TRUE, TRUE, TRUE),
        (TRUE, FALSE, FALSE, TRUE),
        (FALSE, FALSE, FALSE, FALSE),
        (TRUE, UNKNOWN, UNKNOWN, TRUE),
        (FALSE, UNKNOWN, FALSE, UNKNOWN),
        (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    ],
)
def test_unknown_is_neither_yes_nor_no(one: int, other: int, both: int, either: int) -> None:
    assert AND[one][other] == AND[other][one] == both
    assert OR[one][other] == OR[other][one] == either


def test_the_opposite_of_unknown_is_unknown() -> None:
    assert [NOT[value] for value in CERTAIN] == [FALSE, TRUE, UNKNOWN]


@pytest.mark.parametrize(("one", "other"), list(itertools.product(range(1, 8), repeat=2)))
def test_several_possible_answers_combine_to_all_that_may_come_of_them(one: int, other: int) -> None:
    pairs = [(a, b) for a in CERTAIN for b in CERTAIN if one & a and other & b]
    for table in (AND, OR):
        expected = 0
        for a, b in pairs:
            expected |= table[a][b]
        assert table[one][other] == expected


def test_maybe_alone_decides_nothing() -> None:
    assert (AND[MAYBE][FALSE], AND[MAYBE][TRUE], OR[MAYBE][TRUE], NOT[MAYBE]) == (FALSE, MAYBE, TRUE, MAYBE)
