"""Generic OpenID Connect provider (`idp_provider: oidc`), of which only its discovery document is known; behind it may be a Keycloak.

At Keycloak all of a person's sessions hang together, and offline ones outlive them.  Measured with 26.0: a refresh token comes with every
sign-in; revoking one ends that person's sessions of this client in all browsers; `end_session_endpoint` ends the one session, but none
that was asked for with `offline_access`.
"""

from urllib.parse import urlsplit

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.oidc_provider import OIDCProvider, RevocableTokens
from databroker.records import SessionRecord

KEYCLOAK_SCOPES = ("openid", "profile", "email")


class GenericProvider(OIDCProvider):
    """Any provider.  Which scopes it has is unknown, and some (Cognito) refuse a sign-in that asks for one too many."""

    def asked_scopes(self, discovery: DiscoveryDocument) -> tuple[str, ...]:
        usual = KEYCLOAK_SCOPES if is_keycloak(discovery) else self.default_scopes
        if self.scopes or not discovery.scopes:
            return self.scopes or usual
        return tuple(scope for scope in usual if scope == "openid" or scope in discovery.scopes)

    def tells_email_verified(self, discovery: DiscoveryDocument) -> bool:
        """As the document says; Keycloak always does, with an address, though `claims_supported` does not list it."""
        return is_keycloak(discovery) or super().tells_email_verified(discovery)

    def revocable_tokens(self, session: SessionRecord, discovery: DiscoveryDocument) -> RevocableTokens:
        """Of Keycloak the access token alone: the session's own sign-out has ended its refresh token."""
        return ((session.access_token, "access_token"),) if is_keycloak(discovery) else super().revocable_tokens(session, discovery)


def is_keycloak(discovery: DiscoveryDocument) -> bool:
    issuer, endpoint = urlsplit(discovery.issuer), urlsplit(discovery.token_endpoint)
    # The host may be another: one that only servers reach.
    return "/realms/" in issuer.path and endpoint.path == f"{issuer.path}/protocol/openid-connect/token"
