"""Configuration of an identity provider: its ids, its kind, its credentials, and the records that come from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.issuers import DEFAULT_URLS, expected_issuer
from config.settings.group_sources import expects_groups_claim, has_directory, has_group_records
from config.settings.identity_providers import UNUSED, provider_entries
from config.settings.linked_accounts import VERIFIED_EMAIL
from config.settings.provider_entry import IdentityProvider
from foundation.email_address import canonical_email
from foundation.values import SecretText, WatchedFile

if TYPE_CHECKING:
    from config.options import Options


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """Configuration of an identity provider.

    `id` is the prefix of its users' ids, `kind` a value of `idp_provider`. `request_params` is None if the kind's defaults apply.
    `expects_groups_claim`: every user should have the claim `groups_claim`. `has_group_records`: a directory has the groups of every user.
    `has_directory`: a directory may have records of its users; otherwise leftover records are ignored. `domains` is None if the provider
    may assert any email address. `links_by_email`: an address in `domains` identifies a user across providers
    (config/settings/linked_accounts.py); with `trusts_email`, also without the claim `email_verified`. `is_only_provider`: no other
    provider is configured. `is_entry`: it is an entry of `identity_providers`.
    """

    id: str
    kind: str
    url: str
    client_id: str
    client_secret: SecretText = field(repr=False)
    scopes: tuple[str, ...] = ()
    request_params: Mapping[str, str] | None = None
    groups_claim: str = ""
    expects_groups_claim: bool = False
    has_group_records: bool = False
    domains: frozenset[str] | None = None
    links_by_email: bool = False
    trusts_email: bool = False
    is_only_provider: bool = True
    has_directory: bool = True
    directory_url: str = ""
    directory_file: Path | None = None
    scim_tokens: tuple[SecretText, ...] = field(default=(), repr=False)
    scim_user_id: str = "externalId"
    scim_group_id: str = "externalId"
    is_entry: bool = False
    title: str = ""
    icon: str | WatchedFile | None = None

    @property
    def display_name(self) -> str:
        """Name on pages."""
        return self.title or self.id

    @property
    def has_scim(self) -> bool:
        """Whether the provider may push users and groups (SCIM)."""
        return bool(self.scim_tokens)

    @property
    def record_id_prefix(self) -> str:
        """Prefix of the ids of its directory records. Two providers may use the same group id."""
        return f"{self.id}/" if self.is_entry else ""

    def owns_domain(self, domain: str) -> bool:
        """Return whether the provider may assert addresses of this exact domain."""
        return self.domains is None or domain in self.domains

    def owns_address(self, email: Any) -> bool:
        """Return whether the provider may assert this email address, in any spelling."""
        return self.domains is None or self.owns_domain(canonical_email(email).rpartition("@")[2])

    def deactivation_id(self, user_id: str) -> str:
        """Return the id of the directory record that deactivates the account `user_id`.

        A SCIM userName is not case-exact (RFC 7643, 4.1.1), so all spellings share one id. Ids that grant access are compared exactly.
        """
        if self.scim_user_id != "userName":
            return user_id
        provider, slash, subject = user_id.partition("/")
        return f"{provider}{slash}{subject.casefold()}"

    @property
    def issuer(self) -> str:
        return expected_issuer(self.kind, self.url or DEFAULT_URLS.get(self.kind, ""))


def provider_for_user(user_id: str, providers: Mapping[str, ProviderConfig]) -> ProviderConfig | None:
    """Return the provider of an account; None if it is no longer configured."""
    return providers.get(user_id.partition("/")[0])


def owned_email_for(email: str, user_id: str, providers: Mapping[str, ProviderConfig]) -> str:
    """Return the account's email address, or "" if its provider may not assert that address.

    An address that is not owned is neither displayed nor used to find the user.
    """
    provider = provider_for_user(user_id, providers)
    return email if provider is not None and provider.owns_address(email) else ""


def build_providers(settings: "Options") -> Mapping[str, ProviderConfig]:
    """Return the providers by id, in the order of the configuration."""
    entries = provider_entries(settings)
    return {entry.id: _configured(settings, entry, is_sole=len(entries) == 1) for entry in entries}


def _configured(settings: "Options", entry: IdentityProvider, *, is_sole: bool) -> ProviderConfig:
    is_entry = settings.identity_providers is not None
    return ProviderConfig(
        id=entry.id,
        kind=entry.provider,
        url=entry.url,
        client_id=entry.client_id or UNUSED,
        client_secret=entry.client_secret or SecretText(UNUSED),
        scopes=entry.scopes,
        request_params=entry.request_params,
        groups_claim=entry.groups_claim,
        expects_groups_claim=expects_groups_claim(settings, entry),
        has_group_records=has_group_records(settings, entry),
        domains=None if entry.domains is None else frozenset(entry.domains),
        links_by_email=entry.link_by == VERIFIED_EMAIL,
        trusts_email=entry.trust_email,
        is_only_provider=is_sole,
        has_directory=not is_entry or has_directory(settings, entry),
        directory_url=entry.directory_url,
        directory_file=entry.directory_file,
        scim_tokens=entry.scim_token or (),
        scim_user_id=entry.scim_user_id,
        scim_group_id=entry.scim_group_id,
        is_entry=is_entry,
        title=entry.title,
        icon=entry.icon,
    )
