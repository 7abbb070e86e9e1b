"""Store of temporary access: grant, list and revoke.  The caller has recorded each change in the audit log."""

import math
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace

from databroker.broker_client import BrokerClient, Edited, iter_records, update
from databroker.grants.grant_records import MAX_REASON_LENGTH, AccessGrant, UserGrants
from databroker.records import ACCESS_GRANT, Record, UserRecord
from databroker.store.base import VersionConflict
from foundation.errors import GateError
from foundation.web.message import Message
from foundation.web.plain_text import is_sanitized

MAX_DURATION_SECONDS = 30 * 86400.0
# Concurrent writes of one user's record are rare, so this limit is not reached in practice.
MAX_ATTEMPTS = 5
_EMPTY_RETENTION = 60.0  # seconds for which an empty record is stored, so that a concurrent writer gets a version conflict
_INVALID_REASON = Message("give a reason of at most %(limit)s printable characters")


class AccessError(GateError):
    """Temporary access cannot be granted or revoked; the message is for the user."""

    status = 400


class GrantConflict(AccessError):
    """Every attempt met a concurrent write.  Nothing was changed, and the caller may try again."""

    status = 409


# enforcement-point: Authorization: Grants of temporary access
class GrantStore:
    """Store of temporary access.  Methods raise AccessError and BrokerError."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._broker = broker
        self._clock = clock

    async def grant(self, user: UserRecord, access: AccessGrant, approved: float = math.inf) -> None:
        """Grant access to a user, in place of an active grant for the same route that expires earlier.

        `approved` is the time of the last approval (Unix seconds).  Raises AccessError if the user's access to the route was revoked
        since then, or if an active grant lasts at least as long.
        """
        access = validate_grant(access, self._clock())

        def edit(found: UserGrants | None) -> UserGrants | None:
            retained = self._retained(found, user)
            _require_not_revoked(retained, access, approved)
            if any(other.id == access.id for other in retained):
                return None  # two approvers completed the same request concurrently
            if any(other.key == access.key and other.expires_at >= access.expires_at > self._clock() for other in retained):
                raise AccessError(Message("this user already has access that lasts longer; revoke it first"))
            grants = (*(other for other in retained if other.key != access.key or other.original_expires_at), access)
            return UserGrants(user.id, user.effective_issuer, user.email or user.name, grants)

        await self._update(user.id, edit)

    async def active_for(self, user_id: str, issuer: str) -> list[AccessGrant]:
        """Return the active grants of a user."""
        record, now = await self._broker.get(ACCESS_GRANT, user_id), self._clock()
        found = None if record is None else UserGrants.from_record(record)
        return [access for access in found.grants if access.expires_at > now] if found is not None and found.issuer == issuer else []

    async def find(self, user_id: str, id: str) -> tuple[UserGrants, AccessGrant] | None:
        """Return one grant by its id or `route_hash`, with its holder; None if it has ended."""
        record, now = await self._broker.get(ACCESS_GRANT, user_id), self._clock()
        found = None if record is None else UserGrants.from_record(record)
        grants = () if found is None else found.grants
        return next(
            (
                (found, access)
                for access in grants
                if found is not None and id in (access.id, access.route_hash) and access.expires_at > now
            ),
            None,
        )

    async def revoke(self, user_id: str, key: str) -> bool:
        """Revoke the active grants of a user for a route or tool (`AccessGrant.key`), also one that has replaced the grant that the
        caller saw.

        Returns False if there is none.
        """

        def edit(found: UserGrants | None) -> UserGrants | None:
            now = self._clock()
            ended = [] if found is None else [access for access in found.grants if access.key == key and access.expires_at > now]
            if found is None or not ended:
                return None
            # Revoked grants remain in the record, so that a concurrent last approval does not create them again.
            grants = (
                replace(access, expires_at=0.0, revoked_at=now, original_expires_at=access.expires_at) if access in ended else access
                for access in found.grants
            )
            return replace(found, grants=tuple(access for access in grants if access.retained_until > now))

        return await self._update(user_id, edit)

    async def iter_grants(self, *, expired: bool = False) -> AsyncGenerator[tuple[UserGrants, AccessGrant]]:
        """Yield each active grant with its holder, or with `expired` each retained grant that has expired."""
        now = self._clock()
        async for record in iter_records(self._broker, ACCESS_GRANT):
            if (found := UserGrants.parse(record)) is None:
                continue
            for access in found.grants:
                if access.is_expired(now) if expired else access.expires_at > now:
                    yield found, access

    def _retained(self, found: UserGrants | None, user: UserRecord) -> tuple[AccessGrant, ...]:
        """Return the grants to retain from a record; none if it belongs to a user of another issuer."""
        if found is None or found.issuer != user.effective_issuer:
            return ()
        now = self._clock()
        return tuple(access for access in found.grants if access.retained_until > now)

    async def _update(self, user_id: str, edit: Callable[[UserGrants | None], UserGrants | None]) -> bool:
        """Replace a user's record with the result of `edit`.  Return False if that is None.  Raises GrantConflict."""

        def edited(record: Record | None) -> Edited | None:
            value = edit(None if record is None else UserGrants.from_record(record))
            if value is None:
                return None
            return value.to_data(), max((access.retained_until for access in value.grants), default=self._clock() + _EMPTY_RETENTION)

        try:
            return await update(self._broker, ACCESS_GRANT, user_id, edited) is not None
        except VersionConflict:
            raise grant_conflict(user_id) from None


def _require_not_revoked(retained: Iterable[AccessGrant], access: AccessGrant, approved: float) -> None:
    ended = [other for other in retained if other.original_expires_at and other.key == access.key]
    if any(other.id == access.id or other.revoked_at >= approved for other in ended):
        raise AccessError(Message("this access was revoked: request it again"))


def validate_grant(access: AccessGrant, now: float) -> AccessGrant:
    """Return the grant with a validated reason.  Raises AccessError if its expiry or reason is invalid."""
    if not 0 < access.expires_at - now <= MAX_DURATION_SECONDS:
        raise AccessError(Message("the expiry must be within the next 30 days"))
    return replace(access, reason=validate_reason(access.reason))


def validate_reason(written: str) -> str:
    """Return a reason in one line.  Raises AccessError if it is empty, too long, or has unprintable characters."""
    reason = " ".join(written.split())
    if not reason or len(reason) > MAX_REASON_LENGTH or not is_sanitized(reason):
        raise AccessError(_INVALID_REASON.with_params(limit=MAX_REASON_LENGTH))
    return reason


def grant_conflict(user_id: str) -> GrantConflict:
    return GrantConflict(Message("the access of %(user)s was changed by another administrator; reload and try again", user=user_id))
