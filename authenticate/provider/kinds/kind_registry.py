"""Registry of provider kinds. The configuration accepts no other kind."""

from authenticate.provider.kinds.azure_provider import AzureProvider
from authenticate.provider.kinds.generic_provider import GenericProvider
from authenticate.provider.kinds.github_provider import GitHubProvider
from authenticate.provider.kinds.google_provider import GoogleProvider
from authenticate.provider.kinds.oidc_provider import OIDCProvider
from config.provider_config import ProviderConfig


class OneLoginProvider(OIDCProvider):
    default_scopes = ("openid", "profile", "email", "groups", "offline_access")  # groups need their own scope


class GitLabProvider(OIDCProvider):
    default_scopes = ("openid", "profile", "email", "api")  # a refresh token is issued without a scope for it
    required_scopes = ("profile", "email", "read_api")  # read_api is for the look-up of groups at sign-in

    def scope_names(self, scopes: str) -> frozenset[str]:
        names = super().scope_names(scopes)
        return names | {"read_api"} if "api" in names else names


PROVIDERS: dict[str, type[OIDCProvider]] = {
    "oidc": GenericProvider,
    "google": GoogleProvider,
    "azure": AzureProvider,
    "okta": OIDCProvider,
    "onelogin": OneLoginProvider,
    "github": GitHubProvider,
    "gitlab": GitLabProvider,
    "auth0": OIDCProvider,
}


def build_provider(configured: ProviderConfig) -> OIDCProvider:
    return PROVIDERS[configured.kind].from_config(configured)
