"""Values of access that ends by itself: what is stored of each, in one record a person."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from databroker.records import Record, RecordValue, known_fields

MAX_REASON_LENGTH = 500
# What has ended is kept for so long, in seconds: the admin and the API show it as expired.
RETENTION_SECONDS = 86400.0


class GrantSubject(NamedTuple):
    """Who may have temporary access: an account with its issuer, or a person who has several (config/settings/linked_accounts.py)."""

    id: str
    issuer: str


@dataclass(frozen=True, slots=True)
class AccessGrant(RecordValue):
    """Access to one route from `since` until `until` (Unix seconds); `route` is its access key (config/routes/route.py).

    `route_name` names the route to people, `by` who gave the access, `why` what for.
    """

    id: str
    route: str
    started_at: float
    expires_at: float
    granted_by: str
    reason: str
    route_name: str = ""
    revoked_at: float = 0.0  # the moment of an early end: no approval of before it counts
    original_expires_at: float = 0.0  # when it would have ended, had it not been before its time; `until` is 0 then

    @property
    def route_hash(self) -> str:
        """Name of the route among the user's access, 16 hex digits: whatever access the user has there, one after the other, has it."""
        return hashlib.sha256(self.route.encode()).hexdigest()[:16]

    @property
    def retained_until(self) -> float:
        return max(self.expires_at, self.original_expires_at) + RETENTION_SECONDS

    def is_expired(self, now: float) -> bool:
        """Whether it expired within the last day: a revoked grant has no `expires_at`."""
        return 0.0 < self.expires_at <= now < self.retained_until

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        names = cls.__dataclass_fields__
        access = cls(**{name: value for name, value in data.items() if name in names})
        if not (math.isfinite(access.started_at) and math.isfinite(access.expires_at)):
            raise ValueError("temporary access needs a start and an end")
        if not all(isinstance(text, str) and text for text in (access.id, access.route)):
            raise ValueError("temporary access needs an id and a route")
        return access


@dataclass(frozen=True, slots=True)
class UserGrants(RecordValue):
    """All temporary access of one person, at most one for each route; the record's id is their user id.

    `issuer` is whose person it is, as of a session: two providers may give one id to two people.
    """

    user_id: str
    issuer: str
    display_name: str = ""  # for people to read
    grants: tuple[AccessGrant, ...] = ()

    @classmethod
    def from_record(cls, record: Record) -> Self:
        grants = tuple(map(AccessGrant.from_data, record.data.get("grants", ())))
        found = cls(**{**known_fields(cls, record), "grants": grants})
        if found.user_id != record.id or not isinstance(found.issuer, str):
            raise ValueError("temporary access needs a user and an issuer")
        return found
