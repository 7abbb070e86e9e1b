"""Criterion of temporary access: whether the user has an active grant for this route."""

from datetime import UTC, datetime

from authorize.policy.criterion import Criterion, CriterionDescription, CriterionReasons, EvaluationContext, request_criterion
from authorize.policy.identity import GrantPeriod
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE
from config.routes.policy.policy_language import Comparison
from config.routes.route_access_requests import tool_grant_key

ACCESS = CriterionReasons(Reason.GRANT_ACTIVE, Reason.NO_GRANT, Reason.NO_GRANT)


# enforcement-point: Authorization: Temporary access in policy
def granted(comparison: Comparison) -> Criterion:
    """Match active temporary access to the matched route, or to the tool that the request calls.

    Not an `identity_criterion`, because it needs the time and the request.
    """

    def evaluate(context: EvaluationContext) -> int:
        period = grant_period(context)
        return TRUE if period is not None and period.covers(context.now) else FALSE

    def actual(context: EvaluationContext) -> str:
        period = grant_period(context)
        if period is None:
            return "no access"
        return f"access from {_format_time(period.starts_at)} until {_format_time(period.expires_at)}"

    return request_criterion(
        CriterionDescription(comparison.key, "active temporary access of this user to this route, or to the tool that is called", actual),
        ACCESS,
        evaluate,
        needs_identity=True,
    )


def grant_period(context: EvaluationContext) -> GrantPeriod | None:
    """Return the user's grant for the matched route or the called tool: of two, the active one that lasts longest."""
    if context.identity is None or context.route is None or not (grants := context.identity.grants):
        return None
    message, key = context.request.mcp, context.route.grant_key
    found = [grants.get(key), grants.get(tool_grant_key(key, message.tool)) if message is not None and message.tool else None]
    periods = [period for period in found if period is not None]
    return max(periods, key=lambda period: (period.covers(context.now), period.expires_at), default=None)


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a simulated grant without expiry
        return "any time"
