"""`manage.py runserver`: fails and names the commands that serve gate."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

COMMANDS = (
    "Use `gate run --config config.yaml`, `GATE_CONFIG=config.yaml daphne -p 8000 "
    "gateproject.asgi:application`, or `gate demo` (docs/operations/servers.md)"
)


class Command(BaseCommand):
    help = "Not supported: use gate run or daphne."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        # Accepts all options of Django's and Daphne's runserver, so that any invocation gets this message.
        parser.add_argument("addrport", nargs="?")

    def run_from_argv(self, argv: list[str]) -> None:
        super().run_from_argv(argv if {"-h", "--help"} & set(argv) else argv[:2])

    def handle(self, *args: Any, **arguments: Any) -> None:
        raise CommandError(f"runserver is not supported: it serves Django's pages only. {COMMANDS}")
