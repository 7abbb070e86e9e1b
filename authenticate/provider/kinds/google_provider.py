"""Google: issues a refresh token only with `access_type=offline` and new consent; expects the client secret in the form."""

from dataclasses import replace

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.oidc_provider import OIDCProvider, RevocableTokens
from authenticate.provider.provider_http import ProviderHttp
from databroker.records import SessionRecord


class GoogleProvider(OIDCProvider):
    default_scopes = ("openid", "profile", "email")
    default_params = {"prompt": "select_account consent"}
    reauthentication_prompt = "select_account"  # it does not support `login`

    def revocable_tokens(self, session: SessionRecord, discovery: DiscoveryDocument) -> RevocableTokens:
        """Return no token, because revoking one would also end the user's sessions in other browsers."""
        return ()

    async def discovery(self, http: ProviderHttp) -> DiscoveryDocument:
        return replace(await super().discovery(http), token_auth_methods=frozenset({"client_secret_post"}))
