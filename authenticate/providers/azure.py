"""Microsoft Entra ID: people are known by `oid`; its shared endpoints let in every tenant, and not every tenant can be trusted."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from authenticate.issuer import TENANT
from authenticate.providers.oidc import OIDCProvider
from databroker.records import User
from gateproject.errors import ProviderError

_SHARED = re.compile(r"/(?:common|organizations)(?=/|$)")


class AzureProvider(OIDCProvider):
    default_url = "https://login.microsoftonline.com/common/v2.0"
    default_params = {"prompt": "select_account"}

    @property
    def issuer(self) -> str:
        return _SHARED.sub(f"/{TENANT}", self.url)

    def subject(self, claims: Mapping[str, Any]) -> str:
        """`sub` differs from application to application; the directory knows `oid`."""
        oid = claims.get("oid", claims["sub"])
        if not isinstance(oid, str) or not 0 < len(oid) <= 255 or not oid.isprintable():
            raise ProviderError("the ID token's oid is malformed")
        return oid

    def user(self, claims: Mapping[str, Any], now: float) -> User:
        user = super().user(claims, now)
        if TENANT not in self.issuer:
            return user
        # Whoever administers a tenant writes any address into `email`: only the mark of a verified domain makes it theirs.
        return replace(user, email_verified=claims.get("xms_edov") in (True, 1, "1", "true"))
