"""Settings of the directory: where the provider's users and groups are read, as whom, how often and how fast."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from config.documents.document import path_of
from config.routes.policy.language import comparisons
from config.settings.authorize import claimed_groups
from config.settings.directory_account import PROVIDERS_WITH_DIRECTORY, DirectoryAccount, parse, tenant_of
from config.types.fields import File, Number, PositiveDuration, base64_bytes, or_file, text
from config.types.reader import TEXT, WEB_URL, SettingReader
from config.validation import Finding, Rule, Settings
from foundation.values import SecretBytes, SecretText, is_confidential, parse_url

if TYPE_CHECKING:
    from config.options import Options
    from config.settings.provider_entry import IdentityProvider

_SLOWEST = Decimal("0.01")


def _account(value: Any) -> SecretBytes:
    """Base64, or the JSON as it is."""
    if isinstance(value, SecretBytes):
        return value
    written = text(value).strip()
    return SecretBytes(written.encode() if written.startswith("{") else base64_bytes(written))


AccountContent = Annotated[SecretBytes, SettingReader("string", _account, TEXT)]


def _directory_url(value: Any) -> str:
    written = text(value)
    url = parse_url(written)
    if not is_confidential(url.scheme, url.host):
        raise ValueError("the scheme must be https (http is accepted for a directory on this machine only)")
    if url.query:
        raise ValueError("must not contain a query")
    return written.rstrip("/")


DirectoryUrl = Annotated[str, SettingReader("URL", _directory_url, WEB_URL)]


def _pace(rate: Decimal) -> Decimal:
    if rate < _SLOWEST:
        raise ValueError(f"must be a number of requests per second, at least {_SLOWEST}")
    return rate


def account_key(settings: "Options") -> str:
    return "idp_service_account_file" if settings.idp_service_account_file else "idp_service_account"


def account_of_entry(entry: "IdentityProvider") -> DirectoryAccount | None:
    """Account with which the directory of an entry of `identity_providers` is read; None where it is not read."""
    return parse(entry.provider, entry.service_account.reveal()) if entry.service_account is not None else None


def account_of(settings: "Options") -> DirectoryAccount | None:
    """Account with which the directory of `idp_provider` is read; None where it is not read.  ValueError for unusable ones."""
    if settings.idp_service_account is not None:
        return parse(settings.idp_provider, settings.idp_service_account.reveal())
    if settings.idp_provider != "azure" or settings.directory_file or settings.scim_token or claimed_groups(settings):
        return None
    if not any(wanted_groups(settings)):
        return None
    if not (tenant := tenant_of(settings.idp_provider_url)):
        return None
    # As in the reference: the client of the sign-in may be allowed to read the directory, too.
    client = {"client_id": SecretText(settings.idp_client_id), "client_secret": settings.idp_client_secret}
    return DirectoryAccount({**client, "directory_id": SecretText(tenant)})


def groups_are_recorded(settings: "Options") -> bool:
    """Whether a directory tells everybody's groups, so that they are unknown of whom it has no record.

    A file is complete: who is not in it is in no group of it.  In split mode another process may have the credentials.
    """
    if settings.scim_token or settings.directory_file:
        return bool(settings.scim_token)
    return _may_be_elsewhere(settings, settings.idp_provider, claimed_groups(settings)) or account_of(settings) is not None


def entry_is_recorded(settings: "Options", entry: "IdentityProvider") -> bool:
    """As `groups_are_recorded`, of the people of an entry of `identity_providers`."""
    if entry.directory_file:
        return False
    is_told = bool(entry.scim_token) or entry.service_account is not None
    return is_told or _may_be_elsewhere(settings, entry.provider, entry.groups_claim)


def entry_has_directory(settings: "Options", entry: "IdentityProvider") -> bool:
    return entry.directory_file is not None or entry_is_recorded(settings, entry)


def _may_be_elsewhere(settings: "Options", kind: str, groups_claim: str) -> bool:
    """Whether another process of this gate may have the credentials for a directory that this one does not read."""
    return settings.services != "all" and kind in PROVIDERS_WITH_DIRECTORY and not groups_claim


def wanted_groups(settings: "Options") -> Iterator[tuple[str | int, ...]]:
    """Places where groups are asked for."""
    if settings.admin_allowed_groups:
        yield ("admin_allowed_groups",)
    for index, route in enumerate(settings.policy):
        keys = {path_of(comparison.key)[0] for comparison in comparisons(route.blocks) if comparison.criterion == "groups"}
        yield from (("policy", index, key) for key in sorted(keys, key=str))


def groups_come_from_somewhere(settings: "Options") -> Iterator[Finding]:
    if settings.identity_providers is not None:
        entries = settings.identity_providers
        if not any(entry.groups_claim or entry_has_directory(settings, entry) for entry in entries):
            for place in wanted_groups(settings):
                yield place, f"requires {WAYS_OF_ENTRIES}: without them no user has groups"
        return
    if settings.directory_file or settings.scim_token or claimed_groups(settings) or settings.idp_service_account is not None:
        return
    provider = settings.idp_provider
    if provider == "azure" and tenant_of(settings.idp_provider_url):
        return
    if provider in PROVIDERS_WITH_DIRECTORY and settings.services != "all":
        return  # another process may have the credentials, and this one does well without them
    for place in wanted_groups(settings):
        yield place, f"requires {ways_to_groups(settings)}: without them no user has groups"


WAYS_OF_ENTRIES = "service_account, scim_token, directory_file or groups_claim of a provider in identity_providers"


def ways_to_groups(settings: "Options") -> str:
    """The settings that tell groups, of which one is needed, in words."""
    if settings.identity_providers is not None:
        return WAYS_OF_ENTRIES
    ways = "scim_token, directory_file or groups_claim"
    return f"idp_service_account, {ways}" if settings.idp_provider in PROVIDERS_WITH_DIRECTORY else ways


def _account_is_usable(settings: "Options") -> Iterator[Finding]:
    if settings.idp_service_account is None:
        return
    try:
        parse(settings.idp_provider, settings.idp_service_account.reveal())
    except ValueError as error:
        yield (account_key(settings),), str(error)


def _one_directory(settings: "Options") -> Iterator[Finding]:
    """Two sources would each remove what the other wrote."""
    account = settings.idp_service_account is not None
    is_set = {"scim_token": settings.scim_token, "directory_file": settings.directory_file, account_key(settings): account}
    first, *others = [key for key, value in is_set.items() if value] or [""]
    for other in others:
        yield (first,), f"cannot be combined with {other}. Configure one directory source"


class DirectorySettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_account_is_usable, _one_directory)

    idp_service_account_file: File | None = Field(
        None, description="File form of `idp_service_account`, in JSON.", examples=["idp-account.json"]
    )
    idp_service_account: Annotated[AccountContent | None, or_file("idp_service_account_file", SecretBytes)] = Field(
        None,
        validate_default=True,
        description="Credentials for the provider's directory API, from which gate reads groups: JSON or base64 of it. "
        "docs/guides/groups.md lists the members for each provider.",
        examples=["BASE64-OF-idp-account.json"],
    )
    idp_refresh_directory_timeout: PositiveDuration = Field(
        timedelta(minutes=1),
        description="Maximum time for one read of the directory, waits for rate limits included.",
        examples=["1m"],
    )
    idp_qps: Annotated[Number, AfterValidator(_pace)] | None = Field(
        None,
        description="Maximum number of requests to the directory API per second.",
        examples=[10],
        json_schema_extra={"when_unset": "only the provider's own rate limits"},
    )
    idp_directory_url: DirectoryUrl = Field(
        "",
        description="URL of the directory API, where it cannot be derived from `idp_provider_url`.",
        examples=["https://graph.microsoft.us"],
        json_schema_extra={"when_unset": "derived from the provider (docs/guides/groups.md)"},
    )
