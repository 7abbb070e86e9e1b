"""Criterion: one rule and its evaluation, from an EvaluationContext to a TraceStep."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from authorize.policy.identity import Identity
from authorize.policy.paths.interpretations import interpretations, is_unambiguous
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.reasons import Reason
from authorize.policy.truth import AND, FALSE, MAYBE, TRUE, UNKNOWN
from config.routes.route import Route
from foundation.errors import PathTooAmbiguous

# Result of a rule if the identity has no data to compare.  It counts as FALSE, with its own reason.
NO_DATA = 0
# Result of a rule on a value that requests of this kind do not have.  It is FALSE, also for negated operators.
NOT_APPLICABLE = 8

# Input of a criterion: the context, or the identity alone.
_CONTEXT, _IDENTITY = 0, 1

# Interpretations of a path with too many ambiguous tokens.  They are not computed.
TOO_MANY_INTERPRETATIONS = ("",)

# Errors that unusual values of claims and headers can raise.  The criterion then evaluates to UNKNOWN.
_EVALUATION_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(slots=True)  # not frozen, because one is created per decision
class EvaluationContext:
    """Context of an evaluation.  `identity` is None for an anonymous caller.  `now` is in Unix seconds.  `route` is the matched route."""

    request: PolicyRequest
    identity: Identity | None
    now: float
    route: Route | None = None
    # Computed by the first criterion that needs it.  Not a property, because a hundred criteria would pay for each call.
    path_interpretations: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)
    header_values: dict[bytes, bytes | None] | None = field(default=None, init=False, repr=False, compare=False)
    epoch_second: int | None = field(default=None, init=False, repr=False, compare=False)

    def load_path_interpretations(self) -> tuple[str, ...]:
        """Return the interpretations of the path.

        Empty if it is unambiguous, TOO_MANY_INTERPRETATIONS if there are too many.
        """
        path = self.request.path
        try:
            self.path_interpretations = () if is_unambiguous(path) else interpretations(path)
        except PathTooAmbiguous:
            self.path_interpretations = TOO_MANY_INTERPRETATIONS
        return self.path_interpretations

    def load_epoch_second(self) -> int:
        """Return `now` in whole seconds."""
        self.epoch_second = int(self.now)
        return self.epoch_second

    def load_header_values(self) -> dict[bytes, bytes | None]:
        """Return the value of each header.  None if it is repeated, because upstreams differ in which value they use."""
        values = dict[bytes, bytes | None]()
        for name, value in self.request.headers:
            values[name] = None if name in values else value
        self.header_values = values
        return values


class TraceStep(NamedTuple):  # several are created per rule and route
    """Step of a trace: the result of one rule.

    `rule` is its route key, `value` is a value of policy/truth.py, and `description` is for explanations.
    """

    rule: str
    value: int
    reason: Reason
    description: "CriterionDescription | None" = None

    @property
    def holds(self) -> bool:
        return self.value == TRUE


# Evaluates a context and appends a TraceStep per evaluated criterion.
Evaluation = Callable[[EvaluationContext, list[TraceStep]], int]


class CompiledCriterion(NamedTuple):  # unpacked for each criterion of each request
    """Compiled criterion.

    `evaluate` returns TRUE, FALSE, UNKNOWN, NO_DATA or NOT_APPLICABLE, which is the index into `steps`.  Its input is the context or the
    identity, by `input_kind`.  `anonymous_step` applies to anonymous callers, None if the criterion does not need an identity.
    `success_step` is the only step that holds.
    """

    evaluate: Callable[[Any], int]
    input_kind: int
    anonymous_step: TraceStep | None
    steps: tuple[TraceStep, ...]
    success_step: TraceStep


def all_of(criteria: Iterable[CompiledCriterion]) -> Evaluation:
    """Return the conjunction of criteria.  This is the only place that evaluates them.  One that cannot be evaluated is UNKNOWN.

    It is one loop without nested calls, because long lists have this form.
    """
    # Plain tuples, because unpacking them takes half the time.
    compiled = [
        (criterion.evaluate, criterion.input_kind, criterion.anonymous_step, criterion.steps, criterion.success_step)
        for criterion in criteria
    ]

    def evaluate(context: EvaluationContext, trace: list[TraceStep]) -> int:
        value, identity, append_step = TRUE, context.identity, trace.append
        subjects = (context, identity)
        for evaluate_criterion, subject, anonymous_step, steps, success_step in compiled:
            if anonymous_step is not None and identity is None:
                step = anonymous_step
            else:
                try:
                    step = steps[evaluate_criterion(subjects[subject])]
                except _EVALUATION_ERRORS:
                    step = steps[UNKNOWN]
            append_step(step)
            if step is not success_step:
                value = AND[value][step.value]
                if value == FALSE:
                    break
        return value

    return evaluate


@dataclass(slots=True, eq=False)
class CriterionDescription:
    """Description of a criterion for explanations.  `expected` and `actual` are computed on demand.

    `is_disclosed` is True if a denied user may see the reason.  It is False for negated rules.
    """

    rule: str
    expectation: str | Callable[[], str]
    actual: Callable[[EvaluationContext], str]
    is_disclosed: bool = True

    @property
    def expected(self) -> str:
        return self.expectation if isinstance(self.expectation, str) else self.expectation()


@dataclass(frozen=True, slots=True, eq=False)
class Criterion:
    """Criterion.

    `compiled` is all that a request needs.  Its steps refer to `description`, which refers to nothing in return, because a reload must
    leave no reference cycles (gateproject/process/gc_tuning.py).
    """

    description: CriterionDescription
    compiled: CompiledCriterion

    def evaluate(self, context: EvaluationContext) -> TraceStep:
        trace: list[TraceStep] = []
        all_of((self.compiled,))(context, trace)
        return trace[0]


@dataclass(frozen=True, slots=True)
class CriterionReasons:
    """Reasons for TRUE, FALSE and UNKNOWN.  `no_data` is the reason of NO_DATA, `not_applicable` that of NOT_APPLICABLE."""

    yes: Reason
    no: Reason
    unknown: Reason
    no_data: Reason | None = None
    not_applicable: Reason | None = None


def request_criterion(
    description: CriterionDescription,
    reasons: CriterionReasons,
    evaluate: Callable[[EvaluationContext], int],
    *,
    is_negated: bool = False,
    needs_identity: bool = False,
) -> Criterion:
    """Return a criterion on the context.  With `needs_identity` it is MAYBE for anonymous callers."""
    return _build(description, reasons, evaluate, _CONTEXT, is_negated=is_negated, needs_identity=needs_identity)


def identity_criterion(
    description: CriterionDescription, reasons: CriterionReasons, evaluate: Callable[[Identity], int], *, is_negated: bool = False
) -> Criterion:
    """Return a criterion on the identity alone.  It is MAYBE for anonymous callers."""
    return _build(description, reasons, evaluate, _IDENTITY, is_negated=is_negated, needs_identity=True)


def _build(
    description: CriterionDescription,
    reasons: CriterionReasons,
    evaluate: Callable[[Any], int],
    subject: int,
    *,
    is_negated: bool,
    needs_identity: bool,
) -> Criterion:
    """Build a criterion.  Its steps are created once, because decisions are too frequent to rebuild them."""
    steps = _steps(description, reasons, is_negated=is_negated)
    anonymous_step = TraceStep(description.rule, MAYBE, Reason.NOT_SIGNED_IN, description) if needs_identity else None
    return Criterion(description, CompiledCriterion(evaluate, subject, anonymous_step, steps, steps[FALSE if is_negated else TRUE]))


def _steps(description: CriterionDescription, reasons: CriterionReasons, *, is_negated: bool) -> tuple[TraceStep, ...]:
    """Return the steps by result.  A negated operator swaps TRUE and FALSE, but not NOT_APPLICABLE."""
    holds = FALSE if is_negated else TRUE
    fails = TRUE if is_negated else FALSE
    # The reason of a negated rule would mislead the user.
    description.is_disclosed = description.is_disclosed and not is_negated
    unknown = TraceStep(description.rule, UNKNOWN, reasons.unknown, description)
    steps = [unknown] * 9
    steps[NO_DATA] = TraceStep(description.rule, fails, reasons.no_data or reasons.no, description)
    steps[TRUE] = TraceStep(description.rule, holds, reasons.yes, description)
    steps[FALSE] = TraceStep(description.rule, fails, reasons.no, description)
    steps[NOT_APPLICABLE] = TraceStep(description.rule, FALSE, reasons.not_applicable or reasons.no, description)
    return tuple(steps)
