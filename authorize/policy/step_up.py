"""Step-up: whether a person signed in strongly and recently enough for a route.  Who falls short is led to a stronger sign-in."""

from collections.abc import Iterator
from datetime import timedelta

from authorize.policy.criteria import Case, Criterion, CriterionReasons, CriterionWords, Reason, on_person, on_request, wanted
from authorize.policy.language.person_criteria import STRENGTH, acr_among, compared_acr
from authorize.policy.truth import FALSE, TRUE, UNKNOWN
from config.routes.policy.language import comparisons
from config.routes.route import Route

AGE = CriterionReasons(Reason.SIGN_IN_RECENT, Reason.SIGN_IN_TOO_OLD, Reason.AGE_UNKNOWN)
_OF_A_SIGN_IN = frozenset({"acr", "amr", "auth_time"})


def strengths_of(route: Route) -> Iterator[Criterion]:
    if route.acr_values:
        yield on_person(CriterionWords("acr_values", wanted(route.acr_values), compared_acr), STRENGTH, acr_among(route.acr_values))
    if route.max_age is not None:
        yield _recent(route.max_age)


def policy_judges_strength(route: Route) -> bool:
    """Whether the route's own rules look at how or when somebody signed in: then a refusal may be one that another sign-in lifts."""
    of_policy = any(
        comparison.criterion in ("acr", "session_age") or comparison.argument in _OF_A_SIGN_IN for comparison in comparisons(route.policy)
    )
    return of_policy or not _OF_A_SIGN_IN.isdisjoint(route.allowed_idp_claims)


def _recent(max_age: timedelta) -> Criterion:
    limit = max_age.total_seconds()

    def judge(case: Case) -> int:
        authenticated = case.identity.authenticated if case.identity is not None else 0.0
        if authenticated <= 0.0:
            return UNKNOWN
        return TRUE if case.now - authenticated <= limit else FALSE

    def compared(case: Case) -> str:
        if case.identity is None or case.identity.authenticated <= 0.0:
            return "an unknown age"
        return str(timedelta(seconds=int(max(case.now - case.identity.authenticated, 0.0))))

    return on_request(CriterionWords("max_age", f"at most {max_age}", compared), AGE, judge, needs_person=True)
