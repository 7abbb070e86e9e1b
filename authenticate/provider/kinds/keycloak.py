"""Keycloak, which `idp_provider: oidc` finds behind its endpoints: all of a person's sessions hang together, and offline ones outlive them.

Measured with 26.0: a refresh token comes with every sign-in; revoking one ends that person's sessions of this client in all browsers;
`end_session_endpoint` ends the one session, but none that was asked for with `offline_access`.
"""

from urllib.parse import urlsplit

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.oidc import OIDCProvider, RevocableTokens
from databroker.records import SessionRecord


class KeycloakProvider(OIDCProvider):
    default_scopes = ("openid", "profile", "email")

    def tells_email_verified(self, discovery: DiscoveryDocument) -> bool:
        """Always, with an address, though `claims_supported` does not list it."""
        return True

    def revocable_tokens(self, session: SessionRecord) -> RevocableTokens:
        """The access token alone: the session's own sign-out has ended its refresh token."""
        return ((session.access_token, "access_token"),)


def is_keycloak(discovery: DiscoveryDocument) -> bool:
    issuer, endpoint = urlsplit(discovery.issuer), urlsplit(discovery.token_endpoint)
    # The host may be another: one that only servers reach.
    return "/realms/" in issuer.path and endpoint.path == f"{issuer.path}/protocol/openid-connect/token"
