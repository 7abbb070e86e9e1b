"""Recorded user: the identity that a user's next request has, from the records of the data broker."""

from collections.abc import Collection
from dataclasses import dataclass

from authorize.identity.account_identity import PROVIDER
from authorize.identity.loader import IdentityLoader
from authorize.identity.service_accounts import identity_of_account
from authorize.policy.identity import Identity
from config.options import Options
from databroker.client import BrokerClient, every
from databroker.records import SESSION, USER, Record
from databroker.replica import Replica
from foundation.challenges import RefusedToken

NO_SESSION = "The user has no live session: evaluated as a sign-in at this moment, by what is recorded."
DEACTIVATED = "The user has no live session and is deactivated in the directory: a sign-in is refused."


@dataclass(frozen=True, slots=True)
class RecordedUser:
    """User found in the records; `identity` is None where a sign-in is refused.  `note` says how the identity was obtained."""

    identity: Identity | None
    note: str = ""


async def recorded_user(ids: Collection[str], broker: BrokerClient, options: Options, now: float) -> RecordedUser | None:
    """Return the user with one of these ids, as the newest live session has them; without one, as a sign-in now would have them.

    A program is `service_account/<name>`. None where no record has such an id.  Raises BrokerError.
    """
    for id in ids:
        if id.startswith(f"{PROVIDER}/") and (account := await identity_of_account(id, broker, now)) is not None:
            return RecordedUser(account)
    loader = IdentityLoader.of(options, Replica(broker))
    sessions = [record async for record in every(broker, SESSION) if record.data.get("user_id") in ids]
    for record in sorted(sessions, key=lambda record: _number(record, "issued"), reverse=True):
        if (identity := await loader.load(record.id, now)) is not None:
            return RecordedUser(identity)
    users = [user for id in ids if (user := await broker.get(USER, id)) is not None]
    for record in sorted(users, key=lambda record: _number(record, "last_sign_in"), reverse=True):
        found = await loader.of_sign_in(record, now)
        if isinstance(found, RefusedToken):
            return RecordedUser(None, DEACTIVATED)
        if found is not None:
            return RecordedUser(found, NO_SESSION)
    return None


def _number(record: Record, name: str) -> float:
    value = record.data.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
