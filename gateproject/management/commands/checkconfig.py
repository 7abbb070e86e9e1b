"""`manage.py checkconfig`: prints all problems of a configuration with their location, and exits 0 or 1."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from authorize.config_checks import CONFIG_CHECKS
from config.lint import LINT_RULES
from config.loader import ConfigCheck, check_configuration, find_config
from config.routes.rewrites import warn_changed_upstream_paths
from gateproject.management.gate_command import GateCommand
from gateproject.process.config_report import ConfigReport, as_json, as_sarif, as_text

ALL_CONFIG_CHECKS = (
    *CONFIG_CHECKS,
    *(ConfigCheck("weak-setting", rule, warns=True) for rule in LINT_RULES),
    ConfigCheck("changed-meaning", warn_changed_upstream_paths, warns=True),
)
FORMATS: dict[str, Callable[[ConfigReport], str]] = {"json": as_json, "sarif": as_sarif}


class Command(GateCommand):
    help = "Validate a configuration: print every problem with its location, and run its policy tests. The exit status is 0 or 1."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "-config", "--config", type=Path, metavar="FILE", help="configuration file (default: GATE_CONFIG, else ./config.yaml)"
        )
        parser.add_argument("--format", choices=("text", *FORMATS), default="text", help="output format")
        parser.add_argument("--online", action="store_true", help="also connect to the identity provider, the upstreams and the store")
        parser.add_argument("--strict", action="store_true", help="exit with status 1 for warnings too")

    def handle(self, *args: Any, **options: Any) -> None:
        report = check(options["config"], is_online=options["online"])
        if options["format"] == "text":
            self.stdout.write(as_text(report, in_colour=self._shows_colours()))
        else:
            self.stdout.write(FORMATS[options["format"]](report))
        if report.errors or (options["strict"] and report.warnings):
            raise SystemExit(1)

    def _shows_colours(self) -> bool:
        """Return whether to use colours, by the rules of no-color.org."""
        environ = os.environ  # noqa: TID251 - an entry point
        return self.stdout.isatty() and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"


def check(named: Path | None, *, is_online: bool = False) -> ConfigReport:
    cwd, environ = Path.cwd(), dict(os.environ)  # noqa: TID251 - an entry point
    path = named or find_config(environ, cwd)
    checked = check_configuration(path, environ, (*ALL_CONFIG_CHECKS, *(_online() if is_online else ())))
    tests = len(checked.options.all_policy_tests) if checked.options else 0
    routes = len(checked.options.policy) if checked.options else 0
    return ConfigReport(path, cwd, checked.errors, checked.warnings, routes=routes, policy_tests=tests)


def _online() -> Iterator[ConfigCheck]:
    # Imported only for --online, because these imports take longer than all other checks.
    from gateproject.management.online_checks import answers, unverified_links

    yield ConfigCheck("no-answer", answers)
    yield ConfigCheck("no-answer", unverified_links, warns=True)
