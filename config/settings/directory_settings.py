"""Settings of the directory: source of users and groups, credentials, interval and rate limit."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from config.fields.basic_types import File, Number, PositiveDuration, base64_bytes, text, value_or_file
from config.fields.field_type import TEXT, WEB_URL, FieldType
from config.settings.directory_account import parse_account
from config.validation import Finding, Rule, Settings
from foundation.values import SecretBytes, is_encrypted_or_local, parse_url

if TYPE_CHECKING:
    from config.options import Options

_MIN_RATE = Decimal("0.01")


def _account(value: Any) -> SecretBytes:
    """Parse base64 of the JSON, or the JSON itself."""
    if isinstance(value, SecretBytes):
        return value
    written = text(value).strip()
    return SecretBytes(written.encode() if written.startswith("{") else base64_bytes(written))


AccountContent = Annotated[SecretBytes, FieldType("string", _account, TEXT)]


def _directory_url(value: Any) -> str:
    written = text(value)
    url = parse_url(written)
    if not is_encrypted_or_local(url.scheme, url.host):
        raise ValueError("the scheme must be https (http is accepted for a directory on this machine only)")
    if url.query:
        raise ValueError("must not contain a query")
    return written.rstrip("/")


DirectoryUrl = Annotated[str, FieldType("URL", _directory_url, WEB_URL)]


def _rate(rate: Decimal) -> Decimal:
    if rate < _MIN_RATE:
        raise ValueError(f"must be a number of requests per second, at least {_MIN_RATE}")
    return rate


def _account_key(settings: "Options") -> str:
    return "idp_service_account_file" if settings.idp_service_account_file else "idp_service_account"


def _check_service_account(settings: "Options") -> Iterator[Finding]:
    if settings.idp_service_account is None:
        return
    try:
        parse_account(settings.idp_provider, settings.idp_service_account.reveal())
    except ValueError as error:
        yield (_account_key(settings),), str(error)


def _check_single_directory(settings: "Options") -> Iterator[Finding]:
    """Each of two sources would remove the records of the other."""
    account = settings.idp_service_account is not None
    is_set = {"scim_token": settings.scim_token, "directory_file": settings.directory_file, _account_key(settings): account}
    first, *others = [key for key, value in is_set.items() if value] or [""]
    for other in others:
        yield (first,), f"cannot be combined with {other}. Configure one directory source"


class DirectorySettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (_check_service_account, _check_single_directory)

    idp_service_account_file: File | None = Field(
        None, description="File form of `idp_service_account`, in JSON.", examples=["idp-account.json"]
    )
    idp_service_account: Annotated[AccountContent | None, value_or_file("idp_service_account_file", SecretBytes)] = Field(
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
    idp_qps: Annotated[Number, AfterValidator(_rate)] | None = Field(
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
