"""The points of a module at which it can be mutated, as its instrumented code calls them."""

from typing import Any

active = 0  # the number of the mutant in force; 0 for none
reached = set[int]()  # the numbers of the mutants that would have changed something until now


def condition(never: int, always: int, value: Any) -> Any:
    reached.add(never if value else always)
    if active == 0 or active not in (never, always):
        return value
    return active == always


def is_skipped(number: int) -> bool:
    reached.add(number)
    return active == number
