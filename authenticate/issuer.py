"""Whose word is it?  An issuer is compared character by character; Microsoft's shared endpoints name one issuer per tenant."""

import re
from collections.abc import Mapping
from typing import Any

from gateproject.errors import ProviderError

# As the discovery document of Microsoft's shared endpoints writes it.
TENANT = "{tenantid}"
_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def issuer_for(issuer: str, claims: Mapping[str, Any]) -> str:
    """The issuer that a token with these claims must name: the configured one, of the token's own tenant where that is open."""
    if TENANT not in issuer:
        return issuer
    tenant = claims.get("tid")
    if not isinstance(tenant, str) or not _GUID.fullmatch(tenant):
        raise ProviderError("the ID token names no tenant")
    return issuer.replace(TENANT, tenant)


def is_issuer(issuer: str, named: str) -> bool:
    """Is `named` the configured issuer, or one of its tenants?"""
    before, open_tenant, after = issuer.partition(TENANT)
    if not open_tenant:
        return named == issuer
    return named.startswith(before) and named.endswith(after) and bool(_GUID.fullmatch(named[len(before) : len(named) - len(after)]))


def signs_for(key: Mapping[str, Any], issuer: str, named: str) -> bool:
    """May this key sign for `named`?  In a key set that many tenants share, each key says whose it is."""
    owner = key.get("issuer")
    return owner is None or owner == named or (owner == issuer and TENANT in issuer)
