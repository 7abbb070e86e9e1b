"""Directory registry: the vendor's directory of each kind of provider, a written list."""

from collections.abc import Callable

from authenticate.directory.vendors.auth0 import Auth0Directory
from authenticate.directory.vendors.azure import AzureDirectory
from authenticate.directory.vendors.github import GitHubDirectory
from authenticate.directory.vendors.gitlab import GitLabDirectory
from authenticate.directory.vendors.google import GoogleDirectory
from authenticate.directory.vendors.okta import OktaDirectory
from authenticate.directory.vendors.onelogin import OneLoginDirectory
from authenticate.directory.vendors.vendor import Vendor
from config.options import Options
from config.settings.directory import account_of

DIRECTORIES: dict[str, type[Vendor]] = {
    "google": GoogleDirectory,
    "azure": AzureDirectory,
    "okta": OktaDirectory,
    "onelogin": OneLoginDirectory,
    "github": GitHubDirectory,
    "gitlab": GitLabDirectory,
    "auth0": Auth0Directory,
}


def vendor_of(options: Options, clock: Callable[[], float]) -> Vendor | None:
    """The directory of the configured provider; None where the options give no credentials for one."""
    account = account_of(options)
    return DIRECTORIES[options.first_provider.kind](options, account, clock) if account is not None else None
