"""OpenID Connect provider with standard behaviour, the base class of the other kinds."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from authenticate.provider.discovery import DiscoveryDocument, fetch
from authenticate.provider.email_verification import email_verified
from authenticate.provider.provider_errors import InsufficientScope, InvalidAccessToken
from authenticate.provider.provider_http import ProviderHttp, ProviderResponse
from authenticate.provider.tokens.token_response import bearer_error, error_code, error_text
from config.issuers import DEFAULT_URLS, expected_issuer
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord, UserRecord, issuer_in
from foundation.errors import ProviderError
from foundation.values import SecretText

if TYPE_CHECKING:
    from authenticate.provider.provider_client import ProviderClient

RevocableTokens = tuple[tuple[str, str], ...]  # (token, its type hint)

NO_PARAMS: Mapping[str, str] = MappingProxyType({})
# RFC 7009 2.2.1, for access tokens that only expire; and Google's error for a token revoked with its refresh token.
_NOTHING_TO_REVOKE = frozenset({"unsupported_token_type", "invalid_token"})
# The ID token itself proves `openid`. Many providers omit `offline_access` in the response, so it can't be verified.
_UNVERIFIABLE_SCOPES = frozenset({"openid", "offline_access"})
# Google's prefix of `email` and `profile` in responses, also when it is configured as a generic provider.
_GOOGLE_SCOPE_PREFIX = "https://www.googleapis.com/auth/userinfo."


class MissingScopes(NamedTuple):
    """Requested scopes that were not granted: those that identify the user, and the rest."""

    required: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True)
class OIDCProvider:
    """Standard behaviour, and the base class of each provider kind."""

    default_scopes: ClassVar[tuple[str, ...]] = ("openid", "profile", "email", "offline_access")
    default_params: ClassVar[Mapping[str, str]] = NO_PARAMS
    required_scopes: ClassVar[tuple[str, ...]] = ("profile", "email", "groups")  # rules need the claims of these
    reauthentication_prompt: ClassVar[str] = "login"  # the value of `prompt` that makes a remembered user sign in again
    issues_id_token: ClassVar[bool] = True  # False for plain OAuth 2.0
    access_tokens_never_expire: ClassVar[bool] = False  # an access token without an expiry is valid until it is revoked

    id: str  # the prefix of its users' ids
    kind: str
    url: str  # as configured, or the vendor's default
    client_id: str
    client_secret: SecretText = field(repr=False)
    scopes: tuple[str, ...]  # () if not configured
    request_params: Mapping[str, str]  # added to the authorization request
    groups_claim: str  # "" if no claim has groups

    @classmethod
    def from_config(cls, configured: ProviderConfig) -> Self:
        params = cls.default_params if configured.request_params is None else configured.request_params
        return cls(
            id=configured.id,
            kind=configured.kind,
            url=configured.url or DEFAULT_URLS.get(configured.kind, ""),
            client_id=configured.client_id,
            client_secret=configured.client_secret,
            scopes=configured.scopes,
            request_params={"access_type": "offline", **params},
            groups_claim=configured.groups_claim,
        )

    @property
    def issuer(self) -> str:
        """The issuer as compared by issuer.py."""
        return expected_issuer(self.kind, self.url)

    async def discovery(self, http: ProviderHttp) -> DiscoveryDocument:
        return await fetch(http, self.url, self.issuer)

    def requested_scopes(self, discovery: DiscoveryDocument) -> tuple[str, ...]:
        return self.scopes or self.default_scopes

    def missing_scopes(self, requested: Iterable[str], granted: str) -> MissingScopes:
        """Return the requested scopes that are missing in `granted`, the `scope` of the token response.

        The user can decline scopes, or remove them from the request in the browser.
        """
        requested = tuple(requested)
        requested_names, granted_names = self.scope_names(" ".join(requested)), self.scope_names(granted)
        needed = tuple(name for name in self.required_scopes if name in requested_names and name not in granted_names)
        other = (scope for scope in requested if not self.scope_names(scope) <= granted_names | _UNVERIFIABLE_SCOPES)
        return MissingScopes(needed, tuple(scope for scope in other if scope not in needed))

    def scope_names(self, scopes: str) -> frozenset[str]:
        """Return the normalized scope names. Some providers separate them by commas."""
        return frozenset(name.removeprefix(_GOOGLE_SCOPE_PREFIX) for name in re.split(r"[,\s]+", scopes) if name)

    def may_return_email_verified(self, discovery: DiscoveryDocument) -> bool:
        """Return whether this provider reports verification of addresses. If so, an address without the claim is unverified."""
        return discovery.may_return_email_verified

    async def userinfo(self, client: "ProviderClient", discovery: DiscoveryDocument, access_token: str) -> dict[str, Any]:
        """Return the claims of the userinfo endpoint, {} if there is none.

        Raises InvalidAccessToken, InsufficientScope or ProviderError.
        """
        if not discovery.userinfo_endpoint:
            return {}
        answer = await client.http.get(discovery.userinfo_endpoint, {"Authorization": f"Bearer {access_token}"})
        # RFC 6750 3.1 defines a status for each error, but some providers deviate.
        error = bearer_error(answer) if answer.status in (400, 401, 403) else ""
        if answer.status == 401 or error == "invalid_token":
            raise InvalidAccessToken("the provider's userinfo endpoint rejected the access token")
        if error == "insufficient_scope":
            raise InsufficientScope("the access token lacks the scope for the provider's userinfo endpoint (openid)")
        if answer.status != 200:
            raise ProviderError(f"the provider's userinfo endpoint returned status {answer.status}: {error_text(answer)}")
        if answer.media_type == "application/jwt":  # OpenID Connect Core 5.3.2
            return await client.verify_userinfo(_ascii_body(answer), discovery)
        try:
            return answer.json()
        except ProviderError as error:
            raise ProviderError("the provider's userinfo response is neither a JSON object nor a signed JWT (application/jwt)") from error

    async def revoke(self, client: "ProviderClient", discovery: DiscoveryDocument, session: SessionRecord) -> bool:
        """Revoke the session's tokens. Return False if none can be revoked without ending other sessions of the user.

        Raises ProviderError if the revocation fails.
        """
        if not discovery.revocation_endpoint:
            return False
        revocable = [(token, hint) for token, hint in self.revocable_tokens(session, discovery) if token]
        for token, hint in revocable:
            answer = await client.post_as_client(discovery.revocation_endpoint, {"token": token, "token_type_hint": hint}, discovery)
            if answer.status != 200 and error_code(answer) not in _NOTHING_TO_REVOKE:
                raise ProviderError(
                    f"the provider's revocation endpoint returned status {answer.status} for the {hint}: {error_text(answer)}"
                )
        return bool(revocable)

    def revocable_tokens(self, session: SessionRecord, discovery: DiscoveryDocument) -> RevocableTokens:
        """Return (token, type hint) of the tokens that belong to this session only, in order; "" is absent.

        The refresh token is first, because it can obtain new access tokens.
        """
        return ((session.refresh_token, "refresh_token"), (session.access_token, "access_token"))

    def user(self, claims: Mapping[str, Any], now: float) -> UserRecord:
        """Return the user that verified claims describe."""
        return UserRecord(
            id=f"{self.id}/{self.subject(claims)}",
            email=self.email(claims),
            email_verified=email_verified(claims),
            name=_text(claims.get("name")) or _text(claims.get("given_name")) or _text(claims.get("preferred_username")),
            claims=claims,
            last_sign_in_at=now,
            issuer=issuer_in(claims) or self.issuer,
        )

    def subject(self, claims: Mapping[str, Any]) -> str:
        return str(claims["sub"])

    def email(self, claims: Mapping[str, Any]) -> str:
        mail = _text(claims.get("mail"))  # used by Ping
        return _text(claims.get("email")) or (mail if "@" in mail else "")


def _ascii_body(answer: ProviderResponse) -> str:
    return answer.body.decode("ascii", errors="replace").strip()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
