"""Temporary access in the data broker: given, listed and revoked.  Whoever calls has written it into the audit log."""

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

MAX_DURATION_SECONDS = 30 * 86400.0  # seconds
# Somebody else may write the same person's record at that moment; as often in a row they don't.
MAX_ATTEMPTS = 5
_EMPTY_RETENTION = 60.0  # seconds for which a record without anything is kept, so that no later writer can pass it over
_INVALID_REASON = Message("give a reason of at most %(most)s printable characters")


class AccessError(GateError):
    """Access that can't be given or taken, and why: for the one who asked."""

    status = 400


class GrantConflict(AccessError):
    """Others wrote the same at that moment, each time: nothing was done, and it may be tried again."""

    status = 409


# enforcement-point: Authorization: Grants of temporary access
class GrantStore:
    """Temporary access of people.  AccessError, and BrokerError where the data broker can't be reached."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._broker = broker
        self._clock = clock

    async def grant(self, user: UserRecord, access: AccessGrant, approved: float = math.inf) -> None:
        """Give access to a person, whom `user` names with their issuer, in place of what they have of the same route and ends earlier.

        `approved` is the time of the last approval: an early end of the person's access to the route since then prevents it.
        """
        access = validate_grant(access, self._clock())

        def edit(found: UserGrants | None) -> UserGrants | None:
            retained = self._retained(found, user)
            _require_not_revoked(retained, access, approved)
            if any(other.id == access.id for other in retained):
                return None  # two finish what several have approved
            if any(other.route == access.route and other.expires_at >= access.expires_at > self._clock() for other in retained):
                raise AccessError(Message("this user already has access that lasts longer; revoke it first"))
            grants = (*(other for other in retained if other.route != access.route or other.original_expires_at), access)
            return UserGrants(user.id, user.effective_issuer, user.email or user.name, grants)

        await self._update(user.id, edit)

    async def active_for(self, user_id: str, issuer: str) -> list[AccessGrant]:
        """What this person has."""
        record, now = await self._broker.get(ACCESS_GRANT, user_id), self._clock()
        found = None if record is None else UserGrants.from_record(record)
        return [access for access in found.grants if access.expires_at > now] if found is not None and found.issuer == issuer else []

    async def find(self, user_id: str, id: str) -> tuple[UserGrants, AccessGrant] | None:
        """One access by its id or its place, with its person; None where it has ended."""
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

    async def revoke(self, user_id: str, route: str) -> bool:
        """End the access that a user has to a route now, which may have replaced what the caller saw; False where there is none."""

        def edit(found: UserGrants | None) -> UserGrants | None:
            now = self._clock()
            ended = [] if found is None else [access for access in found.grants if access.route == route and access.expires_at > now]
            if found is None or not ended:
                return None
            # It stays as one that is over, so that nobody who finishes an approval at this moment gives it once more.
            grants = (
                replace(access, expires_at=0.0, revoked_at=now, original_expires_at=access.expires_at) if access in ended else access
                for access in found.grants
            )
            return replace(found, grants=tuple(access for access in grants if access.retained_until > now))

        return await self._update(user_id, edit)

    async def iter_grants(self, *, expired: bool = False) -> AsyncGenerator[tuple[UserGrants, AccessGrant]]:
        """Yield each access that has not ended, with its person; or each that ended by itself, and is kept."""
        now = self._clock()
        async for record in iter_records(self._broker, ACCESS_GRANT):
            if (found := UserGrants.parse(record)) is None:
                continue
            for access in found.grants:
                if access.is_expired(now) if expired else access.expires_at > now:
                    yield found, access

    def _retained(self, found: UserGrants | None, user: UserRecord) -> tuple[AccessGrant, ...]:
        """What goes on of what a record holds: nothing of another issuer's person."""
        if found is None or found.issuer != user.effective_issuer:
            return ()
        now = self._clock()
        return tuple(access for access in found.grants if access.retained_until > now)

    async def _update(self, user_id: str, edit: Callable[[UserGrants | None], UserGrants | None]) -> bool:
        """Write what `edit` makes of a user's record; False where it is None.  AccessBusy."""

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
    ended = [other for other in retained if other.original_expires_at and other.route == access.route]
    if any(other.id == access.id or other.revoked_at >= approved for other in ended):
        raise AccessError(Message("this access was revoked: request it again"))


def validate_grant(access: AccessGrant, now: float) -> AccessGrant:
    """Access that may be given, with its reason in one line; else AccessError."""
    if not 0 < access.expires_at - now <= MAX_DURATION_SECONDS:
        raise AccessError(Message("the expiry must be within the next 30 days"))
    return replace(access, reason=validate_reason(access.reason))


def validate_reason(written: str) -> str:
    """A reason as it may be shown to others: one line, without what can't be seen."""
    reason = " ".join(written.split())
    if not reason or len(reason) > MAX_REASON_LENGTH or not is_sanitized(reason):
        raise AccessError(_INVALID_REASON.with_params(most=MAX_REASON_LENGTH))
    return reason


def grant_conflict(user_id: str) -> GrantConflict:
    return GrantConflict(Message("the access of %(person)s was changed by another administrator; reload and try again", person=user_id))
