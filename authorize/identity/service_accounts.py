"""Service account loader: a token in, an Identity out, made of the data broker's record."""

from dataclasses import dataclass

import structlog

from authorize.identity.account_identity import PROVIDER, identity_of
from authorize.policy.identity import Identity
from databroker.client import BrokerClient
from databroker.records import SERVICE_ACCOUNT, Record, ServiceAccountRecord
from databroker.replica import Replica
from foundation.challenges import RefusedToken
from foundation.crypto.service_account_token import is_secret, name_in

log = structlog.get_logger(__name__)

MAX_CACHED = 10_000
MISTYPED = "service account: the secret is mistyped or cut short"


@dataclass(frozen=True, slots=True)
class _CachedAccount:
    life: int  # of the replica
    version: int
    account: ServiceAccountRecord
    identity: Identity


class ServiceAccountLoader:
    """Identity cache, valid for as long as the replica holds the same record; the secret is compared at each use."""

    def __init__(self, replica: Replica):
        self._replica = replica
        self._known: dict[str, _CachedAccount] = {}

    def __repr__(self) -> str:
        return f"<ServiceAccountLoader {len(self._known)} known>"

    async def identify(self, token: str, now: float) -> Identity | RefusedToken:
        """Identity of who has this token.  Raises BrokerError."""
        if not (name := name_in(token)):
            return RefusedToken(MISTYPED)
        known: _CachedAccount | RefusedToken | None = self._known.get(name)
        if not isinstance(known, _CachedAccount) or now >= known.identity.expires or not self._is_current(name, known):
            known = await self._load(name, now)
        if isinstance(known, RefusedToken):
            return known
        if not _is_its_secret(token, known.account, now):
            return RefusedToken(f"service account {name}: it has another secret")
        return known.identity

    def _is_current(self, name: str, known: _CachedAccount) -> bool:
        return known.life == self._replica.life and known.version == self._replica.version(SERVICE_ACCOUNT, name)

    async def _load(self, name: str, now: float) -> _CachedAccount | RefusedToken:
        self._known.pop(name, None)
        life = self._replica.life
        record = await self._replica.get(SERVICE_ACCOUNT, name)
        if record is None:
            return _none(name)
        read = _read(name, record, now)
        if isinstance(read, RefusedToken):
            return read
        known = self._known[name] = _CachedAccount(life, record.version, *read)
        if len(self._known) > MAX_CACHED:
            del self._known[next(iter(self._known))]
        return known


async def account_with(token: str, broker: BrokerClient, now: float) -> ServiceAccountRecord | RefusedToken:
    """The account that has this token, by the data broker's own record of this moment.  Raises BrokerError."""
    if not (name := name_in(token)):
        return RefusedToken(MISTYPED)
    read = _read(name, await broker.get(SERVICE_ACCOUNT, name), now)
    if isinstance(read, RefusedToken):
        return read
    return read[0] if _is_its_secret(token, read[0], now) else RefusedToken(f"service account {name}: it has another secret")


async def identity_of_account(user_id: str, broker: BrokerClient, now: float) -> Identity | None:
    """Identity of an account that lives at this moment; None where it does not, or the id is of none.  Raises BrokerError."""
    provider, _, name = user_id.partition("/")
    if provider != PROVIDER:
        return None
    read = _read(name, await broker.get(SERVICE_ACCOUNT, name), now)
    return None if isinstance(read, RefusedToken) else read[1]


def _read(name: str, record: Record | None, now: float) -> tuple[ServiceAccountRecord, Identity] | RefusedToken:
    if record is None:
        return _none(name)
    try:
        account = ServiceAccountRecord.from_record(record)
        identity = identity_of(account, now)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        log.warning("a service account's record is malformed, so it counts as none", name=name, error=type(error).__name__)
        return RefusedToken(f"service account {name}: its record is malformed")
    if account.name != name or now >= identity.expires:
        return RefusedToken(f"service account {name}: it has expired")
    return account, identity


def _none(name: str) -> RefusedToken:
    return RefusedToken(f"service account {name}: there is none of this name, or it was revoked")


def _is_its_secret(token: str, account: ServiceAccountRecord, now: float) -> bool:
    return is_secret(token, account.secret_hash) or (now < account.old_secret_until and is_secret(token, account.old_secret_hash))
