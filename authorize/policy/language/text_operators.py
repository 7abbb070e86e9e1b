"""Text operators of the policy language: `is`, `starts_with`, `matches` and others."""

from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any

from authorize.policy.criterion import CriterionDescription, EvaluationContext
from authorize.policy.criterion_text import join_values
from config.routes.policy.policy_language import Comparison

TextMatcher = Callable[[str], bool]
REDACTED = "a value that is not shown"


def text_matcher(operator: str, operand: Iterable[Any]) -> TextMatcher:
    """Return a matcher of any of the alternatives.  `matches` is RE2 on the complete text."""
    texts = tuple(operand)
    match operator:
        case "is" | "in":
            return frozenset(texts).__contains__  # this and `methodcaller` take half the time of a lambda
        case "starts_with":
            return methodcaller("startswith", texts)
        case "ends_with":
            return methodcaller("endswith", texts)
        case "contains":
            return lambda text: any(part in text for part in texts)
        case _:
            import re2  # 2 MiB, for expressions alone

            matches = tuple(re2.compile(expression).fullmatch for expression in texts)
            return lambda text: any(match(text) is not None for match in matches)


def describe(comparison: Comparison, actual: Callable[[EvaluationContext], str], *, is_secret: bool = False) -> CriterionDescription:
    """Return the words of a comparison, without its value where that is secret."""
    operator = f"not_{comparison.operator}" if comparison.is_negated else comparison.operator
    operand = REDACTED if is_secret else comparison.operand
    return CriterionDescription(
        comparison.key, lambda: f"{operator} {join_values(operand) if isinstance(operand, tuple) else operand}", actual
    )
