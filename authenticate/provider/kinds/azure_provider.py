"""Microsoft Entra ID: users are identified by `oid`. Its shared endpoints accept every tenant, and tenants are not all trusted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from authenticate.provider.issuer import TENANT
from authenticate.provider.kinds.oidc_provider import MissingScopes, OIDCProvider
from databroker.records import UserRecord
from foundation.errors import ProviderError

# Microsoft Graph in each cloud, and its application id. Scopes without a resource belong to it.
_GRAPH = re.compile(
    r"^(https://(dod-)?graph\.microsoft\.(com|us)|https://microsoftgraph\.chinacloudapi\.cn|00000003-0000-0000-c000-000000000000)/+"
)


class AzureProvider(OIDCProvider):
    default_params = {"prompt": "select_account"}

    def missing_scopes(self, requested: Iterable[str], granted: str) -> MissingScopes:
        """Return the scopes that were not granted.

        The response lists the scopes of one resource. If that is not Microsoft Graph, OpenID Connect's scopes are not listed.
        `.default` can't be verified, because its meaning depends on the tenant.
        """
        requested = tuple(requested)
        other_resources = tuple(scope for scope in requested if any("/" in name for name in self.scope_names(scope)))
        verifiable = (scope for scope in other_resources or requested if scope.rpartition("/")[2].lower() != ".default")
        return super().missing_scopes(verifiable, granted)

    def scope_names(self, scopes: str) -> frozenset[str]:
        """Return the scope names in lower case, without the address of Microsoft Graph."""
        return frozenset(_GRAPH.sub("", name.lower(), count=1) for name in super().scope_names(scopes))

    def subject(self, claims: Mapping[str, Any]) -> str:
        """Return the claim `oid`, which the directory uses as well: `sub` differs between applications."""
        oid = claims.get("oid", claims["sub"])
        if not isinstance(oid, str) or not 0 < len(oid) <= 255 or not oid.isprintable():
            raise ProviderError("the ID token's oid is malformed")
        return oid

    def user(self, claims: Mapping[str, Any], now: float) -> UserRecord:
        user, is_domain_verified = super().user(claims, now), claims.get("xms_edov") in (True, 1, "1", "true")
        # A tenant's administrator can set any address in `email`, so only the claim of a verified domain proves it.
        if TENANT in self.issuer or (is_domain_verified and user.email_verified is None):
            return replace(user, email_verified=is_domain_verified)
        return user
