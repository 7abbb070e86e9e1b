"""Descriptions of criteria for explanations: actual and expected values.  No request uses them."""

from collections.abc import Iterable
from typing import Any

from authorize.policy.criterion import EvaluationContext
from foundation.claim_values import UnescapedValues, is_partial


def wanted(values: Iterable[Any]) -> str:
    return f"one of {shown(values)}"


def shown(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, values))) or "nothing"


def describe_claim(values: tuple[Any, ...] | None) -> str:
    if type(values) is UnescapedValues:
        return "unknown: a dot of the claim's name needs a backslash"
    if values is None or not is_partial(values):
        return shown(values or ())
    return ", ".join([*sorted(map(str, values)), "a value that can't be compared"])


def describe_user(case: EvaluationContext) -> str:
    person = case.identity
    return (
        "nobody"
        if person is None
        else ", ".join(dict.fromkeys(filter(None, (person.verified_email, person.user_id, person.unqualified_subject))))
    )


def describe_email(case: EvaluationContext) -> str:
    return "nobody" if case.identity is None else case.identity.verified_email or "no usable e-mail address"


def describe_provider(case: EvaluationContext) -> str:
    return "nobody" if case.identity is None else case.identity.provider


def describe_groups(case: EvaluationContext) -> str:
    return "nobody" if case.identity is None else shown(case.identity.group_ids | case.identity.group_names)
