"""`manage.py checkbroker`: compares the admin's tables with the record store, and repairs them with `--repair`."""

import asyncio
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error

from config.options import Options
from databroker.claims import ProviderClaims
from databroker.projection.projection_verifier import ProjectionVerifier
from foundation.errors import BrokerError
from gateproject.management.broker_access import open_broker
from gateproject.management.configured_command import ConfiguredCommand, prepare_tables, require_options

MAX_LINES = 100


class Command(ConfiguredCommand):
    help = "Compare the admin database with the records of the data broker. The exit status is 0 if they agree, else 1."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--repair", action="store_true", help="rewrite differing rows; records are never changed")

    def handle(self, *args: Any, **arguments: Any) -> None:
        options = require_options()
        prepare_tables(options)
        try:
            is_right = asyncio.run(self._check(options, arguments["repair"]))
        except BrokerError as error:
            raise CommandError(f"comparison failed: {error}") from error
        except Error as error:
            raise CommandError(f"database error: {error}") from error
        if not is_right:
            raise SystemExit(1)

    async def _check(self, options: Options, with_repair: bool) -> bool:
        async with open_broker(options) as broker:
            check = ProjectionVerifier(broker, ProviderClaims.from_options(options))
            await check.run()
            for model, count in check.records.items():
                mismatched = sum(table is model for table, _ in check.mismatches)
                state = f"{mismatched} rows differ" if mismatched else "the table agrees"
                self.stdout.write(f"{model._meta.verbose_name_plural}: {count} records; {state}")
            for table, id in sorted(check.mismatches, key=lambda entry: entry[1])[:MAX_LINES]:
                self.stdout.write(f"  {table._meta.verbose_name} {id}")
            if len(check.mismatches) > MAX_LINES:
                self.stdout.write(f"  ... and {len(check.mismatches) - MAX_LINES} more")
            if check.mismatches and with_repair:
                found = len(check.mismatches)
                await check.repair()
                self.stdout.write(f"{found - len(check.mismatches)} of {found} rows repaired")
            elif check.mismatches:
                self.stdout.write("repair them with `gate check-broker --repair`")
            return not check.mismatches
