"""`manage.py importconfig`: converts another product's configuration, with comments where it needs review."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from authorize.config_checks import CONFIG_CHECKS
from config.importing import oauth2_proxy, pomerium
from config.importing.authelia import authelia_conversion as authelia
from config.importing.authentik import authentik_conversion as authentik
from config.importing.conversion import Conversion
from config.importing.foreign_file import AUTHELIA, AUTHENTIK, OAUTH2_PROXY, POMERIUM, TRAEFIK, ForeignConfig, read
from config.importing.foreign_templates import drop_unresolved_templates
from config.importing.merged_upstreams import merge_upstreams
from config.importing.rejected_values import drop_failing_tests, drop_rejected
from config.importing.traefik import traefik_conversion as traefik
from config.importing.yaml_output import render_yaml
from config.loader import check_content
from foundation.errors import ConfigError, Problem
from gateproject.management.gate_command import GateCommand

CONVERTERS: dict[str, Callable[[ForeignConfig, Callable[[], bytes]], Conversion]] = {
    POMERIUM: lambda foreign, _: pomerium.convert(foreign),
    OAUTH2_PROXY: oauth2_proxy.convert,
    AUTHELIA: authelia.convert,
    AUTHENTIK: authentik.convert,
    TRAEFIK: traefik.convert,
}


class Command(GateCommand):
    help = (
        "Read a configuration of Pomerium (0.13 and later), oauth2-proxy, Authelia or authentik (a blueprint), or Traefik's labels in a "
        "Docker Compose file, and print it as gate's. The output lists what cannot be converted (docs/integrations/migrate.md)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="YAML, JSON, TOML (also as .cfg), or NAME=value lines as .env")

        parser.add_argument(
            "--upstreams",
            type=Path,
            metavar="COMPOSE-FILE",
            help="Docker Compose file with Traefik labels that name the upstreams of the imported hosts",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            converted = imported(options["file"], options["upstreams"])
        except ConfigError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from None
        self.stdout.write(render_yaml(converted, options["file"].name), ending="")
        routes = len(converted.active_routes)
        lost, to_check = _counted(converted.lost, "key"), _counted(converted.to_check, "key")
        self.stderr.write(f"{_counted(routes, 'route')}; LOST: {lost}, to CHECK: {to_check}")
        if not routes:
            self.stderr.write(f"{options['file']}: no route found in this configuration of {converted.product}. {_WITHOUT_ROUTES}")
            raise SystemExit(1)


_WITHOUT_ROUTES = "Use the file that contains its hosts or upstreams (docs/integrations/migrate.md)"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def imported(path: Path, upstreams: Path | None = None) -> Conversion:
    """Return the converted configuration. Raise ConfigError if a file is unreadable or not of a supported product."""
    foreign = read(path)
    converted = CONVERTERS[foreign.product](foreign, lambda: os.urandom(32))
    if upstreams is not None:
        labels = read(upstreams)
        if labels.product != TRAEFIK or foreign.product == TRAEFIK:
            raise ConfigError(
                [Problem("", f"{upstreams}: --upstreams requires a Compose file, together with a configuration of Authelia or authentik")]
            )
        merge_upstreams(converted, traefik.convert(labels, lambda: os.urandom(32)))
    drop_unresolved_templates(converted)
    checks = [check for check in CONFIG_CHECKS if not check.warns]

    def problems(content: bytes) -> tuple[Problem, ...]:
        return check_content(content, ".yaml", {}, foreign.base, checks).errors

    drop_rejected(converted, problems)
    if converted.tests:
        drop_failing_tests(converted, problems)
    return converted
