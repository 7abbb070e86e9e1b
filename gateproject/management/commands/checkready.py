"""`manage.py checkready`: asks a running gate for its readiness, where there is no curl: for health checks of containers, and for scripts.

It never loads Django's settings, and no configuration where the address is said: a health check is made every few seconds.
"""

import os
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

PATIENCE = 3.0  # seconds for an answer
LOOK_EVERY = 0.2  # seconds, while it waits


class Command(BaseCommand):
    help = "Ask the running gate whether it is ready: exit 0 where it is, else 1; either way with its reasons"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--at", metavar="HOST:PORT", help="its metrics_address (default: that of the environment or the configuration)")
        parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="until it is ready, but no longer")
        parser.add_argument("-config", metavar="FILE", help="the configuration file (default: $GATE_CONFIG, else ./config.yaml)")

    def handle(self, *args: Any, **arguments: Any) -> None:
        address = arguments["at"] or _address()
        ends = time.monotonic() + arguments["wait"]
        while True:
            status, said = _asked(address)
            if status == 200 or time.monotonic() >= ends:
                break
            time.sleep(LOOK_EVERY)
        self.stdout.write(said.rstrip("\n"))
        if status != 200:
            sys.exit(1)


def _asked(address: str) -> tuple[int, str]:
    host, _, port = address.rpartition(":")
    try:
        connection = HTTPConnection(host.strip("[]") or "localhost", int(port), timeout=PATIENCE)
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except ValueError as error:
        raise CommandError(f"{address} is not HOST:PORT") from error
    except (OSError, HTTPException) as error:
        return 0, f"nothing answers at {address}: {error or type(error).__name__}"


def _address() -> str:
    environ = dict(os.environ)  # noqa: TID251 - an entry point
    if address := environ.get("METRICS_ADDRESS"):
        return address
    from config.load import check_configuration, config_path

    checked = check_configuration(config_path(environ, Path.cwd()), environ)
    if checked.options is None or checked.options.metrics_address is None:
        raise CommandError("no metrics_address is configured, where /readyz would be: set it, or say --at HOST:PORT")
    return str(checked.options.metrics_address)
