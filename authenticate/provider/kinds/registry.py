"""Provider registry: the class of each kind of provider, a written list; the configuration accepts no other."""

from authenticate.provider.kinds.auth0 import Auth0Provider
from authenticate.provider.kinds.azure import AzureProvider
from authenticate.provider.kinds.base import Provider
from authenticate.provider.kinds.generic import GenericProvider
from authenticate.provider.kinds.github import GitHubProvider
from authenticate.provider.kinds.gitlab import GitLabProvider
from authenticate.provider.kinds.google import GoogleProvider
from authenticate.provider.kinds.oidc import OIDCProvider
from authenticate.provider.kinds.okta import OktaProvider
from authenticate.provider.kinds.onelogin import OneLoginProvider
from config.identity_provider import ConfiguredProvider

PROVIDERS: dict[str, type[OIDCProvider]] = {
    "oidc": GenericProvider,
    "google": GoogleProvider,
    "azure": AzureProvider,
    "okta": OktaProvider,
    "onelogin": OneLoginProvider,
    "github": GitHubProvider,
    "gitlab": GitLabProvider,
    "auth0": Auth0Provider,
}


def provider_of(configured: ConfiguredProvider) -> Provider:
    return PROVIDERS[configured.kind].of(configured)
