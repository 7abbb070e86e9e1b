"""Records of the authorization server, except sessions: consents, and clients that registered themselves."""

from dataclasses import dataclass
from typing import Self

from databroker.records import Record, RecordValue, known_fields


@dataclass(frozen=True, slots=True)
class ConsentRecord(RecordValue):
    """Consent of a user to a client's use of a resource, so that the next authorization of the same client needs no page."""

    user_id: str
    issuer: str
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    granted_at: float

    @classmethod
    def from_record(cls, record: Record) -> Self:
        return cls(**{**known_fields(cls, record), "scopes": tuple(record.data["scopes"])})


@dataclass(frozen=True, slots=True)
class RegisteredClient(RecordValue):
    """OAuth client that registered itself (RFC 7591)."""

    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    created_at: float

    @classmethod
    def from_record(cls, record: Record) -> Self:
        return cls(**{**known_fields(cls, record), "redirect_uris": tuple(record.data["redirect_uris"])})
