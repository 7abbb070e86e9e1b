"""Records about people: the record envelope, and the values inside it."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from typing import Any, Self

import structlog

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
)


@dataclass(frozen=True, slots=True)
class Record:
    """A stored value.  `version` is store-wide and grows by one with each change; times are Unix seconds."""

    type: str
    id: str
    data: Mapping[str, Any] = field(repr=False)  # holds tokens
    version: int
    modified: float
    expires: float | None = None


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


def known_fields(kind: Any, record: Record) -> Mapping[str, Any]:
    """The fields of a record that this release knows: while one release replaces another, and after a step back, records of a later one
    are read.

    A service account has none that could be passed over: what we don't know might narrow what it may do.
    """
    names = _names(kind)
    return record.data if record.data.keys() <= names else {name: value for name, value in record.data.items() if name in names}


# Errors of reading a value from a record that can't be one.
MALFORMED = (TypeError, ValueError, KeyError, AttributeError)


def report_malformed(type: str, id: str, error: Exception) -> None:
    log.warning("malformed record ignored", type=type, id=id, error=error.__class__.__name__)


@dataclass(frozen=True, slots=True)
class RecordValue:
    """Value inside a record: the fields of a dataclass."""

    def to_data(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        return cls(**known_fields(cls, record))

    @classmethod
    def parse(cls, record: Record) -> Self | None:
        """Return the value in a record; None, with a warning, where it is malformed: it must keep nobody from reading the others."""
        try:
            return cls.from_record(record)
        except MALFORMED as error:
            report_malformed(record.type, record.id, error)
            return None


@dataclass(frozen=True, slots=True)
class SessionRecord(RecordValue):
    """A signed-in browser.  `claims` are the ID token's, overlaid with userinfo's; times are Unix seconds."""

    id: str
    user_id: str  # "<provider>/<subject>"
    subject: str
    provider: str  # its id
    issued_at: float
    expires_at: float
    claims: Mapping[str, Any] = field(default_factory=dict)
    id_token: str = field(default="", repr=False)
    access_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    access_token_expires_at: float | None = None
    client_address: str = ""
    user_agent: str = ""
    tokens_received_at: float = 0.0  # by the last refresh; 0 where they are the sign-in's
    unverified_id_token: str = field(default="", repr=False)  # came with the last refresh, not looked at yet
    manually_refreshed_at: float = 0.0
    userinfo_claims: tuple[str, ...] = ()  # those that the userinfo endpoint has told since the ID token came
    superseded_ids: tuple[str, ...] = ()  # ids of this browser's weaker sessions, which other hosts may still have
    issuer: str = ""  # whose word it is

    @property
    def effective_issuer(self) -> str:
        """The issuer at the sign-in; "" where nobody knows."""
        return self.issuer or issuer_in(self.claims)

    @property
    def auth_time(self) -> float:
        return auth_time_in(self.claims, self.issued_at)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The session; ValueError or TypeError where the record can't be one."""
        tuples = {name: tuple(record.data.get(name, ())) for name in ("superseded_ids", "userinfo_claims")}
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
    """The ID token's `iss`, which userinfo can't replace (authenticate/provider/provider_client.py); "" where there was none."""
    issuer = claims.get("iss")
    return issuer if isinstance(issuer, str) else ""


def auth_time_in(claims: Mapping[str, Any], issued_at: float) -> float:
    """Unix seconds when a person proved who they are (`auth_time`), never after the session began; 0 where the provider does not say, or
    what it says can't be read: the session may have begun with what it remembered of them.
    """
    value = claims.get("auth_time")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return min(max(float(value), 0.0), issued_at)


@dataclass(frozen=True, slots=True)
class UserRecord(RecordValue):
    """A person as the identity provider describes them; `email_verified` is None where it says nothing."""

    id: str  # "<provider>/<subject>"
    email: str = ""
    email_verified: bool | None = None
    name: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict)
    last_sign_in_at: float = 0.0
    issuer: str = ""  # whose word it is

    @property
    def effective_issuer(self) -> str:
        return self.issuer or issuer_in(self.claims)


@dataclass(frozen=True, slots=True)
class ServiceAccountRecord(RecordValue):
    """A program that gets in without a person; of its secret only a hash is kept.  The record expires with it."""

    name: str
    groups: tuple[str, ...]
    created_at: float
    expires_at: float
    secret_hash: str = field(repr=False)
    created_by: str = ""
    rotated_at: float = 0.0
    previous_secret_hash: str = field(default="", repr=False)
    previous_secret_expires_at: float = 0.0
    permissions: tuple[str, ...] = ()  # at the API (databroker/permissions.py)
    # Whom a secret of it was shown to, or of the program that made it: ids and addresses of people, and the program's id.
    secret_viewers: tuple[str, ...] = ()
    # The hash of the secret by which another account made it at the API: it is good for as long as that secret is.
    creator_secret_hash: str = field(default="", repr=False)

    @property
    def creator(self) -> str:
        """The name of the account that made it, "" where people did."""
        kind, _, name = self.created_by.partition("/")
        return name if kind == SERVICE_ACCOUNT else ""

    def vouches_until(self, created: "ServiceAccountRecord") -> float:
        """The end of the secret by which this account made the other; 0 where it is not a secret of this account any more."""
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
    """A person as the directory knows them: `id` is "<provider>/<subject>", `group_ids` what they belong to.

    `is_deactivated`: the provider has said (SCIM) that they must not get in any more.
    """

    id: str
    email: str = ""
    name: str = ""
    group_ids: tuple[str, ...] = ()
    is_deactivated: bool = False
    issuer: str = ""  # of whose people it is said; "" of the operator's file, which counts for all

    def to_data(self) -> dict[str, Any]:
        # `asdict` copies each of two million memberships: two fifths of the time of a large reading.
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
    """A group as the directory knows it."""

    id: str
    name: str = ""
    email: str = ""
    issuer: str = ""  # as of a DirectoryUser

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
    """A reading of the whole directory: `began` is Unix seconds, `error` is empty where it succeeded."""

    id: str  # sorts by when it began
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
    """The public half of a key that some process signs with, or did; `jwk` is as upstreams are served it (RFC 7517)."""

    jwk: Mapping[str, str]
    expires_at: float  # Unix seconds

    def to_data(self) -> dict[str, Any]:
        return {"jwk": dict(self.jwk), "expires_at": self.expires_at}


@dataclass(frozen=True, slots=True)
class PortalPreferences(RecordValue):
    """What a person has made of their start page: the addresses of their favourites, and of what they opened there, the last one first."""

    favourites: tuple[str, ...] = ()
    recent: tuple[str, ...] = ()
    issuer: str = ""  # whose person it is, as of a session

    @classmethod
    def from_record(cls, record: Record) -> Self:
        tuples = {name: tuple(map(str, record.data.get(name, ()))) for name in ("favourites", "recent")}
        return cls(**{**known_fields(cls, record), **tuples})


@dataclass(frozen=True, slots=True)
class ProgrammaticClient(RecordValue):
    """A program that a person let act for them at `host`, by the session that its id begins with; `redirect_host` is where its token went.

    `allowed` is Unix seconds.
    """

    host: str
    redirect_host: str
    authorized_at: float


@dataclass(frozen=True, slots=True)
class SessionIndexEntry(RecordValue):
    """Link from one of the provider's sessions to one of ours; its id names both (authenticate/session/session_index.py)."""

    subject: str  # `sub` of its ID token


@dataclass(frozen=True, slots=True)
class LogoutMarker(RecordValue):
    """Note that somebody has signed out at the provider, who said so at `issued` (Unix seconds)."""

    issued_at: float


@dataclass(frozen=True, slots=True)
class TokenRefreshRequest(RecordValue):
    """Wish that the tokens of the session with this id, received at `received`, be refreshed; it is gone when nothing more will come."""

    tokens_received_at: float
