"""Route keys that control access, as blocks of the policy language. Each block has the name of its key."""

from collections.abc import Iterator
from typing import Any

from config.routes.policy.policy_language import AUTHENTICATION, Block, Combination, Comparison

# Operator of route keys: as `in`, but false for a user without the claim.
LISTED = "one of"

# (key, effect, criterion) in the order of evaluation: first what needs no sign-in, then by cost.
_KEYS = (
    ("identity_providers", "deny", "other_provider"),
    ("allow_public_unauthenticated_access", "allow", "public"),
    ("redirect", "allow", "redirect"),
    ("cors_allow_preflight", "allow", "cors_preflight"),
    ("allow_any_authenticated_user", "allow", "authenticated_user"),
    ("allowed_users", "allow", "user"),
    ("allowed_groups", "allow", "groups"),
    ("allowed_domains", "allow", "domain"),
    ("allowed_idp_claims", "allow", "claim"),
    ("access_requests", "allow", "granted"),
    ("acr_values", AUTHENTICATION, "acr"),
    ("max_age", AUTHENTICATION, "sign_in_age"),
)


def key_blocks(route: Any) -> Iterator[Block]:
    """Yield the blocks of the route's keys, in the order of evaluation."""
    for key, effect, criterion in _KEYS:
        if value := getattr(route, key):
            operator = LISTED if criterion in ("claim", "acr") else "in"
            by_argument = value if criterion == "claim" else {"": value}
            parts = tuple(Comparison(key, criterion, name, operator, False, operand) for name, operand in by_argument.items())
            yield Block(key, effect, parts[0] if len(parts) == 1 else Combination("or", parts), is_route_key=True)
