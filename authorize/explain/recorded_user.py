"""Identity of a user's next request, built from the records of the data broker."""

from collections.abc import Collection
from dataclasses import dataclass

from authorize.identity.identity_loader import IdentityLoader
from authorize.identity.service_account_loader import load_account_identity
from authorize.policy.identity import Identity
from config.options import Options
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.broker_client import BrokerClient, iter_records
from databroker.records import SESSION, USER, Record
from databroker.replica import Replica
from foundation.auth_challenges import InvalidToken

ACCOUNT_PREFIX = f"{PROVIDER}/"
NO_SESSION = "The user has no live session: evaluated as a sign-in at this moment, by what is recorded."
DEACTIVATED = "The user has no live session and is deactivated in the directory: a sign-in is refused."


class SeveralUsersError(ValueError):
    """Several users match.  The message lists their ids, so that the caller can specify one."""

    def __init__(self, ids: Collection[str]):
        super().__init__(f"{len(ids)} users match: {', '.join(sorted(ids))}. Name one of them by this id.")


@dataclass(frozen=True, slots=True)
class RecordedUser:
    """User from the records.  `identity` is None if a sign-in is refused.  `note` describes how the identity was obtained."""

    identity: Identity | None
    note: str = ""


async def recorded_user(
    ids: Collection[str], broker: BrokerClient, options: Options, now: float, session_ids: Collection[str] | None = None
) -> RecordedUser | None:
    """Return the user with one of these ids, as the newest live session has them; without one, as a sign-in now would have them.

    A program is `service_account/<name>`. `session_ids` are the sessions of these users where the caller knows them; otherwise all
    sessions are read. None where no record has such an id.  Raises BrokerError, and SeveralUsersError where the ids are those of
    several users; linked accounts are one.
    """
    for id in ids:
        if id.startswith(ACCOUNT_PREFIX) and (account := await load_account_identity(id, broker, now)) is not None:
            return RecordedUser(account)
    loader, found = IdentityLoader.from_options(options, Replica(broker)), dict[str, RecordedUser]()
    for session in await _sessions(ids, broker, session_ids):
        user_id = session.data["user_id"]
        if user_id not in found and (identity := await loader.load(session.id, now)) is not None:
            found[user_id] = RecordedUser(identity)
    users = [user for id in ids if id not in found and (user := await broker.get(USER, id)) is not None]
    for record in _newest_first(users, "last_sign_in_at"):
        if (as_of_sign_in := await _as_of_sign_in(record, loader, now)) is not None:
            found[record.id] = as_of_sign_in
    if len({id if user.identity is None else user.identity.principal_id for id, user in found.items()}) > 1:
        raise SeveralUsersError(found)
    return next(iter(found.values()), None)


async def _sessions(ids: Collection[str], broker: BrokerClient, session_ids: Collection[str] | None) -> list[Record]:
    if session_ids is None:
        records = [record async for record in iter_records(broker, SESSION)]
    else:
        records = [record for id in session_ids if (record := await broker.get(SESSION, id)) is not None]
    found = _newest_first([record for record in records if record.data.get("user_id") in ids], "issued_at")
    return sorted(found, key=lambda record: bool(record.data.get("agent")))  # those of browsers first


async def _as_of_sign_in(record: Record, loader: IdentityLoader, now: float) -> RecordedUser | None:
    identity = await loader.for_sign_in(record, now)
    if isinstance(identity, InvalidToken):
        return RecordedUser(None, DEACTIVATED)
    return None if identity is None else RecordedUser(identity, NO_SESSION)


def _newest_first(records: Collection[Record], time_field: str) -> list[Record]:
    return sorted(records, key=lambda record: _number(record, time_field), reverse=True)


def _number(record: Record, name: str) -> float:
    value = record.data.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
