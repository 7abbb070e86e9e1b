"""`manage.py importconfig`: a configuration of Pomerium or oauth2-proxy as ours, with a comment wherever its reader must know something."""

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from authorize.config_checks import CONFIG_CHECKS
from config.importing import oauth2_proxy, pomerium
from config.importing.converted import Converted
from config.importing.foreign_file import POMERIUM, read
from config.importing.refused_values import leave_out_refused
from config.importing.templates import leave_out_templates
from config.importing.yaml_output import as_yaml
from config.load import check_content
from foundation.errors import ConfigError


class Command(BaseCommand):
    help = "Read a configuration of Pomerium (0.13 and later) or oauth2-proxy and print it as gate's. What can't be carried over is said."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="YAML, JSON, TOML (also as .cfg), or NAME=value lines as .env")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            converted = imported(options["file"])
        except ConfigError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from None
        self.stdout.write(as_yaml(converted, options["file"].name), ending="")
        self.stderr.write(f"{len(converted.routes)} routes; {converted.lost} lines were LOST, {converted.to_check} are to CHECK")


def imported(path: Path) -> Converted:
    """Converted configuration; ConfigError where the file can't be read, or is neither product's."""
    foreign = read(path)
    converted = pomerium.convert(foreign) if foreign.product == POMERIUM else oauth2_proxy.convert(foreign, lambda: os.urandom(32))
    leave_out_templates(converted)
    checks = [check for check in CONFIG_CHECKS if not check.warns]
    leave_out_refused(converted, lambda content: check_content(content, ".yaml", {}, foreign.base, checks).errors)
    return converted
