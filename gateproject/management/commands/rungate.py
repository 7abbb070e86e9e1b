"""Run gate with its own listeners, as the configuration says."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from gateproject.errors import ConfigError


class Command(BaseCommand):
    help = "Run gate: python manage.py rungate -config config.yaml"
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        # manage.py takes -config out of the arguments before Django sees them; it is declared here for the help text.
        parser.add_argument("-config", metavar="FILE", help="the configuration file (default: $GATE_CONFIG, else ./config.yaml)")

    def handle(self, *args: Any, **arguments: Any) -> None:
        if settings.GATE_CONFIG_ERROR is not None:
            self._refuse(settings.GATE_CONFIG_ERROR)
        from gateproject.asgi import application, runtime
        from proxy.listener import listen

        try:
            listen.serve(application, runtime.options, on_ready=runtime.say_ready, on_stop=runtime.stop)
        except ConfigError as error:
            self._refuse(error)

    def _refuse(self, error: ConfigError) -> None:
        problems = error.problems
        self.stderr.write(f"{settings.GATE_CONFIG_PATH or 'environment'}: {len(problems)} problem(s), nothing was started")
        for problem in problems:
            self.stderr.write(f"  {problem}")
        sys.exit(1)
