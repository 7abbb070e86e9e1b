"""Criteria of the policy language on time: time of day, day of week, date, and age of the session."""

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from authorize.policy.criterion import Criterion, CriterionDescription, CriterionReasons, EvaluationContext, request_criterion
from authorize.policy.reasons import Reason
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.policy_language import Comparison

TIME = CriterionReasons(Reason.WITHIN_HOURS, Reason.OUTSIDE_HOURS, Reason.TIME_UNKNOWN)
AGE = CriterionReasons(Reason.AGE_MATCHES, Reason.AGE_DIFFERS, Reason.AGE_UNKNOWN)

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Clocks of processes may differ, so a session may start in the near future.
_CLOCK_SKEW_SECONDS = 60.0


def time_of_day(comparison: Comparison) -> Criterion:
    """Match the time of day.  `after` holds from that second on, `before` until the second before."""
    zone, bound, is_after = ZoneInfo(comparison.zone), comparison.operand, comparison.operator == "after"

    def evaluate_at(moment: int) -> int:
        here = datetime.fromtimestamp(moment, zone)
        second = here.hour * 3600 + here.minute * 60 + here.second
        return TRUE if (second >= bound) is is_after else FALSE

    return _time_criterion(comparison, _cached_per_second(evaluate_at), f"{bound // 3600:02}:{bound % 3600 // 60:02}")


def day_of_week(comparison: Comparison) -> Criterion:
    zone, days = ZoneInfo(comparison.zone), comparison.operand

    def evaluate_at(moment: int) -> int:
        return TRUE if datetime.fromtimestamp(moment, zone).weekday() in days else FALSE

    return _time_criterion(comparison, _cached_per_second(evaluate_at), ", ".join(_DAYS[day] for day in sorted(days)))


def date(comparison: Comparison) -> Criterion:
    """Match the date.  `after` holds from that moment on, `before` until just before it, `is` for the complete day."""
    first = comparison.operand.replace(tzinfo=ZoneInfo(comparison.zone))
    # Wall-clock arithmetic, because a day of a clock change does not have 24 hours.
    begins, ends = {
        "after": (first.timestamp(), float("inf")),
        "before": (float("-inf"), first.timestamp()),
        "is": (first.timestamp(), (first + timedelta(days=1)).timestamp()),
    }[comparison.operator]

    def evaluate(context: EvaluationContext) -> int:
        return TRUE if begins <= context.now < ends else FALSE

    return _time_criterion(comparison, evaluate, first.strftime("%Y-%m-%d %H:%M"))


def session_age(comparison: Comparison) -> Criterion:
    """Match the session age since sign-in.  Not an `identity_criterion`, because it needs the time."""
    limit, is_maximum = comparison.operand, comparison.operator == "at_most"
    expected = f"{comparison.operator} {timedelta(seconds=limit)}"

    def age(context: EvaluationContext) -> float | None:
        issued = context.identity.issued_at if context.identity is not None else 0.0
        if issued <= 0.0 or issued > context.now + _CLOCK_SKEW_SECONDS:
            return None
        return max(context.now - issued, 0.0)

    def actual(context: EvaluationContext) -> str:
        found = age(context)
        return "an unknown age" if found is None else str(timedelta(seconds=int(found)))

    def evaluate(context: EvaluationContext) -> int:
        found = age(context)
        if found is None:
            return UNKNOWN
        return TRUE if (found <= limit if is_maximum else found >= limit) else FALSE

    return request_criterion(CriterionDescription(comparison.key, expected, actual), AGE, evaluate, needs_identity=True)


def _cached_per_second(evaluate_at: Callable[[int], int]) -> Callable[[EvaluationContext], int]:
    """Cache the result per second, because time zone conversion is the most expensive part of a decision."""
    known = lru_cache(maxsize=4)(evaluate_at)
    return lambda context: known(context.epoch_second or context.load_epoch_second())


def _time_criterion(comparison: Comparison, evaluate: Callable[[EvaluationContext], int], operand: str) -> Criterion:
    zone = ZoneInfo(comparison.zone)
    operator = f"not_{comparison.operator}" if comparison.is_negated else comparison.operator

    def actual(context: EvaluationContext) -> str:
        return datetime.fromtimestamp(context.now, zone).strftime("%A %Y-%m-%d %H:%M:%S ") + comparison.zone

    description = CriterionDescription(comparison.key, f"{operator} {operand} ({comparison.zone})", actual)
    return request_criterion(description, TIME, evaluate, is_negated=comparison.is_negated)
