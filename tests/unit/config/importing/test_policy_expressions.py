"""Expressions: what needs no criterion disappears, and never by making anything more open."""

from config.importing.policy_expressions import combine_and, combine_nor, combine_or

A, B, C = {"groups": "a"}, {"groups": "b"}, {"groups": "c"}


def test_empty_requirement_is_true_and_empty_user_list_is_false() -> None:
    assert combine_and([]) is True
    assert combine_or([]) is False
    assert combine_nor([]) is True


def test_one_part_stands_alone() -> None:
    assert combine_and([True, A]) == combine_or([False, A]) == A
    assert combine_nor([A, False]) == {"not": A}


def test_decisive_part_settles_the_result() -> None:
    assert combine_and([A, False]) is False
    assert combine_or([A, True]) is True
    assert combine_nor([A, True]) is False


def test_lists_of_one_kind_become_one() -> None:
    assert combine_and([A, combine_and([B, C])]) == {"and": [A, B, C]}
    assert combine_or([combine_or([A, B]), C]) == {"or": [A, B, C]}
    assert combine_nor([combine_or([A, B]), C]) == {"nor": [A, B, C]}
