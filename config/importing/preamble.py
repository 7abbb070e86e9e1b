"""First settings of a conversion from a product without a sign-in host: host, provider and new secrets."""

import base64
from collections.abc import Callable

from config.importing.conversion import ConvertedSection
from config.importing.policy_expressions import Expression

SIGNED_IN: Expression = {"claim/sub": {"exists": True}}
NO_UPSTREAM = "https://upstream.invalid"


def write_preamble(
    top: ConvertedSection, domain: str, issuer: str, about_issuer: str, about_client: str, new_secret: Callable[[], bytes]
) -> None:
    """Write the settings of the sign-in below `domain` at the provider `issuer`. `new_secret` returns 32 random bytes."""
    note_text = f"gate signs users in on a dedicated host. At the provider register https://authenticate.{domain}/oauth2/callback"
    top.set(None, "authenticate_service_url", f"https://authenticate.{domain}", new=note_text)
    top.set(None, "idp_provider", "oidc")
    top.set(None, "idp_provider_url", issuer, new=about_issuer)
    top.set(None, "idp_client_id", "gate", new=about_client)
    top.set(None, "idp_scopes", ["openid", "profile", "email", "groups"], new="names and groups of users, which the rules compare")
    for key in ("cookie_secret", "shared_secret"):
        top.set(None, key, base64.b64encode(new_secret()).decode(), new="generated")


def grant_access(route: ConvertedSection, allowed: Expression) -> None:
    """Allow everyone, every signed-in user, the users that match the expression, or no one."""
    if allowed is True:
        route.set(None, "allow_public_unauthenticated_access", True)
    elif allowed == SIGNED_IN:
        route.set(None, "allow_any_authenticated_user", True)
    elif allowed is False:
        route.note("CHECK", "all users are denied. Add the users to allow")
    else:
        route.set(None, "policy", [{"allow": allowed}])
