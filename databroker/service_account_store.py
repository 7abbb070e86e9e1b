"""Service accounts: create, rotate, list and revoke.  The caller has recorded each change in the audit log."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from databroker.broker_client import BrokerClient, iter_records
from databroker.permissions import PERMISSIONS, in_order, unknown_permissions
from databroker.records import SERVICE_ACCOUNT, Record, RecordValue, ServiceAccountRecord, known_fields
from databroker.store.base import VersionConflict
from foundation.crypto.service_account_token import NAME, hash_token, new_token
from foundation.errors import GateError

# "Never" is a date that every clock can represent.
NO_EXPIRY = 253_402_300_799.0  # the end of the year 9999
KEEP_EXPIRY = 0.0
MAX_GROUPS = 100
MAX_GROUP_LENGTH = 255
# Separator between the name of an account and the rest of the name of an account that it created.
NAME_SEPARATOR = "--"


@dataclass(frozen=True, slots=True)
class ServiceAccountToken(RecordValue):
    """Access token of a service account for one resource, without its secret.

    `secret_hash` is that of the account's secret which it was issued for: it is valid only while that secret is.
    """

    account: str
    secret_hash: str = field(repr=False)
    token_hash: str = field(repr=False)
    resource: str
    scopes: tuple[str, ...]
    issued_at: float
    expires_at: float

    @classmethod
    def from_record(cls, record: Record) -> Self:
        return cls(**{**known_fields(cls, record), "scopes": tuple(record.data["scopes"])})


class AccountError(GateError):
    """The request cannot be carried out; the message is for the administrator."""

    status = 400


class AccountConflict(AccountError):
    """The name is in use, or the account was changed concurrently."""

    status = 409


class NoSuchAccount(AccountError):
    status = 404


class ServiceAccounts:
    """Store of service accounts in the data broker.  Methods raise AccountError and BrokerError."""

    def __init__(self, broker: BrokerClient, clock: Callable[[], float] = time.time):
        self._broker = broker
        self._clock = clock

    async def create(
        self,
        name: str,
        groups: Iterable[str],
        lifetime: float | None,
        created_by: str,
        permissions: Iterable[str] = (),
        not_after: float = NO_EXPIRY,
        secret_viewers: Iterable[str] = (),
        creator_secret_hash: str = "",
    ) -> str:
        """Create an account and return its token, which is displayed only once.

        `lifetime` is in seconds; with None the account does not expire before `not_after`.  `secret_viewers` and `creator_secret_hash`
        are described in ServiceAccountRecord.
        """
        now, token = self._clock(), new_token(validate_name(name))
        expires_at, allowed = min(_expiry(now, lifetime), not_after), _validate_permissions(permissions)
        account = ServiceAccountRecord(
            name,
            _validate_groups(groups),
            now,
            expires_at,
            hash_token(token),
            created_by,
            permissions=allowed,
            secret_viewers=tuple(secret_viewers),
            creator_secret_hash=creator_secret_hash,
        )
        try:
            await self._broker.put(SERVICE_ACCOUNT, name, account.to_data(), expires=account.expires_at, only_if_version=0)
        except VersionConflict:
            raise AccountConflict(f"service account {name} already exists. Rotate it, or revoke it first") from None
        return token

    async def rotate(
        self, name: str, overlap: float = 0.0, lifetime: float | None = KEEP_EXPIRY, secret_viewers: Iterable[str] = ()
    ) -> str:
        """Return a new token.  The previous one remains valid for `overlap` seconds.

        `lifetime` is as in `create`; KEEP_EXPIRY leaves the expiry unchanged.  `secret_viewers` are added to the existing ones.
        """
        record = await self._broker.get(SERVICE_ACCOUNT, validate_name(name))
        if record is None:
            raise NoSuchAccount(f"service account {name} not found")
        account = ServiceAccountRecord.parse(record)
        if account is None:
            raise AccountError(f"the record of {name} is unreadable or from a later release. Revoke it and create another")
        now, token = self._clock(), new_token(name)
        renewed = replace(
            account,
            secret_hash=hash_token(token),
            rotated_at=now,
            previous_secret_hash=account.secret_hash if overlap > 0 else "",
            previous_secret_expires_at=now + overlap if overlap > 0 else 0.0,
            expires_at=account.expires_at if lifetime == KEEP_EXPIRY else _expiry(now, lifetime),
            secret_viewers=tuple(dict.fromkeys((*account.secret_viewers, *secret_viewers))),
        )
        try:
            await self._broker.put(SERVICE_ACCOUNT, name, renewed.to_data(), expires=renewed.expires_at, only_if_version=record.version)
        except VersionConflict:
            raise AccountConflict(f"{name} was changed concurrently. Try again") from None
        return token

    async def revoke(self, name: str) -> None:
        if not await self._broker.delete(SERVICE_ACCOUNT, validate_name(name)):
            raise NoSuchAccount(f"service account {name} not found")

    async def list(self) -> list[ServiceAccountRecord]:
        read = [ServiceAccountRecord.parse(record) async for record in iter_records(self._broker, SERVICE_ACCOUNT)]
        return [account for account in read if account is not None]


def accounts_created_by(name: str, accounts: Iterable[ServiceAccountRecord]) -> list[str]:
    """Return the names of the accounts that this account created through the API, recursively, shorter names first.

    Accounts are also found if the account between them was revoked, because names start with the name of the creator.
    """
    by_name = {account.name: account for account in accounts}
    created = (account.name for account in by_name.values() if _is_created_by(name, account, by_name))
    return sorted(created, key=lambda created: (len(created), created))


def _is_created_by(name: str, account: ServiceAccountRecord, by_name: Mapping[str, ServiceAccountRecord]) -> bool:
    creator = account.creator
    while creator.startswith(f"{name}{NAME_SEPARATOR}"):
        if (creator_account := by_name.get(creator)) is None:
            return True
        creator = creator_account.creator if len(creator_account.creator) < len(creator) else ""
    return creator == name


def ended_with_creator(accounts: Iterable[ServiceAccountRecord], now: float) -> frozenset[str]:
    """Return the names of accounts that are invalid because an account that created them was revoked, has expired or was rotated."""
    by_name = {account.name: account for account in accounts}

    def has_valid_creator(account: ServiceAccountRecord) -> bool:
        creator = by_name.get(account.creator)
        if not account.creator:
            return True
        return (
            creator is not None
            and len(creator.name) < len(account.name)
            and now < creator.creation_secret_expires_at(account)
            and has_valid_creator(creator)
        )

    return frozenset(account.name for account in by_name.values() if not has_valid_creator(account))


def validate_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise AccountError("a name must have 1 to 63 characters of a-z, 0-9 and hyphens, without a hyphen at either end")
    return name


def _validate_groups(groups: Iterable[str]) -> tuple[str, ...]:
    checked = tuple(dict.fromkeys(group.strip() for group in groups if group.strip()))
    if len(checked) > MAX_GROUPS or any(len(group) > MAX_GROUP_LENGTH or not group.isprintable() for group in checked):
        raise AccountError(f"at most {MAX_GROUPS} groups, each of at most {MAX_GROUP_LENGTH} printable characters")
    return checked


def _validate_permissions(names: Iterable[str]) -> tuple[str, ...]:
    names = tuple(names)
    if unknown := unknown_permissions(names):
        raise AccountError(f"unknown permission {', '.join(unknown)}. Permissions: {', '.join(PERMISSIONS)}")
    return in_order(names)


def _expiry(now: float, lifetime: float | None) -> float:
    if lifetime is None:
        return NO_EXPIRY
    if lifetime <= 0:
        raise AccountError("the lifetime must be positive")
    return min(now + lifetime, NO_EXPIRY)
