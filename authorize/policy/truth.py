"""Kleene's three-valued logic, for one value or for a set of possible values.

A value is a set of truth values as bits.  A criterion on the identity of an anonymous caller is MAYBE: TRUE or FALSE after sign-in.  A
criterion that cannot be evaluated is UNKNOWN.  UNKNOWN never allows a request, and never clears a deny rule.
"""

from collections.abc import Callable

TRUE, FALSE, UNKNOWN = 1, 2, 4
MAYBE = TRUE | FALSE
# Bit masks: `value & CAN_BE_TRUE` is not 0 if TRUE is one of the possible values.
CAN_BE_TRUE, CAN_BE_FALSE = TRUE, FALSE

_VALUES = (TRUE, FALSE, UNKNOWN)


def _and(one: int, other: int) -> int:
    if FALSE in (one, other):
        return FALSE
    return UNKNOWN if UNKNOWN in (one, other) else TRUE


def _not(value: int) -> int:
    return {TRUE: FALSE, FALSE: TRUE, UNKNOWN: UNKNOWN}[value]


def _or(one: int, other: int) -> int:
    return _not(_and(_not(one), _not(other)))


def _parts(possible: int) -> list[int]:
    return [value for value in _VALUES if possible & value]


# enforcement-point: Authorization: Three-valued logic
def _table(operation: Callable[[int, int], int]) -> tuple[tuple[int, ...], ...]:
    def combined(one: int, other: int) -> int:
        found = 0
        for first in _parts(one):
            for second in _parts(other):
                found |= operation(first, second)
        return found

    return tuple(tuple(combined(one, other) for other in range(8)) for one in range(8))


AND = _table(_and)
OR = _table(_or)
NOT = tuple(sum(_not(value) for value in _parts(possible)) for possible in range(8))
