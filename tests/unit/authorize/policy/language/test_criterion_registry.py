"""Every criterion of the language has what makes it, and what it would hold for can be shown."""

import pytest

from authorize.policy.criterion import EvaluationContext, TraceStep
from authorize.policy.language.criterion_registry import FACTORIES, ROUTE_KEY_CRITERIA, TIME_DEPENDENT, build_criterion
from config.routes.policy.criteria import CRITERIA
from config.routes.policy.policy_language import iter_comparisons, parse_policy
from tests.support.policy_cases import Cases
from tests.unit.authorize.builders import NOW, request, user


def test_every_criterion_that_can_be_written_can_be_made() -> None:
    assert set(FACTORIES) == set(CRITERIA) | ROUTE_KEY_CRITERIA
    assert ROUTE_KEY_CRITERIA.isdisjoint(CRITERIA)
    assert set(FACTORIES) >= TIME_DEPENDENT


@pytest.mark.parametrize("seed", range(20))
def test_every_actual_value_can_be_described(seed: int) -> None:
    for caller in (None, user(claims={"team": ("a",), "acr": ("b",)})):
        for comparison in iter_comparisons(parse_policy({"allow": Cases(seed).expression(0)})):
            criterion = build_criterion(comparison)
            case = EvaluationContext(request(), caller, NOW)
            assert isinstance(criterion.evaluate(case), TraceStep)
            assert criterion.description.expected
            assert isinstance(criterion.description.actual(case), str)
