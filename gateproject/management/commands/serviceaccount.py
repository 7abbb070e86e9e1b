"""`manage.py serviceaccount`: creates, lists, rotates and revokes service accounts."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error

from config.fields.basic_types import duration
from config.options import Options
from databroker.audit_log import AuditAction, record_command
from databroker.models import ServiceAccount
from databroker.permissions import PERMISSIONS
from databroker.records import ServiceAccountRecord
from databroker.service_account_store import (
    KEEP_EXPIRY,
    NO_EXPIRY,
    AccountError,
    NoSuchAccount,
    ServiceAccounts,
    accounts_created_by,
    ended_with_creator,
    validate_name,
)
from foundation.errors import BrokerError
from foundation.readiness import format_utc
from gateproject.management.broker_access import open_broker
from gateproject.management.configured_command import ConfiguredCommand, command_line_user, prepare_tables, require_options


class Command(ConfiguredCommand):
    help = "Create, list, rotate or revoke service accounts, with which programs sign in."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="create an account and print its secret, which is shown only once")
        create.add_argument("name", help="name of a-z, 0-9 and hyphens; rules refer to it as service_account/NAME")
        create.add_argument("--group", action="append", default=[], help="group, as in allowed_groups; may be repeated")
        create.add_argument("--permission", action="append", default=[], choices=list(PERMISSIONS), help="API permission; may be repeated")
        create.add_argument("--expires", default="90d", metavar="TIME", help="lifetime: 12h, 90d, never (default 90d)")
        listing = actions.add_parser("list", help="list all accounts with the time of their last use")
        listing.add_argument("--json", action="store_true", help="print one JSON array")
        rotate = actions.add_parser("rotate", help="print a new secret and revoke the old one")
        rotate.add_argument("name", help="name of the account")
        rotate.add_argument(
            "--overlap", default="0s", metavar="TIME", help="time for which the old secret stays valid, as in 10m (default 0s)"
        )
        rotate.add_argument("--expires", metavar="TIME", help="new lifetime from now (default: unchanged)")
        revoke = actions.add_parser("revoke", help="revoke an account permanently")
        revoke.add_argument("name", help="name of the account")
        revoke.add_argument("--created", action="store_true", help="also revoke the accounts that it created through the API, recursively")

    def handle(self, *args: Any, **arguments: Any) -> None:
        options = require_options()
        prepare_tables(options)
        try:
            getattr(self, f"_{arguments['action']}")(options, arguments)
        except AccountError as error:
            raise CommandError(str(error)) from error
        except BrokerError as error:
            raise CommandError(f"nothing was changed: {error}{_hint(options)}") from error
        except Error as error:
            raise CommandError(f"audit log write failed: {error}") from error

    def _create(self, options: Options, arguments: dict[str, Any]) -> None:
        lifetime = _seconds("--expires", arguments["expires"])
        token = _logged(
            options,
            AuditAction.CREATE_ACCOUNT,
            arguments["name"],
            lambda accounts, name: accounts.create(name, arguments["group"], lifetime, command_line_user(), arguments["permission"]),
        )
        self._show(token)

    def _rotate(self, options: Options, arguments: dict[str, Any]) -> None:
        overlap = _seconds("--overlap", arguments["overlap"]) or 0.0
        end = KEEP_EXPIRY if arguments["expires"] is None else _seconds("--expires", arguments["expires"])
        self._show(
            _logged(options, AuditAction.ROTATE_ACCOUNT, arguments["name"], lambda accounts, name: accounts.rotate(name, overlap, end))
        )
        for each in _creator_names(options, arguments["name"]):
            self.stderr.write(f"{each} ends with the old secret that created it")

    def _revoke(self, options: Options, arguments: dict[str, Any]) -> None:
        name = arguments["name"]
        try:
            self._end(options, name)
        except NoSuchAccount:
            # The account may be revoked already, while accounts that it created remain.
            if not arguments["created"] or not _creator_names(options, name):
                raise
        made = _creator_names(options, name)
        if not arguments["created"]:
            for each in made:
                self.stderr.write(f"{each}, created by {name}, is no longer valid. Remove it with: revoke {name} --created")
            return
        while made:  # those that are not revoked yet may create more
            for each in made:
                self._end(options, each)
            made = _creator_names(options, name)

    def _end(self, options: Options, name: str) -> None:
        _logged(options, AuditAction.REVOKE_ACCOUNT, name, lambda accounts, name: accounts.revoke(name))
        self.stderr.write(f"{name} revoked")

    def _list(self, options: Options, arguments: dict[str, Any]) -> None:
        accounts = _run(options, lambda accounts: accounts.list())
        used = {row.pk: row for row in ServiceAccount.objects.filter(pk__in=[account.name for account in accounts])}
        ended = ended_with_creator(accounts, time.time())
        found = [_described(account, used.get(account.name), account.name in ended) for account in accounts]
        if arguments["json"]:
            self.stdout.write(json.dumps(found, indent=2))
            return
        for account in found:
            self.stdout.write(
                f"{account['name']}: groups {', '.join(account['groups']) or 'none'}; "
                f"at the API {', '.join(account['permissions']) or 'nothing'}; ends {account['expires_at'] or 'never'}; "
                f"last used {account['last_used_at'] or 'never, as far as known'}{_where(account)}; "
                f"made {account['created_at']} by {account['created_by']}"
                f"{', invalid because its creator was revoked' if account['ended_with_creator'] else ''}"
            )
        if not found:
            self.stderr.write("no service accounts")

    def _show(self, token: str) -> None:
        self.stderr.write("Secret (shown only once):")
        self.stdout.write(token)


def _creator_names(options: Options, name: str) -> list[str]:
    return accounts_created_by(name, _run(options, lambda accounts: accounts.list()))


def _logged(options: Options, action: AuditAction, name: str, work: Callable[[ServiceAccounts, str], Awaitable[Any]]) -> Any:
    """Write the audit entry first, so that an action that cannot be logged is not performed."""
    validate_name(name)
    record_command(command_line_user(), action, name, ServiceAccount)
    try:
        return _run(options, lambda accounts: work(accounts, name))
    except (AccountError, BrokerError):
        record_command(command_line_user(), action.failure, name, ServiceAccount)
        raise


def _run(options: Options, work: Callable[[ServiceAccounts], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with open_broker(options) as broker:
            return await work(ServiceAccounts(broker))

    return asyncio.run(run())


def _hint(options: Options) -> str:
    if options.databroker_storage_type == "memory" and options.databroker_service_url is None and options.grpc_address is not None:
        return ". With databroker_storage_type: memory, the records exist only in the running gate"
    return ""


def _seconds(name: str, written: str) -> float | None:
    """Return the duration in seconds, None for never."""
    if written == "never":
        return None
    number, unit = written[:-1], written[-1:]
    try:
        return int(number) * 86400.0 if unit == "d" else duration(written).total_seconds()
    except ValueError as error:
        raise CommandError(f"{name} {written!r} must be a duration such as 12h or 90d, or never") from error


def _described(account: ServiceAccountRecord, row: ServiceAccount | None, has_ended: bool) -> dict[str, Any]:
    return {
        "name": account.name,
        "groups": list(account.groups),
        "permissions": list(account.permissions),
        "created_at": _moment(account.created_at),
        "created_by": account.created_by,
        "rotated_at": _moment(account.rotated_at),
        "expires_at": _moment(account.expires_at) if account.expires_at < NO_EXPIRY else "",
        "last_used_at": row.last_seen_at.strftime("%Y-%m-%dT%H:%M:%SZ") if row is not None and row.last_seen_at is not None else "",
        "last_host": row.last_host if row is not None else "",
        "ended_with_creator": has_ended,
    }


def _where(account: dict[str, Any]) -> str:
    return f" at {account['last_host']}" if account["last_host"] else ""


def _moment(seconds: float) -> str:
    return format_utc(seconds) if seconds else ""
