"""Descriptions of criteria for explanations: actual and expected values.  No request uses them."""

from collections.abc import Iterable
from typing import Any

from authorize.policy.criterion import EvaluationContext
from foundation.claim_values import UnescapedValues, is_partial


def one_of(values: Iterable[Any]) -> str:
    return f"one of {join_values(values)}"


def join_values(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(str, values))) or "nothing"


def describe_claim(values: tuple[Any, ...] | None) -> str:
    if type(values) is UnescapedValues:
        return "unknown: a dot of the claim's name needs a backslash"
    if values is None or not is_partial(values):
        return join_values(values or ())
    return ", ".join([*sorted(map(str, values)), "a value that can't be compared"])


def describe_user(context: EvaluationContext) -> str:
    identity = context.identity
    return (
        "nobody"
        if identity is None
        else ", ".join(dict.fromkeys(filter(None, (identity.verified_email, identity.user_id, identity.unqualified_subject))))
    )


def describe_email(context: EvaluationContext) -> str:
    return "nobody" if context.identity is None else context.identity.verified_email or "no usable e-mail address"


def describe_provider(context: EvaluationContext) -> str:
    return "nobody" if context.identity is None else context.identity.provider


def describe_groups(context: EvaluationContext) -> str:
    return "nobody" if context.identity is None else join_values(context.identity.group_ids | context.identity.group_names)
