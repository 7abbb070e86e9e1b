"""Directory registry: the vendor's directory of each kind of provider, a written list."""

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


def vendor_of(options: Options, provider: ProviderConfig, clock: Callable[[], float]) -> Vendor | None:
    """The directory of a configured provider; None where the options give no credentials for it."""
    account = next(directory_account_for(options, entry) for entry in provider_entries(options) if entry.id == provider.id)
    if account is None:
        return None
    # A data broker need not know where people sign in: then it can't say whose they are.
    is_known = bool(provider.url) or options.services != "databroker"
    return DIRECTORIES[provider.kind](provider, account, clock, is_known=is_known)
