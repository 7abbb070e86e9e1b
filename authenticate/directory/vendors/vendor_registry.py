"""Registry of the directory vendors, by kind of provider."""

from collections.abc import Callable

from authenticate.directory.vendors.auth0_directory import Auth0Directory
from authenticate.directory.vendors.azure_directory import AzureDirectory
from authenticate.directory.vendors.github_directory import GitHubDirectory
from authenticate.directory.vendors.gitlab_directory import GitLabDirectory
from authenticate.directory.vendors.google_directory import GoogleDirectory
from authenticate.directory.vendors.okta_directory import OktaDirectory
from authenticate.directory.vendors.onelogin_directory import OneLoginDirectory
from authenticate.directory.vendors.vendor import Vendor
from config.options import Options
from config.provider_config import ProviderConfig
from config.settings.group_sources import directory_account_for
from config.settings.identity_providers import provider_entries

DIRECTORIES: dict[str, type[Vendor]] = {
    "google": GoogleDirectory,
    "azure": AzureDirectory,
    "okta": OktaDirectory,
    "onelogin": OneLoginDirectory,
    "github": GitHubDirectory,
    "gitlab": GitLabDirectory,
    "auth0": Auth0Directory,
}


def build_vendor(options: Options, provider: ProviderConfig, clock: Callable[[], float]) -> Vendor | None:
    """Return the directory of a configured provider, None if the options contain no credentials for it."""
    account = next(directory_account_for(options, entry) for entry in provider_entries(options) if entry.id == provider.id)
    if account is None:
        return None
    # A data broker may have no provider URL: then it does not know the users' issuer.
    is_known = bool(provider.url) or options.services != "databroker"
    return DIRECTORIES[provider.kind](provider, account, clock, knows_issuer=is_known)
