"""Google: gives a refresh token only with `access_type=offline`, and again only after a new consent; wants our secret in the form."""

from dataclasses import replace

from authenticate.discovery import Discovery
from authenticate.provider_http import ProviderHttp
from authenticate.providers.oidc import OIDCProvider


class GoogleProvider(OIDCProvider):
    default_url = "https://accounts.google.com"
    default_scopes = ("openid", "profile", "email")
    default_params = {"prompt": "select_account consent"}
    pressing_prompt = "select_account"  # it knows no `login`

    async def discovery(self, http: ProviderHttp) -> Discovery:
        return replace(await super().discovery(http), token_auth_methods=frozenset({"client_secret_post"}))
