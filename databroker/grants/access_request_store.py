"""Store of pending access requests, with their approvals."""

import hashlib
import json
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from databroker.broker_client import PAGE_SIZE, BrokerClient, iter_records
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.grants.grant_store import MAX_ATTEMPTS, AccessError, GrantStore, grant_conflict
from databroker.records import ACCESS_REQUEST, Record, RecordValue, known_fields
from databroker.store.base import VersionConflict
from foundation.web.message import Message

# PENDING needs approvals; APPROVED has all of them, and its grant is being created; CLOSED is finished.
PENDING, APPROVED, CLOSED = "open", "approved", "over"
LIFETIME_SECONDS = 86400.0  # lifetime of a request
MAX_PENDING = 5  # for one user and route
_CLOSED_RETENTION = 60.0  # seconds for which the slot of a closed request stays in use
_QUOTA_MESSAGE = Message(
    "you already have %(times)s open requests for this application: wait for a decision, or withdraw one and request again a minute later",
    times=MAX_PENDING,
)


class RequestQuotaExceeded(AccessError):
    """The user already has the maximum number of requests for this route."""

    status = 429


@dataclass(frozen=True, slots=True)
class AccessApproval(RecordValue):
    """Approval by a user.  It is valid while the session of the approval is live and the user is an approver."""

    user_id: str
    session_id: str
    name: str
    approved_at: float  # Unix seconds
    email: str = ""  # as in AccessRequest
    secret_viewers: tuple[str, ...] = ()  # the account; for a service account also the principals that have seen its secret

    @property
    def identifiers(self) -> frozenset[str]:
        """Identifiers of the approver.  Approvals with one in common count as one user's."""
        return _identifiers(self.user_id, self.email, *self.secret_viewers)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "secret_viewers": tuple(data.get("secret_viewers", ()))})


@dataclass(frozen=True, slots=True)
class AccessRequest(RecordValue):
    """Request of a user for access to one route; `route` is its grant key, times are Unix seconds.

    The record's id is a slot that is reused; `request_id` is unique, and becomes the id of the grant.
    """

    request_id: str
    user_id: str
    issuer: str
    display_name: str
    route: str
    route_name: str
    reason: str
    duration_seconds: float
    requested_at: float
    state: str = PENDING
    approvals: tuple[AccessApproval, ...] = ()
    grant_expires_at: float = 0.0  # expiry of the grant, set on approval
    email: str = ""  # canonical, possibly unverified; only for `identifiers`
    account_id: str = ""  # account that sent the request, because an account may be linked to another user later
    tool: str = ""  # of an MCP server; "" for the complete route

    @property
    def expires_at(self) -> float:
        return self.requested_at + LIFETIME_SECONDS

    @property
    def identifiers(self) -> frozenset[str]:
        """Identifiers of the requester, to compare with those of an approval."""
        return _identifiers(self.user_id, self.email, self.account_id)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        approvals = tuple(map(AccessApproval.from_data, record.data.get("approvals", ())))
        request = cls(**{**known_fields(cls, record), "approvals": approvals})
        if not all(math.isfinite(number) for number in (request.duration_seconds, request.requested_at, request.grant_expires_at)):
            raise ValueError("an access request needs a start and a duration")
        if not all(
            isinstance(text, str) and text for text in (request.request_id, request.user_id, request.route)
        ) or not record.id.startswith(slot_prefix(request.user_id, request.issuer)):
            raise ValueError("an access request needs a user and a route")
        return request


def _identifiers(*names: str) -> frozenset[str]:
    return frozenset(name for name in names if name)


def slot_prefix(user_id: str, issuer: str, route: str = "") -> str:
    """Return the id prefix of a user's requests, for one route or for all."""
    user_digest = _digest([user_id, issuer])
    return f"{user_digest}-{_digest([route])}-" if route else f"{user_digest}-"


def _digest(names: list[str]) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class StoredAccessRequest:
    """Request with the id and version of its record."""

    id: str
    version: int
    request: AccessRequest


class AccessRequestStore:
    """Store of access requests.  Methods raise BrokerError."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._broker = broker
        self._clock = clock

    async def check_quota(self, request: AccessRequest) -> None:
        """Raise RequestQuotaExceeded if there is no free slot, before the request is audited."""
        async for _ in self._free_slots(request):
            return
        raise RequestQuotaExceeded(_QUOTA_MESSAGE)

    async def add(self, request: AccessRequest) -> None:
        """Store a request in a free slot.  Raises RequestQuotaExceeded; concurrent requests cannot exceed the quota."""
        async for id, version in self._free_slots(request):
            try:
                await self._put(id, request, version)
            except VersionConflict:
                continue
            return
        raise RequestQuotaExceeded(_QUOTA_MESSAGE)

    async def _free_slots(self, request: AccessRequest) -> AsyncGenerator[tuple[str, int]]:
        """Yield the ids and record versions of free slots.

        The slot of a closed request is free a minute later, so that repeated request and withdrawal is limited too.
        """
        prefix = slot_prefix(request.user_id, request.issuer, request.route)
        for number in range(MAX_PENDING):
            record = await self._broker.get(ACCESS_REQUEST, f"{prefix}{number}")
            if record is not None and (
                (stored := _from_record(record)).request.state == CLOSED or stored.request.expires_at > self._clock()
            ):
                continue
            yield f"{prefix}{number}", 0 if record is None else record.version

    async def find(self, id: str, request_id: str) -> StoredAccessRequest | None:
        """Return the pending request in this slot; None if the slot has another request."""
        record = await self._broker.get(ACCESS_REQUEST, id)
        stored = None if record is None else _from_record(record)
        return stored if stored is not None and stored.request.request_id == request_id and self._is_pending(stored) else None

    async def change(self, stored: StoredAccessRequest, request: AccessRequest) -> None:
        """Replace the version that was read.  Raises VersionConflict after a concurrent write."""
        await self._put(stored.id, request, stored.version)

    async def close(self, stored: StoredAccessRequest) -> None:
        """Mark a request as closed.  Raises VersionConflict as `change` does."""
        await self.change(stored, replace(stored.request, state=CLOSED))

    async def close_all(self, user_id: str, issuer: str, route: str) -> None:
        """Close all pending requests of a user for a route.  Raises GrantConflict if every attempt meets a concurrent write."""
        for _ in range(MAX_ATTEMPTS):
            pending = await self._pending(slot_prefix(user_id, issuer, route), MAX_PENDING)
            if not pending:
                return
            for stored in pending:
                with suppress(VersionConflict):
                    await self.close(stored)
        raise grant_conflict(user_id)

    async def list_for(self, user_id: str, issuer: str) -> list[StoredAccessRequest]:
        return await self._pending(slot_prefix(user_id, issuer), PAGE_SIZE)

    async def _pending(self, prefix: str, limit: int) -> list[StoredAccessRequest]:
        found = await self._broker.page(ACCESS_REQUEST, prefix, limit)
        parsed = [_parse_record(record) for record in found if record.id.startswith(prefix)]
        return [stored for stored in parsed if stored is not None and self._is_pending(stored)]

    async def iter_pending(self) -> AsyncGenerator[StoredAccessRequest]:
        """Yield the pending requests of all users."""
        async for record in iter_records(self._broker, ACCESS_REQUEST):
            if (stored := _parse_record(record)) is not None and self._is_pending(stored):
                yield stored

    def _is_pending(self, stored: StoredAccessRequest) -> bool:
        return stored.request.state != CLOSED and stored.request.expires_at > self._clock()

    async def _put(self, id: str, request: AccessRequest, version: int) -> None:
        expires_at = self._clock() + _CLOSED_RETENTION if request.state == CLOSED else request.expires_at
        await self._broker.put(ACCESS_REQUEST, id, request.to_data(), expires=expires_at, only_if_version=version)


def _from_record(record: Record) -> StoredAccessRequest:
    return StoredAccessRequest(record.id, record.version, AccessRequest.from_record(record))


def _parse_record(record: Record) -> StoredAccessRequest | None:
    request = AccessRequest.parse(record)
    return StoredAccessRequest(record.id, record.version, request) if request is not None else None


async def end_early(broker: BrokerClient, user_grants: UserGrants, access: AccessGrant, clock: Callable[[], float] = time.time) -> bool:
    """Revoke a grant before its expiry.  Return False if it has ended.  Raises GrantConflict and BrokerError.

    Pending requests of the user for the route are closed first, because an approval would restore the access.
    """
    await AccessRequestStore(broker, clock).close_all(user_grants.user_id, user_grants.issuer, access.route)
    return await GrantStore(broker, clock).revoke(user_grants.user_id, access.key)
