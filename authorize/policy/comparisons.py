"""Which function makes which criterion of the policy language?  A list written by hand."""

from collections.abc import Callable

from authorize.policy import about_people, about_requests, moments
from authorize.policy.criteria import Criterion
from config.routes.policy_language import Comparison

# Their answer may change while nothing else does.
TIMED = frozenset({"time_of_day", "day_of_week", "date", "session_age"})


def criterion_of(comparison: Comparison) -> Criterion:
    """ValueError where an operand makes no sense; it says only what is wrong with it."""
    return MAKERS[comparison.criterion](comparison)


MAKERS: dict[str, Callable[[Comparison], Criterion]] = {
    "email": about_people.email,
    "domain": about_people.domain,
    "user": about_people.user,
    "groups": about_people.groups,
    "claim": about_people.claim,
    "acr": about_people.acr,
    "source_ip": about_requests.source_ip,
    "http_method": about_requests.http_method,
    "http_path": about_requests.http_path,
    "http_header": about_requests.http_header,
    "client_certificate": about_requests.client_certificate,
    "time_of_day": moments.time_of_day,
    "day_of_week": moments.day_of_week,
    "date": moments.date,
    "session_age": moments.session_age,
}
