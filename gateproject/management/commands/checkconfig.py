"""Is this configuration right?  Prints every problem, exits 0 or 1."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from authorize.policy.route_table import RouteTable
from gateproject.config.load import load_process_options
from gateproject.config.options import Options
from gateproject.errors import ConfigError


class Command(BaseCommand):
    help = "Print every problem of a configuration with its place; exit 0 if there is none, else 1."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("-config", "--config", type=Path, help="the file; by default GATE_CONFIG, else config.yaml")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            compile_everything(load_process_options(options["config"]))
        except ConfigError as error:
            self.stdout.write(str(error))
            raise SystemExit(1) from None
        self.stdout.write("The configuration has no problems.")


def compile_everything(options: Options) -> None:
    """What a start would compile: it finds problems that a look at single settings can't.  Raises ConfigError."""
    RouteTable.build(options.policy)
