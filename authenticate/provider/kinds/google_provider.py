"""Google: gives a refresh token only with `access_type=offline`, and again only after a new consent; wants our secret in the form."""

from dataclasses import replace

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.oidc_provider import OIDCProvider, RevocableTokens
from authenticate.provider.provider_http import ProviderHttp
from databroker.records import SessionRecord


class GoogleProvider(OIDCProvider):
    default_scopes = ("openid", "profile", "email")
    default_params = {"prompt": "select_account consent"}
    pressing_prompt = "select_account"  # it knows no `login`

    def revocable_tokens(self, session: SessionRecord, discovery: DiscoveryDocument) -> RevocableTokens:
        """No token: each stands for all that the person has granted to us, and its end would be that of their other browsers, too."""
        return ()

    async def discovery(self, http: ProviderHttp) -> DiscoveryDocument:
        return replace(await super().discovery(http), token_auth_methods=frozenset({"client_secret_post"}))
