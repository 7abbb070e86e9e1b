"""Group sources: the origin of a provider's groups, and the check that the policy's groups have one."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from config.parsing.document import KeyPath, parse_key_path
from config.routes.policy.policy_language import iter_comparisons
from config.settings.directory_account import PROVIDERS_WITH_DIRECTORY, DirectoryAccount, parse_account, tenant_from_url
from config.settings.identity_providers import provider_entries
from config.settings.provider_entry import IdentityProvider
from config.validation import Finding
from foundation.values import SecretText

if TYPE_CHECKING:
    from config.options import Options

_PROVIDER_GROUP_SOURCES = "service_account, scim_token, directory_file or groups_claim of a provider in identity_providers"


def directory_account_for(settings: "Options", entry: IdentityProvider) -> DirectoryAccount | None:
    """Return the account that reads a provider's directory; None if it is not read. Raises ValueError if it is invalid."""
    if entry.service_account is not None:
        return parse_account(entry.provider, entry.service_account.reveal())
    has_other_source = entry.directory_file or entry.scim_token or entry.groups_claim
    if settings.identity_providers is not None or entry.provider != "azure" or has_other_source:
        return None
    if not any(group_rule_locations(settings)) or not (tenant := tenant_from_url(entry.url)):
        return None
    # As in Pomerium, the client of the sign-in may also be allowed to read the directory.
    client = {"client_id": SecretText(entry.client_id), "client_secret": entry.client_secret or SecretText("")}
    return DirectoryAccount({**client, "directory_id": SecretText(tenant)})


def has_group_records(settings: "Options", entry: IdentityProvider) -> bool:
    """Return whether a directory has the groups of every user, so that the groups of a user without a record are unknown.

    A file is complete: a user who is not in it has no groups. With split services, another process may have the credentials.
    """
    if entry.scim_token or entry.directory_file:
        return bool(entry.scim_token)
    may_be_elsewhere = settings.services != "all" and entry.provider in PROVIDERS_WITH_DIRECTORY and not entry.groups_claim
    return may_be_elsewhere or entry.service_account is not None or directory_account_for(settings, entry) is not None


def has_directory(settings: "Options", entry: IdentityProvider) -> bool:
    return entry.directory_file is not None or has_group_records(settings, entry)


def expects_groups_claim(settings: "Options", entry: IdentityProvider) -> bool:
    """Return whether every user should have the claim, so that the groups of a user without it are unknown.

    It is false if the claim is only the default next to a directory.
    """
    is_fallback = settings.identity_providers is None and settings.groups_claim is None and (entry.directory_file or entry.scim_token)
    return bool(entry.groups_claim) and not is_fallback


def group_rule_locations(settings: "Options") -> Iterator[KeyPath]:
    """Yield the key paths of rules that use groups."""
    if settings.admin_allowed_groups:
        yield ("admin_allowed_groups",)
    for index, route in enumerate(settings.policy):
        keys = {parse_key_path(comparison.key)[0] for comparison in iter_comparisons(route.blocks) if comparison.criterion == "groups"}
        yield from (("policy", index, key) for key in sorted(keys, key=str))


def check_group_source(settings: "Options") -> Iterator[Finding]:
    if any(entry.groups_claim or has_directory(settings, entry) for entry in provider_entries(settings)):
        return
    for place in group_rule_locations(settings):
        yield place, f"requires {describe_group_sources(settings)}: without them no user has groups"


def describe_group_sources(settings: "Options") -> str:
    """Return the settings that provide groups as text; one of them is needed."""
    if settings.identity_providers is not None:
        return _PROVIDER_GROUP_SOURCES
    ways = "scim_token, directory_file or groups_claim"
    return f"idp_service_account, {ways}" if settings.idp_provider in PROVIDERS_WITH_DIRECTORY else ways
