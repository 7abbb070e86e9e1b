"""`manage.py settingsreference`: writes the generated reference pages in docs/reference."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from authenticate.api.openapi import openapi_document
from config.reference.schema import json_schema
from config.reference.settings_page import route_page, settings_page
from gateproject.checkout.enforcement_points import enforcement_points, enforcement_points_page
from gateproject.management.cli_docs import cli_page
from gateproject.management.gate_command import GateCommand
from gateproject.management.metrics_docs import metrics_page
from gateproject.process.restart_only import RESTART_ONLY

DOCS = Path(__file__).parents[4] / "docs" / "reference"


class Command(GateCommand):
    help = "Write the reference pages of settings, route keys, metrics, the API and enforcement points (settings.md, metrics.md, ...)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; exit with status 1 if a file is out of date")
        parser.add_argument("--directory", type=Path, default=DOCS, help="directory of the files (default: docs/reference)")

    def handle(self, *args: Any, **options: Any) -> None:
        for name, content in files().items():
            path = options["directory"] / name
            if path.exists() and path.read_text() == content:
                continue
            if options["check"]:
                raise CommandError(f"{path} is out of date. Run `make docs`")
            path.write_text(content)
            self.stdout.write(f"{path} written")


def files() -> dict[str, str]:
    schema = json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"
    api = json.dumps(openapi_document(), indent=1, ensure_ascii=False) + "\n"
    return {
        "settings.md": settings_page(RESTART_ONLY),
        "route.md": route_page(),
        "cli.md": cli_page(),
        "config.schema.json": schema,
        "metrics.md": metrics_page(),
        "openapi.json": api,
        "enforcement-points.md": enforcement_points_page(enforcement_points()),
    }
