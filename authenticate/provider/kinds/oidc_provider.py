"""OpenID Connect provider by the standard; the others are this one, with their differences."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from authenticate.provider.discovery import DiscoveryDocument, fetched
from authenticate.provider.email_verification import is_verified
from authenticate.provider.provider_errors import AccessRefused, ScopeMissing
from authenticate.provider.provider_http import ProviderHttp, ProviderResponse
from authenticate.provider.token_response import bearer_error, error_code, error_text
from config.issuers import DEFAULT_URLS, expected_issuer
from config.provider_config import ProviderConfig
from databroker.records import SessionRecord, UserRecord, issuer_in
from foundation.errors import ProviderError
from foundation.values import SecretText

if TYPE_CHECKING:
    from authenticate.provider.provider_client import ProviderClient

RevocableTokens = tuple[tuple[str, str], ...]  # (token, its type hint)

NONE: Mapping[str, str] = MappingProxyType({})
# RFC 7009 2.2.1, for access tokens that only expire; and what Google says of one that went with its refresh token.
_NOTHING_TO_REVOKE = frozenset({"unsupported_token_type", "invalid_token"})
# The ID token itself proves `openid`; many leave `offline_access` out of the answer, and a refresh token comes or does not.
_UNPROVED = frozenset({"openid", "offline_access"})
# What Google calls `email` and `profile` in its answers, also where it is a generic provider.
_LONG = "https://www.googleapis.com/auth/userinfo."


class MissingScopes(NamedTuple):
    """Requested scopes that were not granted: those that identify the user, and the rest."""

    needed: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True)
class OIDCProvider:
    """The standard's behaviour, and the class that each provider derives from."""

    default_scopes: ClassVar[tuple[str, ...]] = ("openid", "profile", "email", "offline_access")
    default_params: ClassVar[Mapping[str, str]] = NONE
    needed_scopes: ClassVar[tuple[str, ...]] = ("profile", "email", "groups")  # what rules see of a person comes by them
    pressing_prompt: ClassVar[str] = "login"  # the value of `prompt` that makes a remembered user sign in again
    gives_id_token: ClassVar[bool] = True  # False for plain OAuth 2.0
    tokens_last: ClassVar[bool] = False  # an access token without an expiry is valid until it is revoked

    id: str  # the ids of its users begin with it
    kind: str
    url: str  # as configured, or the vendor's own
    client_id: str
    client_secret: SecretText = field(repr=False)
    scopes: tuple[str, ...]  # () where the operator chose none
    request_params: Mapping[str, str]  # added to the authorization request
    groups_claim: str  # "" where claims are not groups

    @classmethod
    def of(cls, configured: ProviderConfig) -> Self:
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
        """The issuer as issuer.py compares it."""
        return expected_issuer(self.kind, self.url)

    async def discovery(self, http: ProviderHttp) -> DiscoveryDocument:
        return await fetched(http, self.url, self.issuer)

    def asked_scopes(self, discovery: DiscoveryDocument) -> tuple[str, ...]:
        return self.scopes or self.default_scopes

    def missing_scopes(self, asked: Iterable[str], given: str) -> MissingScopes:
        """Scopes that the person, or whoever had the request on its way, took out.  `given` is `scope` of the token response."""
        asked = tuple(asked)
        asked_names, given_names = self.scope_names(" ".join(asked)), self.scope_names(given)
        needed = tuple(name for name in self.needed_scopes if name in asked_names and name not in given_names)
        other = (scope for scope in asked if not self.scope_names(scope) <= given_names | _UNPROVED)
        return MissingScopes(needed, tuple(scope for scope in other if scope not in needed))

    def scope_names(self, scopes: str) -> frozenset[str]:
        """Scope names as they are called everywhere, whoever wrote them; some providers write commas between them."""
        return frozenset(name.removeprefix(_LONG) for name in re.split(r"[,\s]+", scopes) if name)

    def tells_email_verified(self, discovery: DiscoveryDocument) -> bool:
        """Return True if this provider as a rule says whether an address is verified: one without the mark is not."""
        return discovery.tells_email_verified

    async def userinfo(self, client: "ProviderClient", discovery: DiscoveryDocument, access_token: str) -> dict[str, Any]:
        """Claims of the userinfo endpoint, {} where it tells nothing; AccessRefused, ScopeMissing, ProviderError."""
        if not discovery.userinfo_endpoint:
            return {}
        answer = await client.http.get(discovery.userinfo_endpoint, {"Authorization": f"Bearer {access_token}"})
        # RFC 6750 3.1 gives each error a status, but not everybody keeps to it.
        error = bearer_error(answer) if answer.status in (400, 401, 403) else ""
        if answer.status == 401 or error == "invalid_token":
            raise AccessRefused("the provider's userinfo endpoint rejected the access token")
        if error == "insufficient_scope":
            raise ScopeMissing("the access token lacks the scope for the provider's userinfo endpoint (openid)")
        if answer.status != 200:
            raise ProviderError(f"the provider's userinfo endpoint returned status {answer.status}: {error_text(answer)}")
        if answer.media_type == "application/jwt":  # OpenID Connect Core 5.3.2
            return await client.verified_userinfo(_text_of(answer), discovery)
        try:
            return answer.json()
        except ProviderError as error:
            raise ProviderError("the provider's userinfo response is neither a JSON object nor a signed JWT (application/jwt)") from error

    async def revoke(self, client: "ProviderClient", discovery: DiscoveryDocument, session: SessionRecord) -> bool:
        """Revoke the session's tokens; False where it can't, or not without ending other sessions of the person.

        ProviderError where it did not."""
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
        """(token, type hint) of tokens that are this session's alone, in order; "" is none.  The refresh token first: it can bring new
        others.
        """
        return ((session.refresh_token, "refresh_token"), (session.access_token, "access_token"))

    def user(self, claims: Mapping[str, Any], now: float) -> UserRecord:
        """The person whom verified claims describe."""
        return UserRecord(
            id=f"{self.id}/{self.subject(claims)}",
            email=self.email(claims),
            email_verified=is_verified(claims),
            name=_text(claims.get("name")) or _text(claims.get("given_name")) or _text(claims.get("preferred_username")),
            claims=claims,
            last_sign_in_at=now,
            issuer=issuer_in(claims) or self.issuer,
        )

    def subject(self, claims: Mapping[str, Any]) -> str:
        return str(claims["sub"])

    def email(self, claims: Mapping[str, Any]) -> str:
        mail = _text(claims.get("mail"))  # as Ping names it
        return _text(claims.get("email")) or (mail if "@" in mail else "")


def _text_of(answer: ProviderResponse) -> str:
    return answer.body.decode("ascii", errors="replace").strip()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
