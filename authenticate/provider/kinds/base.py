"""Provider protocol: what identity providers may differ in; everything else is OpenID Connect and the same for all."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.http import ProviderHttp, ProviderResponse
from databroker.records import SessionRecord, UserRecord
from foundation.errors import ProviderError
from foundation.values import SecretText


class AccessRefused(ProviderError):
    """An access token that the provider no longer accepts."""


class ScopeMissing(ProviderError):
    """A valid access token without the scope to ask who its owner is."""


class AnotherPerson(ProviderError):
    """Claims of another person than the one who signed in."""


class MissingScopes(NamedTuple):
    """Scopes that were asked for and not granted: those by which rules see people, and the rest."""

    needed: tuple[str, ...]
    other: tuple[str, ...]


class OAuthClient(Protocol):
    """Our registration at the provider, by which it is asked in our name (RFC 6749 2.3)."""

    @property
    def client_id(self) -> str: ...

    @property
    def http(self) -> ProviderHttp: ...

    def basic_credentials(self) -> dict[str, str]: ...

    async def verified_userinfo(self, token: str, discovery: DiscoveryDocument) -> dict[str, Any]: ...

    async def post_as_client(self, url: str, form: dict[str, str], discovery: DiscoveryDocument) -> ProviderResponse: ...


class Provider(Protocol):
    """An identity provider, and our registration there."""

    @property
    def id(self) -> str: ...  # what the ids of its people begin with

    @property
    def client_id(self) -> str: ...

    @property
    def client_secret(self) -> SecretText: ...

    @property
    def url(self) -> str: ...  # as configured, or the vendor's own

    @property
    def issuer(self) -> str: ...  # as issuer.py compares it

    @property
    def scopes(self) -> tuple[str, ...]: ...  # what the operator chose, if anything

    @property
    def gives_id_token(self) -> bool: ...  # False for plain OAuth 2.0

    @property
    def tokens_last(self) -> bool: ...  # an access token without an expiry is good until it is revoked

    @property
    def request_params(self) -> Mapping[str, str]: ...  # added to the authorization request

    @property
    def pressing_prompt(self) -> str: ...  # the value of `prompt` by which it asks a person again whom it remembers

    @property
    def groups_claim(self) -> str: ...  # "" where claims are not groups

    def missing_scopes(self, asked: Iterable[str], given: str) -> MissingScopes:
        """Scopes that the person, or whoever had the request on its way, took out.  `given` is `scope` of the token response."""
        ...

    def tells_email_verified(self, discovery: DiscoveryDocument) -> bool: ...  # as a rule: who leaves it out does not vouch for the address

    async def discovery(self, http: ProviderHttp) -> DiscoveryDocument: ...

    def asked_scopes(self, discovery: DiscoveryDocument) -> tuple[str, ...]: ...

    async def userinfo(self, client: OAuthClient, discovery: DiscoveryDocument, access_token: str) -> dict[str, Any]:
        """Claims of the userinfo endpoint, {} where it tells nothing; AccessRefused, ScopeMissing, ProviderError."""
        ...

    async def revoke(self, client: OAuthClient, discovery: DiscoveryDocument, session: SessionRecord) -> bool:
        """Revoke the session's tokens; False where it can't, or not without ending other sessions of the person.

        ProviderError where it did not."""
        ...

    def subject(self, claims: Mapping[str, Any]) -> str: ...

    def user(self, claims: Mapping[str, Any], now: float) -> UserRecord:
        """The person whom verified claims describe."""
        ...


def vouches(email_verified: object) -> bool:
    """Whether `email_verified` is true, or "true" (as Cognito writes it): nothing unknown counts as verified."""
    return email_verified is True or (isinstance(email_verified, str) and email_verified.lower() == "true")


def is_verified(claims: Mapping[str, Any]) -> bool | None:
    """Whether the address is verified; None where the provider says nothing about it.

    `email_verified: true` is about the claim `email` only (OpenID Connect Core 5.1), not about an address in `mail`.
    """
    if "email_verified" not in claims:
        return None
    is_vouched = vouches(claims["email_verified"])
    return None if is_vouched and claims.get("mail") and not (isinstance(email := claims.get("email"), str) and email) else is_vouched


def merged(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> dict[str, Any]:
    """Claims of both.  Userinfo is the newer; but an address that either does not vouch for stays unverified."""
    said = [claims["email_verified"] for claims in (id_token, userinfo) if "email_verified" in claims]
    if _replaces_address(id_token, userinfo) and "email_verified" not in userinfo and said:
        said.append(False)  # the ID token vouched for another address, or for none
    doubted = {"email_verified": False} if said and not all(map(vouches, said)) else {}
    return {**id_token, **userinfo, **doubted}


def _replaces_address(id_token: Mapping[str, Any], userinfo: Mapping[str, Any]) -> bool:
    return "email" in userinfo and id_token.get("email") != userinfo["email"]
