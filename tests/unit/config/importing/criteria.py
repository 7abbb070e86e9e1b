"""Criteria on a path as docs/reference/policy-language.md describes them, for the tests of importers."""

from typing import Any

import re2

from config.importing.policy_expressions import Expression


def holds(expression: Expression, path: str) -> bool:
    if isinstance(expression, bool):
        return expression
    ((name, content),) = expression.items()
    if name == "or":
        return any(holds(part, path) for part in content)
    assert name == "http_path", name
    return all(_operator(operator, operand, path) for operator, operand in content.items())


def _operator(operator: str, operand: Any, path: str) -> bool:
    match operator:
        case "matches":
            return re2.fullmatch(operand, path) is not None
        case "starts_with":
            return path.startswith(operand)
        case "not_contains":
            return operand not in path
    raise AssertionError(operator)
