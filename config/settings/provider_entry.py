"""Entry of `identity_providers`: client, issuer, domains, claims and directory of one provider."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from config.fields.basic_types import Bool, ExistingFile, File, Secret, Text, text, text_list, value_or_file
from config.fields.field_type import LIST, MAP, TEXT, WEB_URL, FieldType, choice_type
from config.issuers import DEFAULT_URLS, expected_issuer
from config.routes.route_bearer_tokens import JWT
from config.routes.route_portal import Icon, Title
from config.settings.authenticate_settings import (
    PROVIDERS,
    PROVIDERS_WITHOUT_URL,
    ScimGroupId,
    ScimTokens,
    ScimUserId,
    Scopes,
    provider_url,
)
from config.settings.authenticate_settings import request_params as read_params
from config.settings.directory_account import parse_account
from config.settings.directory_settings import AccountContent, DirectoryUrl
from config.settings.linked_accounts import VERIFIED_EMAIL
from config.validation import Finding, Rule, Settings
from foundation.values import SecretBytes, SecretText

SERVICE_ACCOUNT = "service_account"
# Id prefixes of principals that no identity provider signs in.
RESERVED_IDS = frozenset({"", JWT, SERVICE_ACCOUNT, VERIFIED_EMAIL})

_ID = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_DOMAIN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)+")


def _id(value: Any) -> str:
    written = text(value)
    if not _ID.fullmatch(written):
        raise ValueError("must be a short lower-case name such as corp: a letter, then letters, digits, - or _")
    if written in RESERVED_IDS:
        raise ValueError(f"{written} is reserved. Choose another id")
    return written


def _domains(value: Any) -> tuple[str, ...]:
    written = tuple(dict.fromkeys(domain.lower() if domain.isascii() else domain for domain in text_list(value)))
    for domain in written:
        if not _DOMAIN.fullmatch(domain):
            raise ValueError(f"{domain!r} is not a domain such as corp.example (write a non-ASCII one as xn--...)")
    return written


def _check_provider_url(entry: "IdentityProvider") -> Iterator[Finding]:
    if not entry.url and entry.provider in PROVIDERS_WITHOUT_URL:
        yield ("url",), "is required: the provider's issuer URL, as in https://idp.example.com"


def _check_openid_scope(entry: "IdentityProvider") -> Iterator[Finding]:
    if entry.scopes and entry.provider != "github" and "openid" not in entry.scopes:
        yield ("scopes",), "must contain openid: without it the provider sends no ID token"


def _check_service_account(entry: "IdentityProvider") -> Iterator[Finding]:
    if entry.service_account is None:
        return
    try:
        parse_account(entry.provider, entry.service_account.reveal(), key="provider")
    except ValueError as error:
        yield (_account_key(entry),), str(error)


def _account_key(entry: "IdentityProvider") -> str:
    return "service_account_file" if entry.service_account_file else "service_account"


def _check_single_directory(entry: "IdentityProvider") -> Iterator[Finding]:
    """Each of two sources would remove the records of the other."""
    scim_key = "scim_token_file" if entry.scim_token_file else "scim_token"
    is_set = {scim_key: entry.scim_token, "directory_file": entry.directory_file, _account_key(entry): entry.service_account is not None}
    first, *others = [key for key, value in is_set.items() if value] or [""]
    for other in others:
        yield (first,), f"cannot be combined with {other}. Configure one directory source"


def _check_trust_email(entry: "IdentityProvider") -> Iterator[Finding]:
    if entry.trust_email and not entry.link_by:
        yield ("trust_email",), "has no effect without link_by. Remove it, or set link_by: verified_email"


class IdentityProvider(Settings):
    """An entry of `identity_providers`."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _check_provider_url,
        _check_openid_scope,
        _check_service_account,
        _check_single_directory,
        _check_trust_email,
    )
    ELSEWHERE: ClassVar[Mapping[str, str]] = {
        "name": "is named `id` here, the prefix of user ids. `title` is the displayed name",
        "issuer": "is named `url` here",
    }

    id: Annotated[str, FieldType("string", _id, {"type": "string", "pattern": f"^{_ID.pattern}$"})] = Field(
        description="Prefix of the users' ids, as in `corp/00u1`. Changing it changes the identity of every user.",
        examples=["corp"],
    )
    provider: Annotated[str, choice_type(*PROVIDERS, hint="oidc for any other provider of OpenID Connect")] = Field(
        description="As `idp_provider`.", examples=["azure"]
    )
    url: Annotated[str, FieldType("URL", provider_url, WEB_URL)] = Field(
        "", description="As `idp_provider_url`.", examples=["https://idp.example.com"]
    )
    client_id: Text = Field("", description="OAuth 2.0 client id.", examples=["gate"])
    client_secret_file: File | None = Field(None, description="File form of `client_secret`.", examples=["corp-client-secret"])
    client_secret: Annotated[
        Secret | None, value_or_file("client_secret_file", lambda content: SecretText(content.decode("utf-8").strip()))
    ] = Field(None, validate_default=True, description="OAuth 2.0 client secret.", examples=["the-secret-that-the-provider-gave-you"])
    scopes: Scopes = Field((), description="As `idp_scopes`.", examples=[["openid", "profile", "email"], "openid,profile,email"])
    request_params: Annotated[Mapping[str, str], FieldType("map string-to-string", read_params, MAP)] | None = Field(
        None, description="As `idp_request_params`.", examples=[{"prompt": "select_account"}]
    )
    groups_claim: Annotated[str, FieldType("string", text, TEXT)] = Field(
        "",
        description="Claim whose values count as groups. Such a provider can assert any group that a rule names: set it only for "
        "providers that may decide who is an administrator.",
        examples=["roles"],
        json_schema_extra={"when_unset": "users have the groups of the provider's directory only"},
    )
    service_account_file: File | None = Field(None, description="File form of `service_account`, in JSON.", examples=["idp-account.json"])
    service_account: Annotated[AccountContent | None, value_or_file("service_account_file", SecretBytes)] = Field(
        None,
        validate_default=True,
        description="As `idp_service_account`. Its groups count in every rule.",
        examples=["BASE64-OF-idp-account.json"],
        json_schema_extra={"when_unset": "no directory is read"},
    )
    directory_url: DirectoryUrl = Field(
        "",
        description="As `idp_directory_url`.",
        examples=["https://graph.microsoft.us"],
        json_schema_extra={"when_unset": "derived from the provider (docs/guides/groups.md)"},
    )
    directory_file: ExistingFile | None = Field(
        None,
        description="As the setting, for users of this provider only.",
        examples=["directory.yaml"],
    )
    scim_token_file: File | None = Field(None, description="File form of `scim_token`, one token per line.", examples=["scim-token"])
    scim_token: ScimTokens = Field(
        None,
        validate_default=True,
        description="As the setting, for this provider's users. Each provider needs its own.",
        examples=["PUT-A-RANDOM-TOKEN-OF-32-CHARACTERS-HERE"],
        json_schema_extra={"when_unset": "SCIM is disabled"},
    )
    scim_user_id: ScimUserId = Field("externalId", description="As the setting.", examples=["userName"])
    scim_group_id: ScimGroupId = Field("externalId", description="As the setting.", examples=["displayName"])
    domains: Annotated[tuple[str, ...] | None, FieldType("list of string", _domains, LIST)] = Field(
        None,
        description="E-mail domains that this provider may assert. Rules and upstreams ignore other addresses. Required with more "
        "than one provider.",
        examples=[["corp.example"], "corp.example,eu.corp.example"],
        json_schema_extra={"when_unset": "all domains, for a single provider"},
    )
    link_by: Annotated[str, choice_type(VERIFIED_EMAIL)] = Field(
        "",
        description="Treats accounts with the same verified address in `domains` at several providers as one user, for upstreams "
        "and access requests. Changes the id that upstreams receive.",
        examples=[VERIFIED_EMAIL],
        json_schema_extra={"when_unset": "each account is a user"},
    )
    trust_email: Bool = Field(
        False,
        description="Counts an address in `domains` as verified for `link_by` if the provider does not send `email_verified`. Only "
        "for a provider whose administrators assign addresses, such as Entra ID: a user who can choose an address "
        "becomes the user who has it at another provider.",
        examples=[True],
    )
    title: Title = Field("", description="Name of the provider on the sign-in page.", examples=["Employees"])
    icon: Icon | None = Field(
        None, description="Icon on that page: a small PNG, an SVG that contains only shapes, or a word.", examples=["people"]
    )

    @property
    def issuer(self) -> str:
        return expected_issuer(self.provider, self.url or DEFAULT_URLS.get(self.provider, ""))
