"""`manage.py checkready`: fetches the readiness of a running gate, for container health checks and scripts without curl.

It never loads Django's settings, and no configuration if the address is given, because health checks run every few seconds.
"""

import sys
import time
from typing import Any

from django.core.management.base import CommandParser

from gateproject.management.gate_command import GateCommand
from gateproject.management.monitoring_client import metrics_address, page

POLL_INTERVAL = 0.2  # seconds between attempts while it waits


class Command(GateCommand):
    help = "Show whether the running instance is ready, with the reasons. The exit status is 0 if it is ready, else 1."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--at", metavar="HOST:PORT", help="metrics_address of the instance (default: from the configuration)")
        parser.add_argument("--wait", type=float, default=0.0, metavar="SECONDS", help="wait until it is ready, at most this time")
        parser.add_argument("-config", metavar="FILE", help="configuration file (default: GATE_CONFIG, else ./config.yaml)")

    def handle(self, *args: Any, **arguments: Any) -> None:
        address = arguments["at"] or metrics_address()
        ends = time.monotonic() + arguments["wait"]
        while True:
            status, text = page(address, "/readyz")
            if status == 200 or time.monotonic() >= ends:
                break
            time.sleep(POLL_INTERVAL)
        self.stdout.write(text.rstrip("\n"))
        if status != 200:
            sys.exit(1)
