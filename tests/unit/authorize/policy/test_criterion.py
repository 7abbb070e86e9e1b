"""Evaluation of criteria: input, order, and errors."""

from collections.abc import Callable

import pytest

from authorize.policy.criterion import (
    NO_DATA,
    CriterionDescription,
    CriterionReasons,
    EvaluationContext,
    TraceStep,
    all_of,
    identity_criterion,
    request_criterion,
)
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, MAYBE, TRUE, UNKNOWN
from tests.unit.authorize.builders import NOW, request, user

ANSWERS = CriterionReasons(Reason.USER_LISTED, Reason.USER_NOT_LISTED, Reason.EMAIL_NOT_USABLE, Reason.NO_GROUPS)


def description() -> CriterionDescription:
    return CriterionDescription("a rule", "anything", lambda case: "")


def trouble(error: type[Exception]) -> Callable[[object], int]:
    def evaluate(incoming: object) -> int:
        raise error("odd")

    return evaluate


@pytest.mark.parametrize(
    ("answer", "value", "negated", "reason"),
    [
        (TRUE, TRUE, FALSE, Reason.USER_LISTED),
        (FALSE, FALSE, TRUE, Reason.USER_NOT_LISTED),
        (UNKNOWN, UNKNOWN, UNKNOWN, Reason.EMAIL_NOT_USABLE),
        (NO_DATA, FALSE, TRUE, Reason.NO_GROUPS),
    ],
)
def test_negated_rule_inverts_known_result(answer: int, value: int, negated: int, reason: Reason) -> None:
    case = EvaluationContext(request(), user(), NOW)
    for is_negated, expected in ((False, value), (True, negated)):
        step = identity_criterion(description(), ANSWERS, lambda identity: answer, is_negated=is_negated).evaluate(case)
        assert (step.value, step.reason) == (expected, reason)


@pytest.mark.parametrize("error", [ArithmeticError, AttributeError, LookupError, TypeError, ValueError])
def test_unevaluable_expression_is_unknown(error: type[Exception]) -> None:
    for is_negated in (False, True):
        step = request_criterion(description(), ANSWERS, trouble(error), is_negated=is_negated).evaluate(
            EvaluationContext(request(), user(), NOW)
        )
        assert (step.value, step.holds) == (UNKNOWN, False)


def test_identity_rule_is_maybe_for_anonymous_caller() -> None:
    case = EvaluationContext(request(), None, NOW)
    assert identity_criterion(description(), ANSWERS, trouble(ValueError)).evaluate(case).value == MAYBE
    assert request_criterion(description(), ANSWERS, lambda case: TRUE, needs_identity=True).evaluate(case).value == MAYBE
    assert request_criterion(description(), ANSWERS, lambda case: TRUE).evaluate(case).value == TRUE


@pytest.mark.parametrize(
    ("answers", "value", "referenced_inputs"),
    [
        ([], TRUE, 0),
        ([TRUE, TRUE], TRUE, 2),
        ([TRUE, FALSE, TRUE], FALSE, 2),
        ([UNKNOWN, TRUE], UNKNOWN, 2),
        ([UNKNOWN, FALSE, TRUE], FALSE, 2),
        ([NO_DATA, TRUE], FALSE, 1),
    ],
)
def test_all_must_hold_and_the_first_that_does_not_ends_it(answers: list[int], value: int, referenced_inputs: int) -> None:
    trace: list[TraceStep] = []
    looks = [request_criterion(description(), ANSWERS, lambda case, answer=answer: answer).compiled for answer in answers]
    assert all_of(looks)(EvaluationContext(request(), user(), NOW), trace) == value
    assert len(trace) == referenced_inputs
