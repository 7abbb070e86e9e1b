"""Criterion of temporary access: whether the user has an active grant for this route."""

from datetime import UTC, datetime

from authorize.policy.criterion import Criterion, CriterionDescription, CriterionReasons, EvaluationContext, request_criterion
from authorize.policy.identity import GrantPeriod
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE
from config.routes.policy.policy_language import Comparison

ACCESS = CriterionReasons(Reason.GRANT_ACTIVE, Reason.NO_GRANT, Reason.NO_GRANT)


# enforcement-point: Authorization: Temporary access in policy
def granted(comparison: Comparison) -> Criterion:
    """Match active temporary access to the matched route.  Not an `identity_criterion`, because it needs the time and the route."""

    def evaluate(context: EvaluationContext) -> int:
        period = _grant_period(context)
        return TRUE if period is not None and period.covers(context.now) else FALSE

    def actual(context: EvaluationContext) -> str:
        period = _grant_period(context)
        if period is None:
            return "no access"
        return f"access from {_format_time(period.starts_at)} until {_format_time(period.expires_at)}"

    return request_criterion(
        CriterionDescription(comparison.key, "active temporary access of this user to this route", actual),
        ACCESS,
        evaluate,
        needs_identity=True,
    )


def _grant_period(context: EvaluationContext) -> GrantPeriod | None:
    if context.identity is None or context.route is None or not context.identity.grants:
        return None
    return context.identity.grants.get(context.route.grant_key)


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a simulated grant without expiry
        return "any time"
