"""How a criterion is asked: of whom, in which order, and what becomes of one that can't be evaluated."""

from collections.abc import Callable

import pytest

from authorize.policy.criterion import NOTHING, Case, CriterionReasons, CriterionWords, TraceStep, every, on_person, on_request
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, MAYBE, TRUE, UNKNOWN
from tests.unit.authorize.builders import NOW, request, user

ANSWERS = CriterionReasons(Reason.USER_LISTED, Reason.USER_NOT_LISTED, Reason.EMAIL_NOT_USABLE, Reason.NO_GROUPS)


def words() -> CriterionWords:
    return CriterionWords("a rule", "anything", lambda case: "")


def trouble(error: type[Exception]) -> Callable[[object], int]:
    def judge(asked: object) -> int:
        raise error("odd")

    return judge


@pytest.mark.parametrize(
    ("answer", "value", "negated", "reason"),
    [
        (TRUE, TRUE, FALSE, Reason.USER_LISTED),
        (FALSE, FALSE, TRUE, Reason.USER_NOT_LISTED),
        (UNKNOWN, UNKNOWN, UNKNOWN, Reason.EMAIL_NOT_USABLE),
        (NOTHING, FALSE, TRUE, Reason.NO_GROUPS),
    ],
)
def test_a_negated_rule_turns_what_is_known_round(answer: int, value: int, negated: int, reason: Reason) -> None:
    case = Case(request(), user(), NOW)
    for is_negated, expected in ((False, value), (True, negated)):
        step = on_person(words(), ANSWERS, lambda identity: answer, is_negated=is_negated).test(case)
        assert (step.value, step.reason) == (expected, reason)


@pytest.mark.parametrize("error", [ArithmeticError, AttributeError, LookupError, TypeError, ValueError])
def test_what_can_not_be_evaluated_is_unknown(error: type[Exception]) -> None:
    for is_negated in (False, True):
        step = on_request(words(), ANSWERS, trouble(error), is_negated=is_negated).test(Case(request(), user(), NOW))
        assert (step.value, step.holds) == (UNKNOWN, False)


def test_before_anybody_has_signed_in_a_rule_on_people_may_be_either() -> None:
    case = Case(request(), None, NOW)
    assert on_person(words(), ANSWERS, trouble(ValueError)).test(case).value == MAYBE
    assert on_request(words(), ANSWERS, lambda case: TRUE, needs_person=True).test(case).value == MAYBE
    assert on_request(words(), ANSWERS, lambda case: TRUE).test(case).value == TRUE


@pytest.mark.parametrize(
    ("answers", "value", "looked_at"),
    [
        ([], TRUE, 0),
        ([TRUE, TRUE], TRUE, 2),
        ([TRUE, FALSE, TRUE], FALSE, 2),
        ([UNKNOWN, TRUE], UNKNOWN, 2),
        ([UNKNOWN, FALSE, TRUE], FALSE, 2),
        ([NOTHING, TRUE], FALSE, 1),
    ],
)
def test_all_must_hold_and_the_first_that_does_not_ends_it(answers: list[int], value: int, looked_at: int) -> None:
    trace: list[TraceStep] = []
    looks = [on_request(words(), ANSWERS, lambda case, answer=answer: answer).look for answer in answers]
    assert every(looks)(Case(request(), user(), NOW), trace) == value
    assert len(trace) == looked_at
