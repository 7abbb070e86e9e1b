"""Policy of a route as text for the admin, one line per block. It is not used for decisions."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from config.routes.policy.criteria import CRITERIA
from config.routes.policy.policy_language import SHADOW, Block, Combination, Comparison
from config.routes.route import Route

MAX_BLOCK_LENGTH = 300  # characters of one block
MAX_LISTED_VALUES = 5
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CONJUNCTIONS = {"and": " and ", "or": " or ", "nor": " or "}


def describe_policy(route: Route) -> tuple[str, ...]:
    return tuple(map(describe_block, route.policy))


def describe_block(block: Block) -> str:
    text = f"{block.effect}: {describe_expression(block.expression)}"
    text = text if len(text) <= MAX_BLOCK_LENGTH else f"{text[: MAX_BLOCK_LENGTH - 1]}…"
    return f"{text} (shadow mode)" if block.mode == SHADOW else text


def describe_expression(expression: Combination | Comparison) -> str:
    if isinstance(expression, Comparison):
        return _comparison(expression)
    inside = _CONJUNCTIONS.get(expression.operator, " and ").join(map(describe_expression, expression.parts))
    if expression.operator in ("not", "nor"):
        return f"not ({inside})"
    return f"({inside})" if len(expression.parts) > 1 else inside


def _comparison(comparison: Comparison) -> str:
    name = f"{comparison.criterion}/{comparison.argument}" if comparison.argument else comparison.criterion
    if comparison.criterion == "http_header":  # the admin does not show header values: they may contain keys of upstreams
        return f"{name} …"
    if comparison.criterion == "granted":
        return "temporary access was granted"
    operator = f"not {comparison.operator}" if comparison.is_negated else comparison.operator
    zone = f" ({comparison.zone})" if CRITERIA[comparison.criterion].has_zone else ""
    return f"{name} {operator} {', '.join(_values(_as_written(comparison)))}{zone}"


def _as_written(comparison: Comparison) -> object:
    """Return times and durations in their configuration form."""
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
