"""Expressions: what needs no criterion disappears, and never by making anything more open."""

from config.importing.policy_expressions import all_of, any_of, none_of

A, B, C = {"groups": "a"}, {"groups": "b"}, {"groups": "c"}


def test_nothing_to_demand_is_true_and_nobody_named_is_false() -> None:
    assert all_of([]) is True
    assert any_of([]) is False
    assert none_of([]) is True


def test_one_part_stands_alone() -> None:
    assert all_of([True, A]) == any_of([False, A]) == A
    assert none_of([A, False]) == {"not": A}


def test_what_settles_it_settles_it() -> None:
    assert all_of([A, False]) is False
    assert any_of([A, True]) is True
    assert none_of([A, True]) is False


def test_lists_of_one_kind_become_one() -> None:
    assert all_of([A, all_of([B, C])]) == {"and": [A, B, C]}
    assert any_of([any_of([A, B]), C]) == {"or": [A, B, C]}
    assert none_of([any_of([A, B]), C]) == {"nor": [A, B, C]}
