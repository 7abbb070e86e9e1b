"""Compiler of policy expressions into functions that evaluate a context and append a TraceStep per criterion."""

from authorize.policy.criterion import CompiledCriterion, CriterionDescription, Evaluation, EvaluationContext, TraceStep, all_of
from authorize.policy.language.criterion_registry import build_criterion
from authorize.policy.reasons import Reason
from authorize.policy.truth import AND, FALSE, MAYBE, NOT, OR, TRUE, UNKNOWN
from config.routes.policy.policy_language import Block, Comparison, Expression

_REASONS = {
    "allow": {TRUE: Reason.ALLOWED_BY_POLICY, FALSE: Reason.NOT_ALLOWED_BY_POLICY, UNKNOWN: Reason.ALLOW_UNKNOWN},
    "deny": {TRUE: Reason.DENIED_BY_POLICY, FALSE: Reason.NOT_DENIED_BY_POLICY, UNKNOWN: Reason.DENY_UNKNOWN},
}


class InvalidOperand(ValueError):
    """Operand of a comparison that is invalid for the policy.  `key` is its location within the route."""

    def __init__(self, key: str, message: str):
        super().__init__(message)
        self.key = key


# enforcement-point: Authorization: Policy expressions, unknown values included
def compile_block(block: Block) -> Evaluation:
    """Compile a block.  A block of a written policy ends the trace with a TraceStep for the block.

    Raises InvalidOperand for the first invalid operand.
    """
    inner = _evaluation(block.expression, is_disclosed=block.effect != "deny")
    if block.is_route_key:
        return inner
    steps = _block_steps(block)

    def evaluate(context: EvaluationContext, trace: list[TraceStep]) -> int:
        value = inner(context, trace)
        trace.append(steps[value])
        return value

    return evaluate


def _block_steps(block: Block) -> tuple[TraceStep, ...]:
    """Return the step for each possible value of the block.  Values other than TRUE and FALSE have a reason for being undecided."""
    reasons = _REASONS[block.effect]
    undecided = CriterionDescription(block.key, block.effect, lambda context: "", is_disclosed=True)
    steps = []
    for value in range(8):
        reason = reasons.get(value, Reason.NOT_SIGNED_IN if value & MAYBE else reasons[UNKNOWN])
        steps.append(TraceStep(block.key, value, reason, undecided))
    return tuple(steps)


def _evaluation(expression: Expression, *, is_disclosed: bool) -> Evaluation:
    if isinstance(expression, Comparison):
        return all_of((_compile_comparison(expression, is_disclosed=is_disclosed),))
    is_disclosed = is_disclosed and expression.operator in ("and", "or")
    if expression.operator == "and" and all(isinstance(part, Comparison) for part in expression.parts):
        return all_of(_compile_comparison(part, is_disclosed=is_disclosed) for part in expression.parts if isinstance(part, Comparison))
    parts = tuple(_evaluation(part, is_disclosed=is_disclosed) for part in expression.parts)
    match expression.operator:
        case "and":
            return _all(parts)
        case "or":
            return _any(parts)
        case _:  # nor, and not, which has one part
            return _none(parts)


def _compile_comparison(comparison: Comparison, *, is_disclosed: bool) -> CompiledCriterion:
    try:
        criterion = build_criterion(comparison)
    except ValueError as error:
        raise InvalidOperand(comparison.key, str(error)) from None
    criterion.description.is_disclosed = criterion.description.is_disclosed and is_disclosed
    return criterion.compiled


def _all(parts: tuple[Evaluation, ...]) -> Evaluation:
    def evaluate(context: EvaluationContext, trace: list[TraceStep]) -> int:
        value = TRUE
        for part in parts:
            value = AND[value][part(context, trace)]
            if value == FALSE:
                break
        return value

    return evaluate


def _any(parts: tuple[Evaluation, ...]) -> Evaluation:
    def evaluate(context: EvaluationContext, trace: list[TraceStep]) -> int:
        value = FALSE
        for part in parts:
            value = OR[value][part(context, trace)]
            if value == TRUE:
                break
        return value

    return evaluate


def _none(parts: tuple[Evaluation, ...]) -> Evaluation:
    some = _any(parts)

    def evaluate(context: EvaluationContext, trace: list[TraceStep]) -> int:
        return NOT[some(context, trace)]

    return evaluate
