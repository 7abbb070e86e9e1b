"""A Decision in words: one sentence for the person refused, and rows for JSON and logs."""

from typing import Any

from authorize.policy.criteria import Reason
from authorize.policy.decision import Decision, Outcome

# What a refused person can do nothing about, and need not read.
_NOT_TOLD = frozenset({Reason.NOT_PREFLIGHT, Reason.NOT_SIGNED_IN})


def sentence(decision: Decision) -> str:
    """Never names what is listed: that is the operator's."""
    if decision.outcome is Outcome.NO_ROUTE:
        return "There is nothing at this address."
    if decision.outcome is Outcome.SIGN_IN:
        return "Please sign in first."
    if decision.outcome is Outcome.ALLOWED:
        return f"Allowed: {decision.trace[-1].reason.value}."
    reasons = list(dict.fromkeys(step.reason.value for step in decision.trace if step.reason not in _NOT_TOLD))
    if not reasons:
        return "You can't open this page: its route lets nobody in."
    return f"You can't open this page: {_joined(reasons)}."


def rows(decision: Decision) -> list[dict[str, Any]]:
    """The trace, one row a rule, in the order in which they were looked at."""
    return [{"rule": step.rule, "holds": step.holds, "reason": step.reason.value} for step in decision.trace]


def _joined(reasons: list[str]) -> str:
    return reasons[0] if len(reasons) == 1 else f"{', '.join(reasons[:-1])}, and {reasons[-1]}"
