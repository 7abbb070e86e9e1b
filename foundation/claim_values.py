"""Values of one claim: those that rules can compare, and what is known of the others.

A claim that is one text, number or truth value is a plain tuple of one.  All kinds are tuples, so a rule that finds its value looks at
nothing else.
"""

from typing import Any


class ListedValues(tuple[Any, ...]):
    """Values of a claim that is a list, each of which can be compared."""

    __slots__ = ()


class PartialValues(ListedValues):
    """Comparable values of a claim that has others as well: maps, lists inside of lists, null."""

    __slots__ = ()


class NullValues(PartialValues):
    """No value, of a claim that is null, an empty map, or a list of such: whether the person has the claim is not known."""

    __slots__ = ()


class UnescapedValues(NullValues):
    """No value, of a path that names a claim only where backslashes are ignored: a dot of the claim's name may lack its backslash."""

    __slots__ = ()


def unescape(path: str) -> str:
    """Return the path of a claim without its backslashes, which all ways to escape the dots of one path share."""
    return path.replace("\\", "")


def is_partial(values: tuple[Any, ...]) -> bool:
    """Whether the claim has a value that can't be compared."""
    return isinstance(values, PartialValues)


def claim_exists(values: tuple[Any, ...]) -> bool | None:
    """Whether the person has the claim; None where that is not known: null, and lists and maps without content."""
    return True if values or type(values) is PartialValues else None
