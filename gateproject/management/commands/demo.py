"""`manage.py demo`: runs gate on loopback with a development identity provider and sample applications."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from examples.demo import configuration, run
from gateproject.management.gate_command import GateCommand


class Command(GateCommand):
    help = "Run gate on loopback with a development identity provider and sample applications. Ctrl-C stops everything."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8443, help="port of gate (default 8443)")
        parser.add_argument("--idp-port", type=int, default=9400, help="port of the development provider (default 9400)")
        parser.add_argument("--address", default="127.0.0.1", help="address to listen on (default 127.0.0.1; in a container: 0.0.0.0)")
        parser.add_argument("--daphne", action="store_true", help="serve with the daphne command")
        parser.add_argument(
            "--folder", type=Path, help="directory for secrets, certificates and logs (default: demo in the data directory)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if find_spec("oidc_provider_mock") is None:
            raise CommandError("the development provider is not installed: pip install 'gate-proxy[demo]', or `make demo` in a checkout")
        folder = options["folder"] or configuration.default_folder(os.environ)  # noqa: TID251 - an entry point
        ports = configuration.Ports(options["port"], options["idp_port"], options["address"])
        sys.exit(run.main(ports, folder.absolute(), os.environ, by_daphne=options["daphne"]))  # noqa: TID251
