"""Values of temporary access: all grants of a user are in one record."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from config.routes.route_access_requests import tool_grant_key
from databroker.records import Record, RecordValue, known_fields

MAX_REASON_LENGTH = 500
# Retention of ended grants in seconds, in which the admin and the API list them as expired.
RETENTION_SECONDS = 86400.0


class GrantSubject(NamedTuple):
    """Holder of grants: an account with its issuer, or a user with linked accounts (config/settings/linked_accounts.py)."""

    id: str
    issuer: str


@dataclass(frozen=True, slots=True)
class AccessGrant(RecordValue):
    """Temporary access to one route, with times in Unix seconds; `route` is its grant key (config/routes/route.py).

    `tool` limits it to calls of one tool of an MCP server, "" for the complete route.  `route_name` and `granted_by` are display names.
    """

    id: str
    route: str
    started_at: float
    expires_at: float
    granted_by: str
    reason: str
    route_name: str = ""
    revoked_at: float = 0.0  # time of a revocation; earlier approvals are ignored
    original_expires_at: float = 0.0  # expiry before a revocation, which sets `expires_at` to 0
    tool: str = ""

    @property
    def key(self) -> str:
        """Key of the route, or of its tool, among the user's grants."""
        return tool_grant_key(self.route, self.tool)

    @property
    def route_hash(self) -> str:
        """Id of the route or tool among the user's grants, 16 hex digits.  Successive grants for one have the same."""
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

    @property
    def retained_until(self) -> float:
        return max(self.expires_at, self.original_expires_at) + RETENTION_SECONDS

    def is_expired(self, now: float) -> bool:
        """Return whether it expired within the last day.  False for a revoked grant, whose `expires_at` is 0."""
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
    """All grants of one user, at most one active grant for each route; the record's id is the user id.

    `issuer` is the issuer of the user, because two providers may use one id for two users.
    """

    user_id: str
    issuer: str
    display_name: str = ""
    grants: tuple[AccessGrant, ...] = ()

    @classmethod
    def from_record(cls, record: Record) -> Self:
        grants = tuple(map(AccessGrant.from_data, record.data.get("grants", ())))
        found = cls(**{**known_fields(cls, record), "grants": grants})
        if found.user_id != record.id or not isinstance(found.issuer, str):
            raise ValueError("temporary access needs a user and an issuer")
        return found
