"""Policy expressions, compiled: functions that evaluate a case and leave a TraceStep for each criterion they looked at."""

from dataclasses import dataclass

from authorize.policy.criterion import Case, Criterion, CriterionWords, Evaluation, TraceStep, every
from authorize.policy.language.registry import TIMED, criterion_of
from authorize.policy.reasons import Reason
from authorize.policy.truth import AND, FALSE, MAYBE, NOT, OR, TRUE, UNKNOWN
from config.routes.policy.language import Block, Comparison, Expression, comparisons

_REASONS = {
    "allow": {TRUE: Reason.ALLOWED_BY_POLICY, FALSE: Reason.NOT_ALLOWED_BY_POLICY, UNKNOWN: Reason.ALLOW_UNKNOWN},
    "deny": {TRUE: Reason.DENIED_BY_POLICY, FALSE: Reason.NOT_DENIED_BY_POLICY, UNKNOWN: Reason.DENY_UNKNOWN},
}


class UnusableOperand(ValueError):
    """Operand of a comparison that makes no sense to the policy; `key` is its place below the route."""

    def __init__(self, key: str, message: str):
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True, eq=False)
class CompiledBlock:
    """Block made ready: `evaluate` ends the trace with a TraceStep for all of it.  `is_timed`: its answer may change as time goes by."""

    key: str
    effect: str
    mode: str
    evaluate: Evaluation
    is_timed: bool


def compile_block(block: Block) -> CompiledBlock:
    """Block made ready; UnusableOperand for the first that is."""
    is_allow = block.effect == "allow"
    compiled: list[Criterion] = []
    inner = _evaluation(block.expression, compiled, is_told=is_allow)
    steps = _block_steps(block)

    def evaluate(case: Case, trace: list[TraceStep]) -> int:
        value = inner(case, trace)
        trace.append(steps[value])
        return value

    is_timed = any(comparison.criterion in TIMED for comparison in comparisons([block]))
    return CompiledBlock(block.key, block.effect, block.mode, evaluate, is_timed)


def single(criterion: Criterion) -> Evaluation:
    return every((criterion.look,))


def _block_steps(block: Block) -> tuple[TraceStep, ...]:
    """By what the block may still come to: anything but a certain yes or no is told as its reason for not knowing."""
    reasons = _REASONS[block.effect]
    undecided = CriterionWords(block.key, block.effect, lambda case: "", is_told=True)
    steps = []
    for value in range(8):
        reason = reasons.get(value, Reason.NOT_SIGNED_IN if value & MAYBE else reasons[UNKNOWN])
        steps.append(TraceStep(block.key, value, reason, undecided))
    return tuple(steps)


def _evaluation(expression: Expression, compiled: list[Criterion], *, is_told: bool) -> Evaluation:
    """Evaluation; each criterion that it is made of is added to `compiled`."""
    if isinstance(expression, Comparison):
        return single(_criterion(expression, compiled, is_told=is_told))
    is_told = is_told and expression.operator in ("and", "or")
    if expression.operator == "and" and all(isinstance(part, Comparison) for part in expression.parts):
        return every(_criterion(part, compiled, is_told=is_told).look for part in expression.parts if isinstance(part, Comparison))
    parts = tuple(_evaluation(part, compiled, is_told=is_told) for part in expression.parts)
    match expression.operator:
        case "and":
            return _all(parts)
        case "or":
            return _any(parts)
        case _:  # nor, and not, which has one part
            return _none(parts)


def _criterion(comparison: Comparison, compiled: list[Criterion], *, is_told: bool) -> Criterion:
    try:
        criterion = criterion_of(comparison)
    except ValueError as error:
        raise UnusableOperand(comparison.key, str(error)) from None
    criterion.words.is_told = criterion.words.is_told and is_told
    compiled.append(criterion)
    return criterion


def _all(parts: tuple[Evaluation, ...]) -> Evaluation:
    def evaluate(case: Case, trace: list[TraceStep]) -> int:
        value = TRUE
        for part in parts:
            value = AND[value][part(case, trace)]
            if value == FALSE:
                break
        return value

    return evaluate


def _any(parts: tuple[Evaluation, ...]) -> Evaluation:
    def evaluate(case: Case, trace: list[TraceStep]) -> int:
        value = FALSE
        for part in parts:
            value = OR[value][part(case, trace)]
            if value == TRUE:
                break
        return value

    return evaluate


def _none(parts: tuple[Evaluation, ...]) -> Evaluation:
    some = _any(parts)

    def evaluate(case: Case, trace: list[TraceStep]) -> int:
        return NOT[some(case, trace)]

    return evaluate
