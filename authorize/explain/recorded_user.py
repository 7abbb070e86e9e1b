"""Recorded user: the identity that a user's next request has, from the records of the data broker."""

from collections.abc import Collection
from dataclasses import dataclass

from authorize.identity.account_identity import PROVIDER
from authorize.identity.loader import IdentityLoader
from authorize.identity.service_accounts import identity_of_account
from authorize.policy.identity import Identity
from config.options import Options
from databroker.client import BrokerClient, every
from databroker.records import SESSION, USER, Record, UserRecord
from databroker.replica import Replica


@dataclass(frozen=True, slots=True)
class RecordedUser:
    """User found in the records; `has_session` is False where the identity is that of a sign-in at this moment."""

    identity: Identity
    has_session: bool


async def recorded_user(ids: Collection[str], broker: BrokerClient, options: Options, now: float) -> RecordedUser | None:
    """Return the user with one of these ids, as the newest live session has them; without one, as a sign-in now would have them.

    A program is `service_account/<name>`. None where no record has such an id.  Raises BrokerError.
    """
    for id in ids:
        if id.startswith(f"{PROVIDER}/") and (account := await identity_of_account(id, broker, now)) is not None:
            return RecordedUser(account, has_session=True)
    loader = IdentityLoader.of(options, Replica(broker))
    sessions = [record async for record in every(broker, SESSION) if record.data.get("user_id") in ids]
    for record in sorted(sessions, key=_issued, reverse=True):
        if (identity := await loader.load(record.id, now)) is not None:
            return RecordedUser(identity, has_session=True)
    found = [await broker.get(USER, id) for id in ids]
    users = [UserRecord.from_record(record) for record in found if record is not None]
    for user in sorted(users, key=lambda user: user.last_sign_in, reverse=True):
        if (identity := await loader.of_sign_in(user, now)) is not None:
            return RecordedUser(identity, has_session=False)
    return None


def _issued(record: Record) -> float:
    issued = record.data.get("issued", 0)
    return float(issued) if isinstance(issued, int | float) else 0.0
