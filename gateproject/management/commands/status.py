"""`gate status`: shows the status of the running gate on one screen.

It uses the monitoring endpoints and no Django settings, so it also works for split services and remotely.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from rich.console import Console
from rich.live import Live

from config.loader import check_configuration, find_config
from config.options import Options
from gateproject.management.gate_command import GateCommand
from gateproject.management.monitoring_client import metrics_address, page
from gateproject.status.screen import screen
from gateproject.status.snapshot import Reading, read

MOMENT = 1.0  # seconds between the two samples


class Command(GateCommand):
    help = (
        "Show the status of the running gate: components, routes, listeners and "
        "certificates. The exit status is 0 if all are ready, else 1."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--at",
            action="append",
            metavar="HOST:PORT",
            help="address of the instance (metrics_address), repeatable (default: from the environment or the configuration)",
        )
        parser.add_argument("--watch", action="store_true", help="refresh until Ctrl-C")
        parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="interval of --watch in seconds (default: 2)")
        parser.add_argument("-config", metavar="FILE", help="configuration file (default: GATE_CONFIG, else ./config.yaml)")

    def handle(self, *args: Any, **arguments: Any) -> None:
        if not arguments["every"] > 0:
            raise CommandError("--every needs a number of seconds above 0")
        addresses = arguments["at"] or [metrics_address()]
        options = _options()
        console = Console(width=None if sys.stdout.isatty() else 140)
        before = [read(address, page) for address in addresses]
        time.sleep(MOMENT)
        now = [read(address, page) for address in addresses]
        if arguments["watch"]:
            _watch(console, options, addresses, now, before, lambda: time.sleep(arguments["every"]))
        console.print(screen(list(zip(now, before, strict=True)), options))
        if not all(reading.is_ready for reading in now):
            sys.exit(1)


def _watch(
    console: Console, options: Options | None, addresses: list[str], now: list[Reading], before: list[Reading], wait: Callable[[], None]
) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen(list(zip(now, before, strict=True)), options), refresh=True)
            wait()
            before, now = now, [read(address, page) for address in addresses]


def _options() -> Options | None:
    """Return the configuration if a valid one exists here; only the running gate is required."""
    environ = dict(os.environ)  # noqa: TID251 - an entry point
    return check_configuration(find_config(environ, Path.cwd()), environ).options
