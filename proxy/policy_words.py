"""What does a route's `policy` say, in a line for each block?  For the admin; what decides is compiled elsewhere."""

from collections.abc import Iterator

from gateproject.config.policy_language import SHADOW, Block, Combination, Comparison
from gateproject.config.route import Route

LONGEST = 300  # characters of one block
MOST_VALUES = 5
_JOINED = {"and": " and ", "or": " or ", "nor": " or "}


def policy_words(route: Route) -> tuple[str, ...]:
    return tuple(map(_block, route.policy))


def _block(block: Block) -> str:
    words = f"{block.effect}: {_expression(block.expression)}"
    words = words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"
    return f"{words} (in shadow)" if block.mode == SHADOW else words


def _expression(expression: Combination | Comparison) -> str:
    if isinstance(expression, Comparison):
        return _comparison(expression)
    inside = _JOINED.get(expression.operator, " and ").join(map(_expression, expression.parts))
    if expression.operator in ("not", "nor"):
        return f"not ({inside})"
    return f"({inside})" if len(expression.parts) > 1 else inside


def _comparison(comparison: Comparison) -> str:
    name = f"{comparison.criterion}/{comparison.argument}" if comparison.argument else comparison.criterion
    if comparison.criterion == "http_header":  # values of headers stay out of the admin: upstreams' keys are kept there
        return f"{name} …"
    operator = f"not {comparison.operator}" if comparison.is_negated else comparison.operator
    return f"{name} {operator} {', '.join(_values(comparison.operand))}"


def _values(operand: object) -> Iterator[str]:
    values = operand if isinstance(operand, tuple) else (operand,)
    yield from map(str, values[:MOST_VALUES])
    if len(values) > MOST_VALUES:
        yield f"and {len(values) - MOST_VALUES} more"
