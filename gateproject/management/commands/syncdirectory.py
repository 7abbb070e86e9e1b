"""`manage.py syncdirectory`: reads the provider's directory once, prints what differs from what gate knows, then writes it."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser

from authenticate.directory.follower import FileSource
from authenticate.directory.reading import COMMAND, DirectoryReading, ReadOptions
from authenticate.directory.source import DirectorySource
from authenticate.directory.sync import DirectoryChanges, Value
from config.options import Options
from databroker.records import DIRECTORY_USER, DirectoryRunRecord, DirectoryUser
from foundation.errors import BrokerError
from gateproject.management.broker_access import opened_broker
from gateproject.management.configured_command import ConfiguredCommand, configured

MOST_LINES = 500
BAR = 30


class Command(ConfiguredCommand):
    help = "Read the provider's directory once, now: print what differs from what gate knows, then write it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="only print what would be written")
        parser.add_argument("--force", action="store_true", help="also where more than half of the users or groups would be removed")
        parser.add_argument("--json", action="store_true", help="print one JSON object, with every change")
        super().add_arguments(parser)

    def handle(self, *args: Any, **arguments: Any) -> None:
        options = configured()
        self._as_json, self._found = arguments["json"], list[dict[str, Any]]()
        try:
            run = asyncio.run(self._read(options, force=arguments["force"], dry_run=arguments["dry_run"]))
        except BrokerError as error:
            raise CommandError(f"nothing was read: {error}") from error
        if self._as_json:
            facts = {name: value for name, value in run.to_data().items() if name not in ("id", "by")}
            self.stdout.write(json.dumps({**facts, "dry_run": arguments["dry_run"], "changes": self._found}, indent=2))
        elif not run.error:
            self.stdout.write(_summary(run, arguments["dry_run"]))
        if run.error:
            raise CommandError(run.error)

    async def _read(self, options: Options, *, force: bool, dry_run: bool) -> DirectoryRunRecord:
        source = _source_of(options)
        bar = ProgressBar()
        try:
            async with opened_broker(options) as broker:
                # A file is what somebody wrote on purpose, whatever it leaves out.
                read_options = ReadOptions(COMMAND, force or isinstance(source, FileSource), dry_run, self._show(bar), bar.step)
                timeout = options.idp_refresh_directory_timeout.total_seconds()
                return await DirectoryReading(source, broker, timeout, options=read_options).run()
        finally:
            bar.end()
            await source.close()

    def _show(self, bar: "ProgressBar") -> Any:
        def show(changes: DirectoryChanges) -> None:
            bar.total = len(changes)
            if self._as_json:
                self._found.extend(_described(changes))
                return
            for number, line in enumerate(_lines(changes)):
                if number == MOST_LINES:
                    self.stdout.write(f"... and {len(changes) - MOST_LINES} more; --json prints them all")
                    break
                self.stdout.write(line)

        return show


def _source_of(options: Options) -> DirectorySource | FileSource:
    if options.directory_file:
        return FileSource(options.directory_file, options.first_provider.id)
    if (source := DirectorySource.from_options(options)) is None:
        raise CommandError("there is no directory to read: idp_service_account (docs/directory.md) or directory_file names one")
    return source


def _described(changes: DirectoryChanges) -> Iterator[dict[str, Any]]:
    for kind, value in changes.put:
        change = "add" if (kind, value.id) in changes.added else "change"
        before = changes.before.get((kind, value.id))
        yield {"change": change, "type": _word(kind), **value.to_data(), **({"before": before.to_data()} if before else {})}
    for kind, id in changes.delete:
        yield {"change": "remove", "type": _word(kind), "id": id}


def _lines(changes: DirectoryChanges) -> Iterator[str]:
    for kind, value in changes.put:
        before = changes.before.get((kind, value.id))
        sign = "+" if (kind, value.id) in changes.added else "~"
        yield f"{sign} {_word(kind)} {value.id}: {_differences(before, value)}"
    for kind, id in changes.delete:
        yield f"- {_word(kind)} {id}"


def _differences(before: Value | None, after: Value) -> str:
    said = [f"{name} {getattr(after, name)!r}" for name in ("name", "email") if getattr(after, name) != getattr(before, name, "")]
    if isinstance(after, DirectoryUser):
        old, new = set(before.group_ids if isinstance(before, DirectoryUser) else ()), set(after.group_ids)
        said += [f"into {group}" for group in sorted(new - old)] + [f"out of {group}" for group in sorted(old - new)]
    if before is not None and before.issuer != after.issuer:
        said.append(f"of {after.issuer or 'every issuer'}")
    return ", ".join(said) or "as it was"


def _word(kind: str) -> str:
    return "user" if kind == DIRECTORY_USER else "group"


def _summary(run: DirectoryRunRecord, dry_run: bool) -> str:
    changes = f"{run.added} added, {run.changed} changed, {run.removed} removed"
    what = "would be written" if dry_run else "written"
    return f"{run.source}: {run.users} users, {run.groups} groups; {changes} {what}; {run.requests} requests in {run.seconds:.1f} s"


class ProgressBar:
    """Progress bar of the writing, on one line of a terminal; nothing anywhere else."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self._is_seen = sys.stderr.isatty()

    def step(self, count: int) -> None:
        self.done += count
        if self._is_seen and (self.done == self.total or self.done % max(self.total // 200, 1) == 0):
            filled = BAR * self.done // max(self.total, 1)
            sys.stderr.write(f"\rwriting [{'#' * filled}{'.' * (BAR - filled)}] {self.done}/{self.total}")
            sys.stderr.flush()

    def end(self) -> None:
        if self._is_seen and self.done:
            sys.stderr.write("\n")
