"""Registry of the policy language: the factory of each criterion."""

from collections.abc import Callable

from authorize.policy.criterion import Criterion
from authorize.policy.language import (
    client_criteria,
    grant_criteria,
    identity_criteria,
    mcp_criteria,
    request_criteria,
    route_key_criteria,
    time_criteria,
)
from config.routes.policy.policy_language import Comparison

# Criteria whose result may change without a change of records or configuration.
TIME_DEPENDENT = frozenset({"time_of_day", "day_of_week", "date", "session_age", "granted", "sign_in_age"})


def build_criterion(comparison: Comparison) -> Criterion:
    """Build the criterion of a comparison.

    Raises ValueError if the operand is invalid, with a message that describes only the problem.
    """
    return FACTORIES[comparison.criterion](comparison)


_OF_ROUTE_KEYS: dict[str, Callable[[Comparison], Criterion]] = {
    "public": route_key_criteria.public,
    "redirect": route_key_criteria.redirect,
    "cors_preflight": route_key_criteria.cors_preflight,
    "authenticated_user": route_key_criteria.authenticated_user,
    "other_provider": route_key_criteria.other_provider,
    "sign_in_age": route_key_criteria.sign_in_age,
    "trusted_certificate": route_key_criteria.trusted_certificate,
}
ROUTE_KEY_CRITERIA = frozenset(_OF_ROUTE_KEYS)  # no policy can write them
FACTORIES: dict[str, Callable[[Comparison], Criterion]] = {
    "email": identity_criteria.email,
    "domain": identity_criteria.domain,
    "user": identity_criteria.user,
    "groups": identity_criteria.groups,
    "provider": identity_criteria.provider,
    "claim": identity_criteria.claim,
    "acr": identity_criteria.acr,
    "client": client_criteria.client,
    "scope": client_criteria.scope,
    "source_ip": request_criteria.source_ip,
    "http_method": request_criteria.http_method,
    "http_path": request_criteria.http_path,
    "http_header": request_criteria.http_header,
    "client_certificate": request_criteria.client_certificate,
    "mcp_method": mcp_criteria.mcp_method,
    "mcp_tool": mcp_criteria.mcp_tool,
    "mcp_resource": mcp_criteria.mcp_resource,
    "mcp_prompt": mcp_criteria.mcp_prompt,
    "time_of_day": time_criteria.time_of_day,
    "day_of_week": time_criteria.day_of_week,
    "date": time_criteria.date,
    "session_age": time_criteria.session_age,
    "granted": grant_criteria.granted,
    **_OF_ROUTE_KEYS,
}
