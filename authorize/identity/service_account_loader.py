"""Service account loader: build the identity of a token from the data broker's record."""

import hmac
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from authorize.policy.identity import Identity
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.broker_client import BrokerClient
from databroker.records import MALFORMED, SERVICE_ACCOUNT, Record, ServiceAccountRecord, report_malformed
from databroker.replica import Replica
from foundation.auth_challenges import InvalidToken
from foundation.crypto.service_account_token import parse_name, verify_token

# Maximum lifetime of an attestation, even if the account lives longer.
IDENTITY_SECONDS = 3600.0
MAX_CACHED = 10_000
ReadRecord = Callable[[str, str], Awaitable[Record | None]]

MALFORMED_SECRET = "service account: the secret is mistyped or truncated"  # noqa: S105 - a message


@dataclass(slots=True)
class _LoadedAccount:
    """Account of an unchanged record.  `writes` is the replica's write count at the last check of it, -1 before the first."""

    version: int
    account: ServiceAccountRecord
    identity: Identity
    creators: tuple[tuple[str, int], ...]  # the accounts that created it, with their versions
    replica_generation: int = 0  # of the replica that it was read from
    writes: int = -1


class ServiceAccountLoader:
    """Cache of identities, valid while the replica has the same record.  The secret is verified at each use."""

    def __init__(self, replica: Replica):
        self._replica = replica
        self._known: dict[str, _LoadedAccount] = {}

    def __repr__(self) -> str:
        return f"<ServiceAccountLoader {len(self._known)} known>"

    async def identify(self, token: str, now: float) -> Identity | InvalidToken:
        """Return the identity of a token.  Raises BrokerError."""
        if not (name := parse_name(token)):
            return InvalidToken(MALFORMED_SECRET)
        return await self._identify(name, partial(verify_token, token), now)

    async def identify_holder(self, name: str, secret_hash: str, now: float) -> Identity | InvalidToken:
        """Return the identity of an account whose access token was issued for the secret with this hash.  Raises BrokerError."""
        return await self._identify(name, partial(hmac.compare_digest, secret_hash), now)

    def peek_holder(self, name: str, secret_hash: str, now: float) -> Identity | None:
        """Return the cached identity of such an account.  None means that `identify_holder` must be called."""
        if (known := self._peek(name, now)) is None:
            return None
        return known.identity if is_current_secret(partial(hmac.compare_digest, secret_hash), known.account, now) else None

    async def _identify(self, name: str, matches: Callable[[str], bool], now: float) -> Identity | InvalidToken:
        known = self._peek(name, now) or await self._load(name, now)
        if isinstance(known, InvalidToken):
            return known
        if not is_current_secret(matches, known.account, now):
            return InvalidToken(f"service account {name}: it has another secret")
        return known.identity

    def _peek(self, name: str, now: float) -> _LoadedAccount | None:
        known = self._known.get(name)
        if known is None or now >= known.identity.expires_at:
            return None
        # Usually no record has changed since the last request of this account.
        writes = self._replica.writes
        if known.writes != writes:
            if not self._is_current(name, known):
                return None
            known.writes = writes
        return known

    def _is_current(self, name: str, known: _LoadedAccount) -> bool:
        is_account_current = known.replica_generation == self._replica.generation and known.version == self._replica.version(
            SERVICE_ACCOUNT, name
        )
        return is_account_current and all(version == self._replica.version(SERVICE_ACCOUNT, creator) for creator, version in known.creators)

    async def _load(self, name: str, now: float) -> _LoadedAccount | InvalidToken:
        self._known.pop(name, None)
        replica_generation = self._replica.generation
        read = await _read(name, self._replica.get, now)
        if isinstance(read, InvalidToken):
            return read
        known = self._known[name] = replace(read, replica_generation=replica_generation)
        if len(self._known) > MAX_CACHED:
            del self._known[next(iter(self._known))]
        return known


def build_account_identity(account: ServiceAccountRecord, now: float) -> Identity:
    """Build the identity, which has no e-mail address and no claims.

    Its provider has no users, so no rule can confuse the two.
    """
    id = f"{PROVIDER}/{account.name}"
    groups = tuple(map(str, account.groups))
    return Identity(
        session_id=id,
        user_id=id,
        subject=id,
        provider=PROVIDER,
        expires_at=min(float(account.expires_at), now + IDENTITY_SECONDS),
        issued_at=max(float(account.created_at), float(account.rotated_at)),
        name=account.name,
        group_ids=frozenset(groups),
        groups=groups,
    )


async def find_account(token: str, broker: BrokerClient, now: float) -> ServiceAccountRecord | InvalidToken:
    """Return the account of a token from the data broker's current record.  Raises BrokerError."""
    if not (name := parse_name(token)):
        return InvalidToken(MALFORMED_SECRET)
    read = await _read(name, broker.get, now)
    if isinstance(read, InvalidToken):
        return read
    is_current = is_current_secret(partial(verify_token, token), read.account, now)
    return read.account if is_current else InvalidToken(f"service account {name}: it has another secret")


async def load_account_identity(user_id: str, broker: BrokerClient, now: float) -> Identity | None:
    """Return the identity of an active account.  None if it does not exist, or the id is not an account's.  Raises BrokerError."""
    provider, _, name = user_id.partition("/")
    if provider != PROVIDER:
        return None
    read = await _read(name, broker.get, now)
    return None if isinstance(read, InvalidToken) else read.identity


async def _read(name: str, get: ReadRecord, now: float) -> _LoadedAccount | InvalidToken:
    """Load an account if it is active and its creators' secrets are unchanged.  Raises BrokerError."""
    record = await get(SERVICE_ACCOUNT, name)
    if record is None:
        return InvalidToken(f"service account {name}: not found or revoked")
    try:
        account = ServiceAccountRecord.from_record(record)
        identity = build_account_identity(account, now)
        if account.name != name or now >= identity.expires_at:
            return InvalidToken(f"service account {name}: it has expired")
        creators, until = await _load_creators(account, get)
    except MALFORMED as error:
        report_malformed(SERVICE_ACCOUNT, name, error)
        return InvalidToken(f"service account {name}: its record is malformed")
    if now >= until:
        return InvalidToken(f"service account {name}: a creator was revoked, has expired or has another secret")
    return _LoadedAccount(record.version, account, replace(identity, expires_at=min(identity.expires_at, until)), creators)


# enforcement-point: Identity: Service accounts end with the secrets that created them
async def _load_creators(account: ServiceAccountRecord, get: ReadRecord) -> tuple[tuple[tuple[str, int], ...], float]:
    """Return the accounts that created this one, with their versions, and the time until which all of them remain valid."""
    creators, until = list[tuple[str, int]](), math.inf
    while account.creator:
        record = await get(SERVICE_ACCOUNT, account.creator)
        # A creator's name is shorter, so a chain cannot be circular.
        if record is None or len(account.creator) >= len(account.name):
            return (), 0.0
        creator = ServiceAccountRecord.from_record(record)
        until = min(until, creator.creation_secret_expires_at(account))
        creators.append((account.creator, record.version))
        account = creator
    return tuple(creators), until


# enforcement-point: Authorization server: Access tokens end with the secret of their service account
def is_current_secret(matches: Callable[[str], bool], account: ServiceAccountRecord, now: float) -> bool:
    """Return whether `matches` accepts the hash of the account's secret, or that of the previous one during its overlap."""
    return matches(account.secret_hash) or (now < account.previous_secret_expires_at and matches(account.previous_secret_hash))
