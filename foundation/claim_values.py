"""Values of one claim: those that policy rules can compare, and a type that records whether the claim has others.

A single text, number or boolean is a plain tuple of one. All kinds are tuples, so a rule that matches a value needs no type check.
"""

from typing import Any


class ListedValues(tuple[Any, ...]):
    """Values of a list claim whose elements can all be compared."""

    __slots__ = ()


class PartialValues(ListedValues):
    """Comparable values of a claim that also has values that cannot be compared: maps, nested lists, null."""

    __slots__ = ()


class NullValues(PartialValues):
    """Empty values of a claim that is null, an empty map, or a list of these: whether the user has the claim is unknown."""

    __slots__ = ()


class UnescapedValues(NullValues):
    """Empty values of a path that matches a claim only without its backslashes: a dot in the name may lack its escape."""

    __slots__ = ()


def unescape(path: str) -> str:
    """Return a claim path without backslashes, the form that all escapings of one path have in common."""
    return path.replace("\\", "")


def is_partial(values: tuple[Any, ...]) -> bool:
    """Return whether the claim has a value that cannot be compared."""
    return isinstance(values, PartialValues)


def claim_exists(values: tuple[Any, ...]) -> bool | None:
    """Return whether the user has the claim; None if unknown (null, empty lists and maps)."""
    return True if values or type(values) is PartialValues else None
