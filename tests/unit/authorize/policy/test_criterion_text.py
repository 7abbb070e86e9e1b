"""Descriptions of the user in explanations."""

from typing import Any

import pytest

from authorize.policy.criterion import EvaluationContext
from authorize.policy.criterion_text import describe_claim, describe_email, describe_groups, describe_provider, describe_user, one_of
from foundation.claim_values import PartialValues, UnescapedValues
from tests.unit.authorize.builders import NOW, request, user


@pytest.mark.parametrize(
    ("values", "part"),
    [
        (None, "nothing"),
        (("b", 1, "a"), "1, a, b"),
        (PartialValues(("a",)), "a, "),
        (UnescapedValues(("a",)), "backslash"),
    ],
)
def test_claims(values: Any, part: str) -> None:
    assert part in describe_claim(values)


def test_describes_users_and_anonymous_callers() -> None:
    descriptions = (describe_user, describe_email, describe_provider, describe_groups)
    ann = EvaluationContext(
        request(), user("ann@corp.com", subject="1", group_ids=frozenset({"g2", "g1"}), group_names=frozenset({"sales"})), NOW
    )
    assert [of(ann) for of in descriptions] == ["ann@corp.com, oidc/1, 1", "ann@corp.com", "oidc", "g1, g2, sales"]
    assert {of(EvaluationContext(request(), None, NOW)) for of in descriptions} == {"nobody"}
    assert one_of({"b", "a"}) == "one of a, b"
