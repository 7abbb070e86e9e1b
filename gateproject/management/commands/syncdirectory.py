"""`manage.py syncdirectory`: reads each provider's directory once, prints the differences, and writes them."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from django.core.management.base import CommandError, CommandParser

from authenticate.directory.file_watcher import FileSource
from authenticate.directory.sync import DirectoryChanges, Value
from authenticate.directory.sync_run import COMMAND, SyncOptions, SyncRun
from authenticate.directory.vendor_source import DirectorySource
from authenticate.directory.vendors.vendor_registry import build_vendor
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.records import DIRECTORY_USER, DirectoryRunRecord, DirectoryUser
from foundation.errors import BrokerError
from gateproject.management.broker_access import open_broker
from gateproject.management.configured_command import ConfiguredCommand, require_options

MAX_LINES = 500
BAR = 30
NO_DIRECTORY = "no directory is configured. Set idp_service_account (docs/guides/groups.md) or directory_file"
NO_DIRECTORY_OF_ENTRIES = "no directory is configured. Set service_account or directory_file of a provider in identity_providers"


class Command(ConfiguredCommand):
    help = "Synchronize each provider's directory once: print the differences, then write them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--dry-run", action="store_true", help="print the differences only")
        parser.add_argument("--force", action="store_true", help="proceed even if more than half of the users or groups would be removed")
        parser.add_argument("--json", action="store_true", help="print every change as JSON; with several providers, by provider id")
        parser.add_argument("--provider", default="", metavar="ID", help="only the directory of this entry of identity_providers")
        super().add_arguments(parser)

    def handle(self, *args: Any, **arguments: Any) -> None:
        options = require_options()
        self._as_json, self._dry_run, documents, errors = arguments["json"], arguments["dry_run"], dict[str, Any](), list[str]()
        has_several = options.identity_providers is not None
        for provider in _providers(options, arguments["provider"]):
            if has_several and not self._as_json:
                self.stdout.write(f"{provider.id}:")
            document, error = self._one(options, provider, force=arguments["force"])
            documents[provider.id] = document
            # A failing directory does not stop the others.
            errors += [f"{provider.id}: {error}" if has_several else error] * bool(error)
        if self._as_json and any(documents.values()):
            self.stdout.write(json.dumps(documents if has_several else next(iter(documents.values())), indent=2))
        if errors:
            raise CommandError("; ".join(errors))

    def _one(self, options: Options, provider: ProviderConfig, *, force: bool) -> tuple[dict[str, Any], str]:
        """Return the output for one directory, and its error."""
        self._found = list[dict[str, Any]]()
        try:
            run = asyncio.run(self._read(options, provider, force=force))
        except BrokerError as error:
            return {}, f"directory sync failed: {error}"
        if not (run.error or self._as_json):
            self.stdout.write(_summary(run, self._dry_run))
        facts = {name: value for name, value in run.to_data().items() if name not in ("id", "triggered_by")}
        return {**facts, "dry_run": self._dry_run, "changes": self._found}, run.error

    async def _read(self, options: Options, provider: ProviderConfig, *, force: bool) -> DirectoryRunRecord:
        source, bar = _create_source(options, provider), ProgressBar()
        try:
            async with open_broker(options) as broker:
                # A file is written deliberately, so removals in it are not limited.
                read_options = SyncOptions(COMMAND, force or isinstance(source, FileSource), self._dry_run, self._show(bar), bar.step)
                timeout = options.idp_refresh_directory_timeout.total_seconds()
                return await SyncRun(source, broker, timeout, options=read_options).run()
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
                if number == MAX_LINES:
                    self.stdout.write(f"... and {len(changes) - MAX_LINES} more (use --json for all)")
                    break
                self.stdout.write(line)

        return show


def _providers(options: Options, id: str) -> list[ProviderConfig]:
    """Return the providers whose directory can be read here. Raise CommandError if there is none, or not the selected one."""
    found = [provider for provider in options.providers.values() if _is_read(options, provider)]
    if not found:
        raise CommandError(NO_DIRECTORY_OF_ENTRIES if options.identity_providers is not None else NO_DIRECTORY)
    chosen = [provider for provider in found if id in ("", provider.id)]
    if not chosen:
        known = ", ".join(provider.id for provider in found)
        raise CommandError(f"{id} has no directory in this configuration. Providers with one: {known}")
    return chosen


def _is_read(options: Options, provider: ProviderConfig) -> bool:
    return provider.directory_file is not None or build_vendor(options, provider, time.time) is not None


def _create_source(options: Options, provider: ProviderConfig) -> DirectorySource | FileSource:
    if provider.directory_file is not None:
        return FileSource(provider.directory_file, provider)
    if (source := DirectorySource.from_options(options, provider)) is None:
        raise CommandError(NO_DIRECTORY)
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
    differences = [f"{name} {getattr(after, name)!r}" for name in ("name", "email") if getattr(after, name) != getattr(before, name, "")]
    if isinstance(after, DirectoryUser):
        old, new = set(before.group_ids if isinstance(before, DirectoryUser) else ()), set(after.group_ids)
        differences += [f"into {group}" for group in sorted(new - old)] + [f"removed from {group}" for group in sorted(old - new)]
    if before is not None and before.issuer != after.issuer:
        differences.append(f"of {after.issuer or 'every issuer'}")
    return ", ".join(differences) or "unchanged"


def _word(kind: str) -> str:
    return "user" if kind == DIRECTORY_USER else "group"


def _summary(run: DirectoryRunRecord, dry_run: bool) -> str:
    changes = f"{run.added} added, {run.changed} changed, {run.removed} removed"
    what = "would be written" if dry_run else "written"
    return (
        f"{run.source}: {run.users} users, {run.groups} groups; {changes} {what}; {run.requests} requests in {run.duration_seconds:.1f} s"
    )


class ProgressBar:
    """Progress bar on one line of a terminal; it prints nothing elsewhere."""

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
