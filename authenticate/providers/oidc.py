"""A generic OpenID Connect provider: what the standard says, nothing else.  The others are this one, with their differences."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from authenticate.discovery import Discovery, fetched
from authenticate.provider_http import ProviderHttp
from authenticate.providers.base import AccessRefused, ScopeMissing, vouches
from authenticate.tokens import bearer_error, error_code
from databroker.records import Session, User
from gateproject.config.authorize import claimed_groups
from gateproject.config.options import Options
from gateproject.errors import ProviderError

if TYPE_CHECKING:
    from authenticate.provider_client import ProviderClient

NONE: Mapping[str, str] = MappingProxyType({})
# RFC 7009 2.2.1, for access tokens that only expire; and what Google says of one that went with its refresh token.
_NOTHING_TO_REVOKE = frozenset({"unsupported_token_type", "invalid_token"})


@dataclass(frozen=True)
class OIDCProvider:
    default_url: ClassVar[str] = ""
    default_scopes: ClassVar[tuple[str, ...]] = ("openid", "profile", "email", "offline_access")
    default_params: ClassVar[Mapping[str, str]] = NONE
    pressing_prompt: ClassVar[str] = "login"
    gives_id_token: ClassVar[bool] = True
    tokens_last: ClassVar[bool] = False

    name: str
    url: str
    scopes: tuple[str, ...]  # () where the operator chose none
    request_params: Mapping[str, str]
    groups_claim: str

    @classmethod
    def from_options(cls, options: Options) -> Self:
        params = options.idp_request_params if "idp_request_params" in options.model_fields_set else cls.default_params
        return cls(
            name=options.idp_provider,
            url=options.idp_provider_url or cls.default_url,
            scopes=options.idp_scopes,
            request_params={"access_type": "offline", **params},
            groups_claim=claimed_groups(options),
        )

    @property
    def issuer(self) -> str:
        return self.url

    async def discovery(self, http: ProviderHttp) -> Discovery:
        return await fetched(http, self.url, self.issuer)

    def asked_scopes(self, discovery: Discovery) -> tuple[str, ...]:
        return self.scopes or self.default_scopes

    async def userinfo(self, http: ProviderHttp, discovery: Discovery, access_token: str) -> dict[str, Any]:
        if not discovery.userinfo_endpoint:
            return {}
        answer = await http.get(discovery.userinfo_endpoint, {"Authorization": f"Bearer {access_token}"})
        # RFC 6750 3.1 gives each error a status, but not everybody keeps to it.
        error = bearer_error(answer) if answer.status in (400, 401, 403) else ""
        if answer.status == 401 or error == "invalid_token":
            raise AccessRefused("the provider's userinfo endpoint does not take the access token")
        if error == "insufficient_scope":
            raise ScopeMissing("the access token lacks the scope for the provider's userinfo endpoint (openid)")
        if answer.status != 200:
            raise ProviderError(f"the provider's userinfo endpoint answered with status {answer.status}")
        return answer.json()

    async def revoke(self, client: "ProviderClient", discovery: Discovery, session: Session) -> bool:
        if not discovery.revocation_endpoint:
            return False
        # The refresh token first: it can bring new access tokens.
        for token, hint in ((session.refresh_token, "refresh_token"), (session.access_token, "access_token")):
            if not token:
                continue
            answer = await client.post_as_client(discovery.revocation_endpoint, {"token": token, "token_type_hint": hint}, discovery)
            if answer.status != 200 and error_code(answer) not in _NOTHING_TO_REVOKE:
                raise ProviderError(f"the provider's revocation endpoint answered with status {answer.status} to the {hint}")
        return True

    def user(self, claims: Mapping[str, Any], now: float) -> User:
        return User(
            id=f"{self.name}/{self.subject(claims)}",
            email=self.email(claims),
            email_verified=is_verified(claims),
            name=_text(claims.get("name")) or _text(claims.get("given_name")) or _text(claims.get("preferred_username")),
            claims=claims,
            last_sign_in=now,
        )

    def subject(self, claims: Mapping[str, Any]) -> str:
        return str(claims["sub"])

    def email(self, claims: Mapping[str, Any]) -> str:
        mail = _text(claims.get("mail"))  # as Ping names it
        return _text(claims.get("email")) or (mail if "@" in mail else "")


class GenericProvider(OIDCProvider):
    """Nobody knows which scopes it has, and some (Cognito) refuse a sign-in that asks for one too many."""

    def asked_scopes(self, discovery: Discovery) -> tuple[str, ...]:
        if self.scopes or not discovery.scopes:
            return self.scopes or self.default_scopes
        return tuple(scope for scope in self.default_scopes if scope == "openid" or scope in discovery.scopes)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def is_verified(claims: Mapping[str, Any]) -> bool | None:
    """None where the provider says nothing about it."""
    return vouches(claims["email_verified"]) if "email_verified" in claims else None
