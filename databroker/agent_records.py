"""Authorization of an agent: the part of a session record that an OAuth client's tokens refer to, and what lists of sessions show of it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

# The newest access tokens of a session: one, and the one before it until it expires.
MAX_ACCESS_TOKENS = 2


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Access token of an agent, without its secret.  `expires_at` is Unix seconds."""

    hash: str = field(repr=False)
    expires_at: float
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuthorizationCode:
    """Authorization code (RFC 6749 4.1.2), without its secret.  It stays in the record, so that its second use is noticed.

    That of a device (RFC 8628) has no redirect URI and no challenge.
    """

    hash: str = field(repr=False)
    expires_at: float
    redirect_uri: str
    code_challenge: str
    redeemed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentAuthorization:
    """Authorization of one client for one protected resource (RFC 8707), by the user of the session.

    Of tokens only SHA-256 hashes are stored.  `lifetime_seconds` is that of the session, from `authorized_at` (Unix seconds); until the
    client redeems its code, the session expires with the code.  `uses_key`: the client had registered a key for its authentication.
    """

    client_id: str
    client_name: str
    resource: str
    scopes: tuple[str, ...]
    authorized_at: float
    lifetime_seconds: float
    code: AuthorizationCode | None = None
    access_tokens: tuple[AccessToken, ...] = ()
    refresh_token_hash: str = field(default="", repr=False)
    refreshed_at: float = 0.0
    uses_key: bool = False

    @property
    def expires_at(self) -> float:
        return self.authorized_at + self.lifetime_seconds

    def to_data(self) -> dict[str, Any]:
        code = self.code
        return {
            "client_id": self.client_id,
            "client_name": self.client_name,
            "resource": self.resource,
            "scopes": list(self.scopes),
            "authorized_at": self.authorized_at,
            "lifetime_seconds": self.lifetime_seconds,
            "code": None
            if code is None
            else {name: getattr(code, name) for name in ("hash", "expires_at", "redirect_uri", "code_challenge", "redeemed_at")},
            "access_tokens": [
                {"hash": token.hash, "expires_at": token.expires_at, "scopes": list(token.scopes)} for token in self.access_tokens
            ],
            "refresh_token_hash": self.refresh_token_hash,
            "refreshed_at": self.refreshed_at,
            "uses_key": self.uses_key,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Return the authorization in the data of a record.  Raises ValueError, TypeError or KeyError for data that cannot be one."""
        code = data.get("code")
        found = cls(
            client_id=data["client_id"],
            client_name=data["client_name"],
            resource=data["resource"],
            scopes=tuple(data["scopes"]),
            authorized_at=data["authorized_at"],
            lifetime_seconds=data["lifetime_seconds"],
            code=None
            if code is None
            else AuthorizationCode(code["hash"], code["expires_at"], code["redirect_uri"], code["code_challenge"], code["redeemed_at"]),
            access_tokens=tuple(
                AccessToken(token["hash"], token["expires_at"], tuple(token["scopes"])) for token in data.get("access_tokens", ())
            ),
            refresh_token_hash=data.get("refresh_token_hash", ""),
            refreshed_at=data.get("refreshed_at", 0.0),
            uses_key=bool(data.get("uses_key", False)),
        )
        if not all(isinstance(text, str) and text for text in (found.client_id, found.client_name, found.resource)):
            raise ValueError("an agent's session needs a client and a resource")
        if not all(math.isfinite(number) for number in (found.authorized_at, found.lifetime_seconds)):
            raise ValueError("an agent's session needs a start and a lifetime")
        return found


class SessionKind(StrEnum):
    BROWSER = "browser"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class SessionClient:
    """Client of a session: a browser, or the OAuth client with the resource and the scopes of its tokens."""

    kind: SessionKind = SessionKind.BROWSER
    client_id: str = ""
    resource: str = ""
    scopes: tuple[str, ...] = ()

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "SessionClient":
        """Return the client in the data of a session record.  Malformed values are left out, because the session is listed anyway."""
        if (agent := data.get("agent")) is None:
            return cls()
        fields = agent if isinstance(agent, Mapping) else {}
        scopes = fields.get("scopes")
        listed = scopes if isinstance(scopes, list | tuple) else ()
        client_id, resource = (str(fields.get(name) or "") for name in ("client_id", "resource"))
        return cls(SessionKind.AGENT, client_id, resource, tuple(map(str, listed)))
