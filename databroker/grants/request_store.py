"""Access that was asked for, in the data broker: requests that wait, with who has approved them so far."""

import hashlib
import json
import math
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Self

from databroker.broker_client import AT_ONCE, BrokerClient, every
from databroker.grants.grant_records import TemporaryAccess, TemporaryAccessRecord
from databroker.grants.grant_store import TRIES, AccessError, TemporaryAccesses, busy
from databroker.records import ACCESS_REQUEST, Record, RecordValue, known_fields
from databroker.store.base import VersionConflict
from foundation.web.message import Message

# OPEN waits for approvers; APPROVED has them all, and its access is being given; OVER needs nothing more.
OPEN, APPROVED, OVER = "open", "approved", "over"
LIFETIME = 86400.0  # seconds that a request waits
MOST_OPEN = 5  # of one person for one route
_OVER_FOR = 60.0  # seconds for which a place is kept whose request is over
_TOO_MANY = Message(
    "you already have %(times)s open requests for this application: wait for a decision, or withdraw one and request again a minute later",
    times=MOST_OPEN,
)


class TooManyAsked(AccessError):
    """Somebody asks again and again for the same."""

    status = 429


@dataclass(frozen=True, slots=True)
class AccessApproval(RecordValue):
    """Approval by a person, which counts for as long as the session lives in which it was given, and its person is an approver."""

    user_id: str
    session_id: str
    name: str
    at: float  # Unix seconds
    email: str = ""  # as of the request
    secret_viewers: tuple[str, ...] = ()  # the account, and of a program all who could have said the same by it

    @property
    def names(self) -> frozenset[str]:
        """What it is compared by: two with a name in common are one person's, who must not stand for two."""
        return _names(self.user_id, self.email, *self.secret_viewers)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        return cls(**{**known, "secret_viewers": tuple(data.get("secret_viewers", ()))})


@dataclass(frozen=True, slots=True)
class AskedAccess(RecordValue):
    """Request of a person for `duration` seconds of access to one route; `route` is its access key, times are Unix seconds.

    The record's id is a place that is used again; `nonce` is this request's alone, and becomes the id of the access.
    """

    nonce: str
    user_id: str
    issuer: str
    person: str  # for people to read
    route: str
    route_name: str
    why: str
    duration: float
    asked: float
    state: str = OPEN
    approvals: tuple[AccessApproval, ...] = ()
    until: float = 0.0  # the end of the access, once that is settled
    email: str = ""  # canonical, verified or not: for `names` only
    account: str = ""  # by which they asked: an account may become another person's

    @property
    def expires(self) -> float:
        return self.asked + LIFETIME

    @property
    def names(self) -> frozenset[str]:
        """Names of who has asked, to be compared with those of an approval."""
        return _names(self.user_id, self.email, self.account)

    @classmethod
    def from_record(cls, record: Record) -> Self:
        approvals = tuple(map(AccessApproval.from_data, record.data.get("approvals", ())))
        asked = cls(**{**known_fields(cls, record), "approvals": approvals})
        if not all(math.isfinite(number) for number in (asked.duration, asked.asked, asked.until)):
            raise ValueError("an access request needs a start and a duration")
        if not all(isinstance(text, str) and text for text in (asked.nonce, asked.user_id, asked.route)) or not record.id.startswith(
            place(asked.user_id, asked.issuer)
        ):
            raise ValueError("an access request needs a user and a route")
        return asked


def _names(*names: str) -> frozenset[str]:
    return frozenset(name for name in names if name)


def place(user_id: str, issuer: str, route: str = "") -> str:
    """Beginning of the ids of a person's records, of one route's or of all."""
    person = _digest([user_id, issuer])
    return f"{person}-{_digest([route])}-" if route else f"{person}-"


def _digest(names: list[str]) -> str:
    return hashlib.sha256(json.dumps(names).encode()).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class HeldRequest:
    """Request with the place and the version of its record."""

    id: str
    version: int
    asked: AskedAccess


class AskedAccesses:
    """Requests for access.  BrokerError where the data broker can't be reached."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._broker = broker
        self._clock = clock

    async def require_place(self, asked: AskedAccess) -> None:
        """TooManyAsked where there is none for this request, before anybody is told of it."""
        async for _ in self._places(asked):
            return
        raise TooManyAsked(_TOO_MANY)

    async def add(self, asked: AskedAccess) -> None:
        """Let a request wait.  TooManyAsked: each place is written by one alone, so no flood gets past it."""
        async for id, version in self._places(asked):
            try:
                await self._put(id, asked, version)
            except VersionConflict:
                continue
            return
        raise TooManyAsked(_TOO_MANY)

    async def _places(self, asked: AskedAccess) -> AsyncGenerator[tuple[str, int]]:
        """Free places, with the version that is there.  One whose request is over is free a minute later: to ask and withdraw, again and
        again, would be a flood as well."""
        beginning = place(asked.user_id, asked.issuer, asked.route)
        for number in range(MOST_OPEN):
            record = await self._broker.get(ACCESS_REQUEST, f"{beginning}{number}")
            if record is not None and ((held := _held(record)).asked.state == OVER or held.asked.expires > self._clock()):
                continue
            yield f"{beginning}{number}", 0 if record is None else record.version

    async def find(self, id: str, nonce: str) -> HeldRequest | None:
        """The request that waits at this place; None where it is another one by now."""
        record = await self._broker.get(ACCESS_REQUEST, id)
        held = None if record is None else _held(record)
        return held if held is not None and held.asked.nonce == nonce and self._waits(held) else None

    async def change(self, held: HeldRequest, asked: AskedAccess) -> None:
        """Write over the version that was read; VersionConflict where somebody else was first."""
        await self._put(held.id, asked, held.version)

    async def close(self, held: HeldRequest) -> None:
        """Note that a request needs nothing more; VersionConflict as of `change`."""
        await self.change(held, replace(held.asked, state=OVER))

    async def close_all(self, user_id: str, issuer: str, route: str) -> None:
        """Close each request that waits of this person for this route; AccessBusy where others change them each time."""
        for _ in range(TRIES):
            waiting = await self._waiting(place(user_id, issuer, route), MOST_OPEN)
            if not waiting:
                return
            for held in waiting:
                with suppress(VersionConflict):
                    await self.close(held)
        raise busy(user_id)

    async def of_person(self, user_id: str, issuer: str) -> list[HeldRequest]:
        return await self._waiting(place(user_id, issuer), AT_ONCE)

    async def _waiting(self, beginning: str, most: int) -> list[HeldRequest]:
        found = await self._broker.page(ACCESS_REQUEST, beginning, most)
        own = [_readable(record) for record in found if record.id.startswith(beginning)]
        return [held for held in own if held is not None and self._waits(held)]

    async def all(self) -> AsyncGenerator[HeldRequest]:
        """Every request that waits, of everybody."""
        async for record in every(self._broker, ACCESS_REQUEST):
            if (held := _readable(record)) is not None and self._waits(held):
                yield held

    def _waits(self, held: HeldRequest) -> bool:
        return held.asked.state != OVER and held.asked.expires > self._clock()

    async def _put(self, id: str, asked: AskedAccess, version: int) -> None:
        ends = self._clock() + _OVER_FOR if asked.state == OVER else asked.expires
        await self._broker.put(ACCESS_REQUEST, id, asked.to_data(), expires=ends, only_if_version=version)


def _held(record: Record) -> HeldRequest:
    return HeldRequest(record.id, record.version, AskedAccess.from_record(record))


def _readable(record: Record) -> HeldRequest | None:
    asked = AskedAccess.parse(record)
    return HeldRequest(record.id, record.version, asked) if asked is not None else None


async def end_early(
    broker: BrokerClient, held: TemporaryAccessRecord, access: TemporaryAccess, clock: Callable[[], float] = time.time
) -> bool:
    """End access before its expiry; False where it is over already.  Raises AccessBusy and BrokerError.

    Requests of the same person for the same route are closed first: an approval of one would restore what was ended.
    """
    await AskedAccesses(broker, clock).close_all(held.user_id, held.issuer, access.route)
    return await TemporaryAccesses(broker, clock).revoke(held.user_id, access.route)
