"""Records of the authorization server, except sessions: consents, self-registered clients, and devices that wait for their user."""

from dataclasses import dataclass, field
from enum import StrEnum
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


class DeviceState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class DeviceAuthorization(RecordValue):
    """Authorization that a device requested, and for which it polls (RFC 8628).

    The record's id is that of the user code, and of the device code only a hash is stored.  Times are Unix seconds.  `session_id` is
    that of the session which the approval created.
    """

    client_id: str
    client_name: str
    resource: str
    scopes: tuple[str, ...]
    device_code_hash: str = field(repr=False)
    requested_at: float
    expires_at: float
    client_address: str
    interval_seconds: float
    polled_at: float = 0.0
    state: DeviceState = DeviceState.PENDING
    session_id: str = ""

    @classmethod
    def from_record(cls, record: Record) -> Self:
        data = {**known_fields(cls, record), "scopes": tuple(record.data["scopes"]), "state": DeviceState(record.data["state"])}
        return cls(**data)
