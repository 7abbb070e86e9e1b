"""Generic OpenID Connect provider (`idp_provider: oidc`), of which only its discovery document is known."""

from dataclasses import fields

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.base import OAuthClient
from authenticate.provider.kinds.keycloak import KeycloakProvider, is_keycloak
from authenticate.provider.kinds.oidc import OIDCProvider
from databroker.records import SessionRecord


class GenericProvider(OIDCProvider):
    """Any provider.  Which scopes it has is unknown, and some (Cognito) refuse a sign-in that asks for one too many."""

    def asked_scopes(self, discovery: DiscoveryDocument) -> tuple[str, ...]:
        usual = self._known(discovery).default_scopes
        if self.scopes or not discovery.scopes:
            return self.scopes or usual
        return tuple(scope for scope in usual if scope == "openid" or scope in discovery.scopes)

    def tells_email_verified(self, discovery: DiscoveryDocument) -> bool:
        return self._known(discovery).tells_email_verified(discovery)

    async def revoke(self, client: OAuthClient, discovery: DiscoveryDocument, session: SessionRecord) -> bool:
        return await self._known(discovery).revoke(client, discovery, session)

    def _known(self, discovery: DiscoveryDocument) -> OIDCProvider:
        """The provider as its document gives it away, or as the standard says."""
        kind = KeycloakProvider if is_keycloak(discovery) else OIDCProvider
        return kind(**{field.name: getattr(self, field.name) for field in fields(OIDCProvider)})
