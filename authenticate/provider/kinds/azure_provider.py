"""Microsoft Entra ID: people are known by `oid`; its shared endpoints let in every tenant, and not every tenant can be trusted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from authenticate.provider.issuer import TENANT
from authenticate.provider.kinds.oidc_provider import MissingScopes, OIDCProvider
from databroker.records import UserRecord
from foundation.errors import ProviderError

# Microsoft Graph, in the clouds that there are, and by its application id: scopes without a resource are its own.
_GRAPH = re.compile(
    r"^(https://(dod-)?graph\.microsoft\.(com|us)|https://microsoftgraph\.chinacloudapi\.cn|00000003-0000-0000-c000-000000000000)/+"
)


class AzureProvider(OIDCProvider):
    default_params = {"prompt": "select_account"}

    def missing_scopes(self, asked: Iterable[str], given: str) -> MissingScopes:
        """Scopes not granted.  The response names those of one resource: where that is another than Microsoft Graph, OpenID Connect's
        are not told.

        What `.default` stands for only the tenant knows.
        """
        asked = tuple(asked)
        elsewhere = tuple(scope for scope in asked if any("/" in name for name in self.scope_names(scope)))
        told = (scope for scope in elsewhere or asked if scope.rpartition("/")[2].lower() != ".default")
        return super().missing_scopes(told, given)

    def scope_names(self, scopes: str) -> frozenset[str]:
        """Scope names in lower case, those of Microsoft Graph with or without its address."""
        return frozenset(_GRAPH.sub("", name.lower(), count=1) for name in super().scope_names(scopes))

    def subject(self, claims: Mapping[str, Any]) -> str:
        """The claim `oid`, which the directory knows, too: `sub` differs from application to application."""
        oid = claims.get("oid", claims["sub"])
        if not isinstance(oid, str) or not 0 < len(oid) <= 255 or not oid.isprintable():
            raise ProviderError("the ID token's oid is malformed")
        return oid

    def user(self, claims: Mapping[str, Any], now: float) -> UserRecord:
        user, is_domain_verified = super().user(claims, now), claims.get("xms_edov") in (True, 1, "1", "true")
        # Whoever administers a tenant writes any address into `email`: only the mark of a verified domain makes it theirs.
        if TENANT in self.issuer or (is_domain_verified and user.email_verified is None):
            return replace(user, email_verified=is_domain_verified)
        return user
