"""`manage.py endsessions`: ends sessions of given users or ids, everywhere and immediately."""

import asyncio
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error

from config.options import Options
from databroker.audit_log import AuditAction, record_command
from databroker.broker_client import BrokerClient, iter_records
from databroker.end_sessions import batched, end_sessions, end_sessions_for_user
from databroker.models import Session, User
from databroker.records import SESSION
from foundation.errors import BrokerError
from gateproject.management.broker_access import open_broker, users_by_email
from gateproject.management.configured_command import ConfiguredCommand, command_line_user, prepare_tables, require_options

ALL_USERS = "all users"


class Command(ConfiguredCommand):
    help = "End sessions immediately in every process. The next request needs a new sign-in, and open connections are closed."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        chosen = parser.add_mutually_exclusive_group(required=True)
        chosen.add_argument("--session", nargs="+", metavar="ID", help="session ids, as shown in the admin and the log")
        chosen.add_argument("--user", nargs="+", metavar="USER", help="all sessions of these users: an e-mail address or PROVIDER/SUBJECT")
        chosen.add_argument("--all", action="store_true", help="all sessions of all users")

    def handle(self, *args: Any, **arguments: Any) -> None:
        options = require_options()
        prepare_tables(options)
        try:
            ended = asyncio.run(_end(options, arguments["session"], arguments["user"] or []))
        except BrokerError as error:
            raise CommandError(f"some sessions were not ended: {error}") from error
        except Error as error:
            raise CommandError(f"audit log write failed: {error}") from error
        self.stdout.write(f"{ended} sessions ended" if ended != 1 else "1 session ended")


async def _end(options: Options, sessions: list[str] | None, users: list[str]) -> int:
    async with open_broker(options) as broker:
        targets = [(id, Session, AuditAction.END_SESSION) for id in sessions or ()]
        targets += [(id, User, AuditAction.END_ALL_SESSIONS) for id in users or ([] if sessions else [ALL_USERS])]
        ids = await _user_ids(broker, users, options) if users else None
        # Audit first, so that an action that cannot be logged is not performed.
        for id, model, action in targets:
            await asyncio.to_thread(record_command, command_line_user(), action, id, model)
        try:
            if sessions is not None:
                return len(await end_sessions(broker, sessions))
            if ids is not None:
                return sum([len(await end_sessions_for_user(broker, id)) for id in ids])
            session_ids = (record.id async for record in iter_records(broker, SESSION))
            return sum([len(await end_sessions(broker, batch)) async for batch in batched(session_ids)])
        except BrokerError:
            for id, model, action in targets:
                await asyncio.to_thread(record_command, command_line_user(), action.failure, id, model)
            raise


async def _user_ids(broker: BrokerClient, named: list[str], options: Options) -> set[str]:
    """Return the ids of these users. Raise CommandError for an unknown address, so that a typo does not go unnoticed."""
    emails = {name for name in named if "/" not in name}
    found = await users_by_email(broker, emails, options)
    if unknown := sorted(emails - found.keys()):
        raise CommandError(f"--user {', '.join(unknown)}: no user has this verified address. Use PROVIDER/SUBJECT. No session was ended")
    return {*(record.id for records in found.values() for record in records), *(name for name in named if "/" in name)}
