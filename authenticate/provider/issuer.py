"""Issuer comparison: exact, except that Microsoft's shared endpoints use one issuer per tenant."""

from collections.abc import Mapping
from typing import Any

from config.issuers import TENANT, is_tenant, matches_issuer
from foundation.errors import ProviderError

__all__ = ["TENANT", "expected_issuer", "key_is_for_issuer", "matches_issuer"]


# enforcement-point: Sign-in and sign-out: Issuer
def expected_issuer(issuer: str, claims: Mapping[str, Any]) -> str:
    """Return the issuer that a token with these claims must have: the configured one, with the token's tenant if that is open."""
    if TENANT not in issuer:
        return issuer
    tenant = claims.get("tid")
    if not isinstance(tenant, str) or not is_tenant(tenant):
        raise ProviderError("the ID token has no tenant")
    return issuer.replace(TENANT, tenant)


def key_is_for_issuer(key: Mapping[str, Any], issuer: str, named: str) -> bool:
    """Return whether the key may sign for the issuer `named`. In a key set that tenants share, each key names its issuer."""
    owner = key.get("issuer")
    return owner is None or owner == named or (owner == issuer and TENANT in issuer)
