"""Provider registry: the class of each `idp_provider`, a written list; the configuration accepts no other name."""

from authenticate.providers.auth0 import Auth0Provider
from authenticate.providers.azure import AzureProvider
from authenticate.providers.base import Provider
from authenticate.providers.generic import GenericProvider
from authenticate.providers.github import GitHubProvider
from authenticate.providers.gitlab import GitLabProvider
from authenticate.providers.google import GoogleProvider
from authenticate.providers.oidc import OIDCProvider
from authenticate.providers.okta import OktaProvider
from authenticate.providers.onelogin import OneLoginProvider
from config.options import Options

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


def provider_of(options: Options) -> Provider:
    return PROVIDERS[options.idp_provider].from_options(options)
