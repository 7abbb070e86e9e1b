"""`manage.py replaypolicy`: replays recorded decisions with this configuration, to show which outcomes would change."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error
from django.utils import timezone

from authorize.explain.replay import TITLES, ReplayReport, replay
from authorize.models import LoggedDecision
from config.fields.basic_types import positive_duration
from gateproject.management.commands.explainaccess import current_routes
from gateproject.management.configured_command import ConfiguredCommand


class Command(ConfiguredCommand):
    help = "Evaluate the logged decisions with the policy of a changed configuration, and print the users who would gain or lose access."
    config_is = "the changed configuration; its database holds the decisions"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--within", metavar="DURATION", help="only decisions of this last period, as in 168h (default: all)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--strict", action="store_true", help="exit with status 1 if a decision changes or cannot be replayed")
        super().add_arguments(parser)

    def handle(self, *args: Any, **arguments: Any) -> None:
        _, table = current_routes()
        try:
            report = replay(_rows(arguments["within"]).iterator(chunk_size=500), table)
        except Error as error:
            raise CommandError(f"cannot read the decision log from the database of this configuration: {error}") from None
        self.stdout.write(json.dumps(_document(report), indent=2) if arguments["json"] else "\n".join(_lines(report)))
        if arguments["strict"] and (report.changes or report.not_replayed):
            raise SystemExit(1)


def _rows(within: str | None) -> Any:
    rows = LoggedDecision.objects.order_by("pk")
    if within is None:
        return rows
    try:
        return rows.filter(decided_at__gte=timezone.now() - positive_duration(within))
    except ValueError as error:
        raise CommandError(f"--within {error}") from None


def _document(report: ReplayReport) -> dict[str, Any]:
    changes = [asdict(change) for change in report.changes.values()]
    return {"replayed": report.replayed, "changes": changes, "not_replayed": dict(report.not_replayed)}


def _lines(report: ReplayReport) -> Iterator[str]:
    yield f"{report.replayed} decisions replayed, {report.not_replayed.total()} not replayed."
    for kind, title in TITLES.items():
        found = report.changes_of_kind(kind)
        if found:
            yield ""
            yield f"{title}:"
        for change in found:
            requests = f"{change.requests} request{'s' if change.requests != 1 else ''}"
            yield f"  {change.route}  {change.user}: {requests}, last {change.last_request_id}: {change.reason}"
    if not report.changes:
        yield "No outcome changed."
    if report.not_replayed:
        yield ""
        yield "Not replayed:"
        yield from (f"  {number}: {problem}" for problem, number in report.not_replayed.most_common())
