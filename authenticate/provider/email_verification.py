"""Verification of email addresses by a provider's claims."""

from collections.abc import Mapping
from typing import Any


def is_true_claim(email_verified: object) -> bool:
    """Return whether a value of `email_verified` is true, or "true" (as Cognito returns it). Any other value means unverified."""
    return email_verified is True or (isinstance(email_verified, str) and email_verified.lower() == "true")


def email_verified(claims: Mapping[str, Any]) -> bool | None:
    """Return whether the address is verified; None if the provider does not report it.

    `email_verified: true` applies to the claim `email` only (OpenID Connect Core 5.1), not to an address in `mail`.
    """
    if "email_verified" not in claims:
        return None
    is_verified = is_true_claim(claims["email_verified"])
    return None if is_verified and claims.get("mail") and not (isinstance(email := claims.get("email"), str) and email) else is_verified


def merge_claims(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """Merge ID token and userinfo claims. Userinfo wins, but `email_verified` is true only if both sources agree."""
    asserted = [claims["email_verified"] for claims in (id_token, userinfo) if "email_verified" in claims]
    if _replaces_address(id_token, userinfo) and "email_verified" not in userinfo and asserted:
        asserted.append(False)  # because the ID token verified another address, or none
    doubted = {"email_verified": False} if asserted and not all(map(is_true_claim, asserted)) else {}
    return {**id_token, **userinfo, **doubted}


def _replaces_address(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> bool:
    return "email" in userinfo and id_token.get("email") != userinfo["email"]
