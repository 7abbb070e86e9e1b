"""One comparison as it is written, and what it answers."""

from typing import Any

from authorize.policy.criterion import Criterion, EvaluationContext
from authorize.policy.identity import Identity
from authorize.policy.language.criterion_registry import build_criterion
from authorize.policy.truth import FALSE, MAYBE, TRUE, UNKNOWN
from config.routes.policy.policy_language import iter_comparisons, parse_policy
from tests.unit.authorize.builders import NOW, request

ANSWERS = {TRUE: True, FALSE: False, UNKNOWN: None, MAYBE: "maybe"}


def criterion(written: dict[str, Any]) -> Criterion:
    (comparison,) = iter_comparisons(parse_policy({"allow": written}))
    return build_criterion(comparison)


def answer(written: dict[str, Any], caller: Identity | None = None, *, now: float = NOW, **facts: Any) -> bool | str | None:
    """True, False, None for unknown, "maybe" before sign-in."""
    return ANSWERS[criterion(written).evaluate(EvaluationContext(request(**facts), caller, now)).value]
