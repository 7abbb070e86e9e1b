"""Expressions of the policy language, built by importers. True and False are expressions without a criterion."""

from collections.abc import Iterable
from typing import Any

Expression = dict[str, Any] | bool


def combine_and(parts: Iterable[Expression]) -> Expression:
    left = _flat("and", [part for part in parts if part is not True])
    if False in left:
        return False
    return {"and": left} if len(left) > 1 else left[0] if left else True


def combine_or(parts: Iterable[Expression]) -> Expression:
    left = _flat("or", [part for part in parts if part is not False])
    if True in left:
        return True
    return {"or": left} if len(left) > 1 else left[0] if left else False


def combine_nor(parts: Iterable[Expression]) -> Expression:
    left = _flat("or", [part for part in parts if part is not False])
    if True in left:
        return False
    return {"nor": left} if len(left) > 1 else {"not": left[0]} if left else True


def _flat(operator: str, parts: list[Expression]) -> list[Expression]:
    """Inline nested lists of the same operator."""
    return [inner for part in parts for inner in (part[operator] if isinstance(part, dict) and operator in part else [part])]
