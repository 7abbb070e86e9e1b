"""Issuer comparison: character by character; Microsoft's shared endpoints name one issuer per tenant."""

from collections.abc import Mapping
from typing import Any

from config.issuers import TENANT, is_tenant, matches_issuer
from foundation.errors import ProviderError

__all__ = ["TENANT", "issuer_for", "matches_issuer", "signs_for"]


# enforcement-point: Sign-in and sign-out: Issuer
def issuer_for(issuer: str, claims: Mapping[str, Any]) -> str:
    """The issuer that a token with these claims must name: the configured one, of the token's own tenant where that is open."""
    if TENANT not in issuer:
        return issuer
    tenant = claims.get("tid")
    if not isinstance(tenant, str) or not is_tenant(tenant):
        raise ProviderError("the ID token has no tenant")
    return issuer.replace(TENANT, tenant)


def signs_for(key: Mapping[str, Any], issuer: str, named: str) -> bool:
    """Whether this key may sign for `named`: in a key set that many tenants share, each key says whose it is."""
    owner = key.get("issuer")
    return owner is None or owner == named or (owner == issuer and TENANT in issuer)
