"""Records of the data broker: the envelope, and the values inside it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, Self

import structlog

from databroker.agent_records import AgentAuthorization

log = structlog.get_logger(__name__)

SESSION = "session"
USER = "user"
SERVICE_ACCOUNT = "service_account"
DIRECTORY_USER = "directory_user"
DIRECTORY_GROUP = "directory_group"
USED_ID = "used_id"
SIGNING_KEY = "signing_key"
DIRECTORY_RUN = "directory_run"
SESSION_INDEX = "session_index"
LOGOUT_MARKER = "logout_marker"
SAVED_FORM = "saved_form"
SCIM_USER = "scim_user"
SCIM_GROUP = "scim_group"
SCIM_INDEX = "scim_index"
PORTAL_PREFERENCES = "portal_preferences"
PROGRAMMATIC_CLIENT = "programmatic_client"
ACCESS_GRANT = "access_grant"
ACCESS_REQUEST = "access_request"
TOKEN_REFRESH_REQUEST = "token_refresh_request"  # noqa: S105
CONSENT = "consent"
OAUTH_CLIENT = "oauth_client"
DEVICE_AUTHORIZATION = "device_authorization"
UPSTREAM_CONNECTION = "upstream_connection"
UPSTREAM_REFRESH_REQUEST = "upstream_refresh_request"
SERVICE_ACCOUNT_TOKEN = "service_account_token"  # noqa: S105

RECORD_TYPES = (
    SESSION,
    USER,
    SERVICE_ACCOUNT,
    DIRECTORY_USER,
    DIRECTORY_GROUP,
    USED_ID,
    SIGNING_KEY,
    SESSION_INDEX,
    LOGOUT_MARKER,
    SAVED_FORM,
    SCIM_USER,
    SCIM_GROUP,
    SCIM_INDEX,
    DIRECTORY_RUN,
    PORTAL_PREFERENCES,
    PROGRAMMATIC_CLIENT,
    ACCESS_GRANT,
    ACCESS_REQUEST,
    TOKEN_REFRESH_REQUEST,
    CONSENT,
    OAUTH_CLIENT,
    DEVICE_AUTHORIZATION,
    UPSTREAM_CONNECTION,
    UPSTREAM_REFRESH_REQUEST,
    SERVICE_ACCOUNT_TOKEN,
)


@dataclass(frozen=True, slots=True)
class Record:
    """Stored value.  `version` is store-wide and grows by one with each change; times are Unix seconds."""

    type: str
    id: str
    data: Mapping[str, Any] = field(repr=False)  # contains tokens
    version: int
    modified: float
    expires: float | None = None


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


def known_fields(kind: Any, record: Record) -> Mapping[str, Any]:
    """Return the fields of a record that this release knows.

    During an upgrade and after a downgrade, gate reads records of a later release.  Service accounts do not use this function, because
    an unknown field might restrict their access.
    """
    names = _names(kind)
    return record.data if record.data.keys() <= names else {name: value for name, value in record.data.items() if name in names}


# Errors that reading a value from a malformed record raises.
MALFORMED = (TypeError, ValueError, KeyError, AttributeError)


def report_malformed(type: str, id: str, error: Exception) -> None:
    log.warning("malformed record ignored", type=type, id=id, error=error.__class__.__name__)


@dataclass(frozen=True, slots=True)
class RecordValue:
    """Value inside a record, with the fields of a dataclass."""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        return cls(**known_fields(cls, record))

    @classmethod
    def parse(cls, record: Record) -> Self | None:
        """Return the value in a record, or None with a warning if it is malformed, so that the other records remain readable."""
        try:
            return cls.from_record(record)
        except MALFORMED as error:
            report_malformed(record.type, record.id, error)
            return None


@dataclass(frozen=True, slots=True)
class SessionRecord(RecordValue):
    """Session of a browser, or with `agent` of an OAuth client.

    `claims` are those of the ID token, overlaid with those of userinfo; times are Unix seconds.
    """

    id: str
    user_id: str  # "<provider>/<subject>"
    subject: str
    provider: str  # provider id
    issued_at: float
    expires_at: float
    claims: Mapping[str, Any] = field(default_factory=dict)
    id_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    access_token_expires_at: float | None = None
    client_address: str = ""
    user_agent: str = ""
    tokens_received_at: float = 0.0  # time of the last refresh; 0 if the tokens are those of the sign-in
    unverified_id_token: str = field(default="", repr=False)  # from the last refresh, not verified yet
    manually_refreshed_at: float = 0.0
    userinfo_claims: tuple[str, ...] = ()  # names of claims from the userinfo endpoint since the ID token was issued
    linked_session_ids: tuple[str, ...] = ()  # of the same browser and account; they end with this session
    issuer: str = ""  # issuer of the claims
    agent: AgentAuthorization | None = None

    @property
    def effective_issuer(self) -> str:
        """Issuer at the sign-in; "" if unknown."""
        return self.issuer or issuer_in(self.claims)

    @property
    def auth_time(self) -> float:
        return auth_time_in(self.claims, self.issued_at)

    def to_data(self) -> dict[str, Any]:
        data = asdict(replace(self, agent=None))
        del data["agent"]  # a browser's record has no such field
        return data if self.agent is None else {**data, "agent": self.agent.to_data()}

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """Return the session in a record.  Raises ValueError or TypeError if it is malformed."""
        tuples: dict[str, Any] = {name: tuple(record.data.get(name, ())) for name in ("linked_session_ids", "userinfo_claims")}
        if (agent := record.data.get("agent")) is not None:
            tuples["agent"] = AgentAuthorization.from_data(agent)
        session = cls(**{**known_fields(cls, record), **tuples})
        _check_issuer(record)
        for text in (session.id, session.user_id, session.subject, session.provider):
            if not isinstance(text, str) or not text:
                raise ValueError("a session needs an id, a user, a subject and a provider")
        if not (math.isfinite(session.issued_at) and math.isfinite(session.expires_at)):
            raise ValueError("a session needs a start and an end")
        if session.id != record.id or not isinstance(session.claims, Mapping):
            raise ValueError("a session needs its own id, and claims by name")
        return session


def issuer_in(claims: Mapping[str, Any]) -> str:
    """Return `iss` of the ID token, which userinfo cannot replace (authenticate/provider/provider_client.py); "" if absent."""
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def auth_time_in(claims: Mapping[str, Any], issued_at: float) -> float:
    """Return when the user authenticated (`auth_time`, Unix seconds), at most `issued_at`.

    Returns 0 if the claim is missing or invalid, because the provider may have reused an earlier sign-in.
    """
    value = claims.get("auth_time")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return min(max(float(value), 0.0), issued_at)


@dataclass(frozen=True, slots=True)
class UserRecord(RecordValue):
    """User as described by the identity provider; `email_verified` is None if the provider does not send it."""

    id: str  # "<provider>/<subject>"
    email: str = ""
    email_verified: bool | None = None
    name: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    last_sign_in_at: float = 0.0
    issuer: str = ""  # issuer of the claims

    @property
    def effective_issuer(self) -> str:
        return self.issuer or issuer_in(self.claims)


@dataclass(frozen=True, slots=True)
class ServiceAccountRecord(RecordValue):
    """Service account; only a hash of its secret is stored.  The record expires with the account."""

    name: str
    groups: tuple[str, ...]
    created_at: float
    expires_at: float
    secret_hash: str = field(repr=False)
    created_by: str = ""
    rotated_at: float = 0.0
    previous_secret_hash: str = field(default="", repr=False)
    previous_secret_expires_at: float = 0.0
    permissions: tuple[str, ...] = ()  # for the API (databroker/permissions.py)
    # Principals that have seen a secret of this account or of the account that created it: ids and addresses of users, ids of accounts.
    secret_viewers: tuple[str, ...] = ()
    # Hash of the secret with which another account created this one through the API: the account is valid only while that secret is.
    creator_secret_hash: str = field(default="", repr=False)

    @property
    def creator(self) -> str:
        """Name of the account that created it; "" if a user created it."""
        kind, _, name = self.created_by.partition("/")
        return name if kind == SERVICE_ACCOUNT else ""

    def creation_secret_expires_at(self, created: "ServiceAccountRecord") -> float:
        """Return when the secret expires with which this account created `created`; 0 if it is no longer a secret of this account."""
        match created.creator_secret_hash:
            case "":
                return 0.0
            case self.secret_hash:
                return self.expires_at
            case self.previous_secret_hash:
                return min(self.expires_at, self.previous_secret_expires_at)
        return 0.0

    @classmethod
    def from_record(cls, record: Record) -> Self:
        tuples = {name: tuple(record.data.get(name, ())) for name in ("groups", "permissions", "secret_viewers")}
        return cls(**{**record.data, **tuples})


@dataclass(frozen=True, slots=True)
class DirectoryUser(RecordValue):
    """User in the directory: `id` is "<provider>/<subject>", `group_ids` are the ids of the user's groups.

    `is_deactivated`: the provider has deactivated the user by SCIM, so access is denied.
    """

    id: str
    email: str = ""
    name: str = ""
    group_ids: tuple[str, ...] = ()
    is_deactivated: bool = False
    issuer: str = ""  # issuer whose users the directory describes; "" for the operator's file, which applies to all issuers

    def to_data(self) -> dict[str, Any]:
        # Not `asdict`, because it copies each of two million memberships: two fifths of the time of a large sync.
        data: dict[str, Any] = {"id": self.id, "email": self.email, "name": self.name, "group_ids": self.group_ids}
        if self.is_deactivated:
            data["is_deactivated"] = True
        return data | {"issuer": self.issuer} if self.issuer else data

    @classmethod
    def from_record(cls, record: Record) -> Self:
        _check_issuer(record)
        return cls(**{**known_fields(cls, record), "group_ids": tuple(record.data.get("group_ids", ()))})


@dataclass(frozen=True, slots=True)
class DirectoryGroup(RecordValue):
    """Group in the directory."""

    id: str
    name: str = ""
    email: str = ""
    issuer: str = ""  # as in DirectoryUser

    def to_data(self) -> dict[str, Any]:
        data = {"id": self.id, "name": self.name, "email": self.email}
        return data | {"issuer": self.issuer} if self.issuer else data

    @classmethod
    def from_record(cls, record: Record) -> Self:
        _check_issuer(record)
        return cls(**known_fields(cls, record))


def _check_issuer(record: Record) -> None:
    if not isinstance(record.data.get("issuer", ""), str):
        raise TypeError("an issuer is text")


@dataclass(frozen=True, slots=True)
class DirectoryRunRecord(RecordValue):
    """One sync of a whole directory: `started_at` is Unix seconds, `error` is empty if it succeeded."""

    id: str  # sorts by start time
    source: str
    triggered_by: str
    started_at: float
    duration_seconds: float = 0.0
    users: int = 0
    groups: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    requests: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class PublishedKey(RecordValue):
    """Public key of a current or former signing key of any process; `jwk` is as published to upstreams (RFC 7517)."""

    jwk: Mapping[str, str]
    expires_at: float  # Unix seconds

    def to_data(self) -> dict[str, Any]:
        return {"jwk": dict(self.jwk), "expires_at": self.expires_at}


@dataclass(frozen=True, slots=True)
class PortalPreferences(RecordValue):
    """A user's start page: URLs of the favourites, and of recently opened applications, the latest first."""

    favourites: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    issuer: str = ""  # issuer of the user, as in SessionRecord

    @classmethod
    def from_record(cls, record: Record) -> Self:
        tuples = {name: tuple(map(str, record.data.get(name, ()))) for name in ("favourites", "recent")}
        return cls(**{**known_fields(cls, record), **tuples})


@dataclass(frozen=True, slots=True)
class ProgrammaticClient(RecordValue):
    """Client application that a user authorized for `host`; the record's id starts with the session's id.

    `redirect_host` received the token.  `authorized_at` is Unix seconds.
    """

    host: str
    redirect_host: str
    authorized_at: float


@dataclass(frozen=True, slots=True)
class SessionIndexEntry(RecordValue):
    """Link from a session at the provider to a gate session; its id names both (authenticate/session/session_index.py)."""

    subject: str  # `sub` of its ID token


@dataclass(frozen=True, slots=True)
class LogoutMarker(RecordValue):
    """Marker that a user has signed out at the provider; `issued_at` is when the provider sent the logout (Unix seconds)."""

    issued_at: float


@dataclass(frozen=True, slots=True)
class TokenRefreshRequest(RecordValue):
    """Request to refresh the tokens of the session or connection with this id; it is deleted when the attempt has finished.

    `tokens_received_at` identifies the tokens to replace.
    """

    tokens_received_at: float
