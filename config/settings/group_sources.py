"""Group sources: where the groups of a provider's users come from, and whether those that rules name come from anywhere."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from config.parsing.document import KeyPath, path_of
from config.routes.policy.policy_language import iter_comparisons
from config.settings.directory_account import PROVIDERS_WITH_DIRECTORY, DirectoryAccount, parse, tenant_of
from config.settings.identity_providers import provider_entries
from config.settings.provider_entry import IdentityProvider
from config.validation import Finding
from foundation.values import SecretText

if TYPE_CHECKING:
    from config.options import Options

_WAYS_OF_ENTRIES = "service_account, scim_token, directory_file or groups_claim of a provider in identity_providers"


def account_of(settings: "Options", entry: IdentityProvider) -> DirectoryAccount | None:
    """Account with which the directory of a provider is read; None where it is not read.  ValueError for unusable ones."""
    if entry.service_account is not None:
        return parse(entry.provider, entry.service_account.reveal())
    is_told_otherwise = entry.directory_file or entry.scim_token or entry.groups_claim
    if settings.identity_providers is not None or entry.provider != "azure" or is_told_otherwise:
        return None
    if not any(wanted_groups(settings)) or not (tenant := tenant_of(entry.url)):
        return None
    # As in the reference: the client of the sign-in may be allowed to read the directory, too.
    client = {"client_id": SecretText(entry.client_id), "client_secret": entry.client_secret or SecretText("")}
    return DirectoryAccount({**client, "directory_id": SecretText(tenant)})


def groups_are_recorded(settings: "Options", entry: IdentityProvider) -> bool:
    """Whether a directory tells the groups of everybody of a provider, so that they are unknown of whom it has no record.

    A file is complete: who is not in it is in no group of it.  In split mode another process may have the credentials.
    """
    if entry.scim_token or entry.directory_file:
        return bool(entry.scim_token)
    may_be_elsewhere = settings.services != "all" and entry.provider in PROVIDERS_WITH_DIRECTORY and not entry.groups_claim
    return may_be_elsewhere or entry.service_account is not None or account_of(settings, entry) is not None


def has_directory(settings: "Options", entry: IdentityProvider) -> bool:
    return entry.directory_file is not None or groups_are_recorded(settings, entry)


def groups_are_claimed(settings: "Options", entry: IdentityProvider) -> bool:
    """Whether everybody of a provider is to have the claim, so that whoever lacks it has groups that nobody told.  Not where it only stands
    by for a directory.
    """
    stands_by = settings.identity_providers is None and settings.groups_claim is None and (entry.directory_file or entry.scim_token)
    return bool(entry.groups_claim) and not stands_by


def wanted_groups(settings: "Options") -> Iterator[KeyPath]:
    """Places where groups are asked for."""
    if settings.admin_allowed_groups:
        yield ("admin_allowed_groups",)
    for index, route in enumerate(settings.policy):
        keys = {path_of(comparison.key)[0] for comparison in iter_comparisons(route.blocks) if comparison.criterion == "groups"}
        yield from (("policy", index, key) for key in sorted(keys, key=str))


def groups_come_from_somewhere(settings: "Options") -> Iterator[Finding]:
    if any(entry.groups_claim or has_directory(settings, entry) for entry in provider_entries(settings)):
        return
    for place in wanted_groups(settings):
        yield place, f"requires {ways_to_groups(settings)}: without them no user has groups"


def ways_to_groups(settings: "Options") -> str:
    """The settings that tell groups, of which one is needed, in words."""
    if settings.identity_providers is not None:
        return _WAYS_OF_ENTRIES
    ways = "scim_token, directory_file or groups_claim"
    return f"idp_service_account, {ways}" if settings.idp_provider in PROVIDERS_WITH_DIRECTORY else ways
