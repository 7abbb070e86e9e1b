"""Generic OpenID Connect provider (`idp_provider: oidc`), known only by its discovery document. It may be a Keycloak.

Keycloak's sessions of a user are connected, and offline sessions outlive them. Measured with 26.0: every sign-in returns a
refresh token. Revoking one ends the user's sessions of this client in all browsers. `end_session_endpoint` ends one session,
but not a session requested with `offline_access`.
"""

from urllib.parse import urlsplit

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.oidc_provider import OIDCProvider, RevocableTokens
from databroker.records import SessionRecord

KEYCLOAK_SCOPES = ("openid", "profile", "email")


class GenericProvider(OIDCProvider):
    """Any provider. Its scopes are unknown, and some providers (Cognito) reject a sign-in with an unsupported scope."""

    def requested_scopes(self, discovery: DiscoveryDocument) -> tuple[str, ...]:
        usual = KEYCLOAK_SCOPES if is_keycloak(discovery) else self.default_scopes
        if self.scopes or not discovery.scopes:
            return self.scopes or usual
        return tuple(scope for scope in usual if scope == "openid" or scope in discovery.scopes)

    def may_return_email_verified(self, discovery: DiscoveryDocument) -> bool:
        """Return what the document reports. Keycloak always returns the claim with an address, though `claims_supported` lacks it."""
        return is_keycloak(discovery) or super().may_return_email_verified(discovery)

    def revocable_tokens(self, session: SessionRecord, discovery: DiscoveryDocument) -> RevocableTokens:
        """Return the tokens to revoke: for Keycloak only the access token, because the sign-out has ended the refresh token."""
        return ((session.access_token, "access_token"),) if is_keycloak(discovery) else super().revocable_tokens(session, discovery)


def is_keycloak(discovery: DiscoveryDocument) -> bool:
    issuer, endpoint = urlsplit(discovery.issuer), urlsplit(discovery.token_endpoint)
    # The host may differ: it can be an internal one for servers.
    return "/realms/" in issuer.path and endpoint.path == f"{issuer.path}/protocol/openid-connect/token"
