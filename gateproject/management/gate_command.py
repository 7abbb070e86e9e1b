"""Base class of all management commands, which hides Django's own options and prints the command name as typed."""

from pathlib import Path
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandParser

from gateproject.command import COMMANDS


class GateCommand(BaseCommand):
    requires_system_checks: list[str] = []
    suppressed_base_arguments: ClassVar[set[str]] = {
        *("--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color", "--force-color"),
    }

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, command_name(prog_name, subcommand), **kwargs)


def command_name(program: str, command: str) -> str:
    """Return the name of a management command as its user typed it: `gate check`, or `manage.py checkconfig`."""
    short = {long: name for name, long, _ in COMMANDS}
    return short.get(command, command) if Path(program).name == "gate" else command
