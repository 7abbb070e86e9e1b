"""Policy of a route in words, a line for each block.  For the admin; what decides is compiled elsewhere."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from config.routes.policy.criteria import CRITERIA
from config.routes.policy.policy_language import SHADOW, Block, Combination, Comparison
from config.routes.route import Route

MAX_BLOCK_LENGTH = 300  # characters of one block
MAX_LISTED_VALUES = 5
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_JOINED = {"and": " and ", "or": " or ", "nor": " or "}


def describe_policy(route: Route) -> tuple[str, ...]:
    return tuple(map(describe_block, route.policy))


def describe_block(block: Block) -> str:
    words = f"{block.effect}: {describe_expression(block.expression)}"
    words = words if len(words) <= MAX_BLOCK_LENGTH else f"{words[: MAX_BLOCK_LENGTH - 1]}…"
    return f"{words} (shadow mode)" if block.mode == SHADOW else words


def describe_expression(expression: Combination | Comparison) -> str:
    if isinstance(expression, Comparison):
        return _comparison(expression)
    inside = _JOINED.get(expression.operator, " and ").join(map(describe_expression, expression.parts))
    if expression.operator in ("not", "nor"):
        return f"not ({inside})"
    return f"({inside})" if len(expression.parts) > 1 else inside


def _comparison(comparison: Comparison) -> str:
    name = f"{comparison.criterion}/{comparison.argument}" if comparison.argument else comparison.criterion
    if comparison.criterion == "http_header":  # values of headers stay out of the admin: upstreams' keys are kept there
        return f"{name} …"
    if comparison.criterion == "granted":
        return "temporary access was granted"
    operator = f"not {comparison.operator}" if comparison.is_negated else comparison.operator
    zone = f" ({comparison.zone})" if CRITERIA[comparison.criterion].has_zone else ""
    return f"{name} {operator} {', '.join(_values(_as_written(comparison)))}{zone}"


def _as_written(comparison: Comparison) -> object:
    """Moments and spans as people write them; the configuration has read them into numbers."""
    operand = comparison.operand
    match comparison.criterion:
        case "time_of_day":
            return _clock(operand)
        case "day_of_week":
            return _days(operand)
        case "date" if isinstance(operand, datetime):
            return operand.strftime("%Y-%m-%d" if comparison.operator == "is" else "%Y-%m-%d %H:%M")
        case "session_age":
            return timedelta(seconds=operand)
    return operand


def _clock(second: int) -> str:
    hours, seconds = divmod(second, 3600)
    return f"{hours:02}:{seconds // 60:02}" + (f":{seconds % 60:02}" if seconds % 60 else "")


def _days(days: Iterable[int]) -> str:
    return ", ".join(_DAYS[day] for day in sorted(days))


def _values(operand: object) -> Iterator[str]:
    values = operand if isinstance(operand, tuple) else (operand,)
    yield from map(str, values[:MAX_LISTED_VALUES])
    if len(values) > MAX_LISTED_VALUES:
        yield f"and {len(values) - MAX_LISTED_VALUES} more"
