"""Base class of commands that load the configuration."""

import getpass
import socket
from typing import ClassVar

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from config.options import Options
from foundation.errors import ConfigError
from gateproject.management.gate_command import GateCommand
from gateproject.process.config_report import NO_FILE
from gateproject.process.database_migrations import migrate

# Other services write their tables, including the audit log, where the admin cannot read them.
HAS_TABLES = ("all", "authenticate")


class ConfiguredCommand(GateCommand):
    config_is: ClassVar[str] = "configuration file (default: GATE_CONFIG, else ./config.yaml)"

    def add_arguments(self, parser: CommandParser) -> None:
        # manage.py removes -config from the arguments before Django parses them; it is declared here for the help.
        parser.add_argument("-config", metavar="FILE", help=self.config_is)


def require_options() -> Options:
    """Return the configuration of the command. Raise CommandError if it is invalid."""
    if settings.GATE_CONFIG_ERROR is not None:
        raise config_command_error(settings.GATE_CONFIG_ERROR)
    options: Options = settings.GATE_OPTIONS
    return options


def prepare_tables(options: Options) -> None:
    """Prepare the admin's tables and audit log. Raise CommandError if this configuration has none or they are unavailable."""
    if options.services not in HAS_TABLES:
        raise CommandError(f"services is {options.services}. Use the configuration of authenticate, which has the audit log")
    try:
        options.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        migrate(options)
    except (ConfigError, OSError) as error:
        raise CommandError(f"audit log write failed: {error}") from error


def command_line_user() -> str:
    """Return the user of a command for the audit log, as user@host."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"[:200]
    except (KeyError, OSError):  # the user id has no name
        return socket.gethostname()[:200]


def config_command_error(error: ConfigError) -> CommandError:
    more = f" (and {len(error.problems) - 1} more; gate check prints all)" if len(error.problems) > 1 else ""
    what = "the configuration" if settings.GATE_CONFIG_PATH else f"{NO_FILE}; the environment"
    return CommandError(f"{what} has a problem: {error.problems[0]}{more}")
