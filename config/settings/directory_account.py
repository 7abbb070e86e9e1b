"""Directory account: the credentials in `idp_service_account`, by provider. Errors contain nothing of them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from config.fields.cloud_service_account import CloudServiceAccount, service_account
from foundation.values import SecretText

# Provider -> members of the JSON object.
ACCOUNT_FIELDS: Mapping[str, tuple[str, ...]] = {
    "auth0": ("client_id", "secret"),
    "azure": ("client_id", "client_secret", "directory_id"),
    "github": ("personal_access_token",),
    "gitlab": ("private_token",),
    "okta": ("api_key",),
    "onelogin": ("client_id", "client_secret"),
}
PROVIDERS_WITH_DIRECTORY = frozenset({*ACCOUNT_FIELDS, "google"})
_KEY = re.compile(r"[!-~]{1,4096}")
# Id of a directory, or one of its domains: it becomes part of a URL.
_TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
_SHARED_TENANTS = frozenset({"common", "organizations", "consumers"})


@dataclass(frozen=True, slots=True)
class DirectoryAccount:
    """Credentials of a directory. `values` are the members by name. `key` and `subject` are for Google: the service account, and the user
    that it impersonates.
    """

    values: Mapping[str, SecretText] = field(repr=False)
    key: CloudServiceAccount | None = None
    subject: str = ""

    def reveal(self, name: str) -> str:
        return self.values[name].reveal()


def expected_fields(provider: str) -> str:
    """Return a description of the account's JSON."""
    if provider == "google":
        return "base64 of a service account's JSON key file with the additional member \"impersonate_user\": an administrator's address"
    shape = json.dumps(dict.fromkeys(ACCOUNT_FIELDS[provider], "..."))
    return f"base64 of the JSON {shape}" + (", or of the API key alone" if provider == "okta" else "")


def parse_account(provider: str, content: bytes, *, key: str = "idp_provider") -> DirectoryAccount:
    """Parse the account of a provider; `key` is the setting for messages. Raises ValueError that describes the expected form."""
    if provider not in PROVIDERS_WITH_DIRECTORY:
        raise ValueError(f"is not supported: {provider} has no directory API. Use directory_file or groups_claim")
    try:
        return _google(content) if provider == "google" else _from_members(provider, _members(provider, content))
    except _NotAnAccount as error:
        raise ValueError(f"{error}. With {key}: {provider} it must be {expected_fields(provider)}") from None


class _NotAnAccount(Exception):
    pass


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise _NotAnAccount("is not JSON") from None
    if not isinstance(document, dict):
        raise _NotAnAccount("is not a JSON object")
    return document


def _members(provider: str, content: bytes) -> dict[str, Any]:
    if provider == "okta" and not content.lstrip().startswith(b"{"):
        return {"api_key": content.strip().decode("ascii", "replace")}
    return _document(content)


def _from_members(provider: str, document: Mapping[str, Any]) -> DirectoryAccount:
    values = {}
    for name in ACCOUNT_FIELDS[provider]:
        value = document.get(name)
        # The values become part of a header or a form, so line breaks and spaces are rejected.
        if not isinstance(value, str) or not _KEY.fullmatch(value):
            raise _NotAnAccount(f"has no valid {name}" if name in document else f"lacks {name}")
        values[name] = SecretText(value)
    if "directory_id" in values and not is_tenant(values["directory_id"].reveal()):
        raise _NotAnAccount("has no valid directory_id")
    return DirectoryAccount(values)


def _google(content: bytes) -> DirectoryAccount:
    subject = _document(content).get("impersonate_user")
    if not isinstance(subject, str) or "@" not in subject or not _KEY.fullmatch(subject):
        raise _NotAnAccount("lacks impersonate_user")
    try:
        return DirectoryAccount({}, service_account(content), subject)
    except ValueError as error:
        raise _NotAnAccount(str(error)) from None


def is_tenant(written: str) -> bool:
    """Return whether the text names a single directory rather than a shared endpoint."""
    return bool(_TENANT.fullmatch(written)) and written not in _SHARED_TENANTS


def tenant_from_url(provider_url: str) -> str:
    """Return the directory in Azure's provider URL, or "" if it names none."""
    tenant = urlsplit(provider_url).path.strip("/").partition("/")[0]
    return tenant if is_tenant(tenant) else ""
