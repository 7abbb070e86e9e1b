"""Whether a provider's claims verify an email address."""

from collections.abc import Mapping
from typing import Any


def vouches(email_verified: object) -> bool:
    """Whether `email_verified` is true, or "true" (as Cognito writes it): nothing unknown counts as verified."""
    return email_verified is True or (isinstance(email_verified, str) and email_verified.lower() == "true")


def is_verified(claims: Mapping[str, Any]) -> bool | None:
    """Whether the address is verified; None where the provider says nothing about it.

    `email_verified: true` is about the claim `email` only (OpenID Connect Core 5.1), not about an address in `mail`.
    """
    if "email_verified" not in claims:
        return None
    is_vouched = vouches(claims["email_verified"])
    return None if is_vouched and claims.get("mail") and not (isinstance(email := claims.get("email"), str) and email) else is_vouched


def merged(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """Claims of both.  Userinfo is the newer; but an address that either does not vouch for stays unverified."""
    said = [claims["email_verified"] for claims in (id_token, userinfo) if "email_verified" in claims]
    if _replaces_address(id_token, userinfo) and "email_verified" not in userinfo and said:
        said.append(False)  # the ID token vouched for another address, or for none
    doubted = {"email_verified": False} if said and not all(map(vouches, said)) else {}
    return {**id_token, **userinfo, **doubted}


def _replaces_address(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> bool:
    return "email" in userinfo and id_token.get("email") != userinfo["email"]
