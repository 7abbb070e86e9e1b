"""A generic OpenID Connect provider: what the standard says, nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from authenticate.providers.base import vouches
from databroker.records import User
from gateproject.config.options import Options


@dataclass(frozen=True, slots=True)
class OIDCProvider:
    name: str
    issuer: str
    scopes: tuple[str, ...]
    request_params: Mapping[str, str]
    groups_claim: str

    @classmethod
    def from_options(cls, options: Options) -> "OIDCProvider":
        return cls(
            name=options.idp_provider,
            issuer=options.idp_provider_url,
            scopes=options.idp_scopes,
            request_params=options.idp_request_params,
            groups_claim=options.groups_claim,
        )

    def user(self, claims: Mapping[str, Any], now: float) -> User:
        return User(
            id=f"{self.name}/{claims['sub']}",
            email=_text(claims.get("email")),
            email_verified=_is_verified(claims),
            name=_text(claims.get("name")) or _text(claims.get("given_name")) or _text(claims.get("preferred_username")),
            claims=claims,
            last_sign_in=now,
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_verified(claims: Mapping[str, Any]) -> bool | None:
    """None where the provider says nothing about it."""
    return vouches(claims["email_verified"]) if "email_verified" in claims else None
