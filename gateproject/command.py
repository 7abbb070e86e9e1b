"""Command `gate` of the installed package: Django's management commands under short names.

In a checkout, `manage.py` runs the same commands under their Django names.
"""

import difflib
import gc
import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

# Short name, management command and description, in the order in which operators need them.
COMMANDS = (
    ("demo", "demo", "run gate on loopback with a development provider and sample applications"),
    ("init", "init", "create a configuration interactively"),
    ("import", "importconfig", "convert the configuration of another proxy"),
    ("check", "checkconfig", "validate a configuration"),
    ("run", "rungate", "start gate"),
    ("ready", "checkready", "show whether the running instance is ready"),
    ("status", "status", "show the status of the running instance"),
    ("explain", "explainaccess", "explain why access to a URL is allowed or denied"),
    ("replay", "replaypolicy", "replay logged decisions against another policy"),
    ("sync", "syncdirectory", "synchronize users and groups with the directory"),
    ("end-sessions", "endsessions", "end sessions"),
    ("grants", "grants", "grant, list and revoke temporary access"),
    ("service-account", "serviceaccount", "manage service accounts"),
    ("tunnel", "tunnel", "open a local port to a TCP route"),
    ("token", "token", "print an access token for a route"),
    ("check-broker", "checkbroker", "compare the admin database with the record store, and repair it"),
    ("reseal", "reseal", "re-encrypt stored records with the current shared_secret"),
    ("completion", "completion", "print a shell completion script"),
)
# Headings, by the first command of each section.
TITLES = {
    "demo": "Getting started",
    "run": "Serve",
    "explain": "Access",
    "sync": "Operations",
}

# Commands that run without Django's settings, because these would load the configuration.
WITHOUT_SETTINGS = ("init", "checkconfig", "checkready", "status", "tunnel", "token")


def main() -> None:
    """Entry point of the command `gate`."""
    program, *arguments = _pop_config_option(sys.argv)
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:2], "--help"]
    if arguments in ([], ["-h"], ["--help"]):
        print(usage())
        return
    names = {short: command for short, command, _ in COMMANDS}
    _require_command(arguments[0], names)
    manage([program, names.get(arguments[0], arguments[0]), *arguments[1:]])


def _require_command(name: str, names: Mapping[str, str]) -> None:
    """Exit with a suggestion if a name is neither a gate command nor a built-in Django one (`migrate`, `showmigrations`, ...)."""
    if name in names or name in names.values() or not (close := difflib.get_close_matches(name, names, n=1)):
        return
    from django.core.management import get_commands

    if name not in get_commands():
        sys.exit(f"unknown command {name}. Did you mean {close[0]}? `gate` lists all commands")


def usage() -> str:
    """Return the text of `gate --help`."""
    width = max(len(short) for short, _, _ in COMMANDS)
    lines = []
    for short, _, description in COMMANDS:
        lines += ["", f"{TITLES[short]}:"] if short in TITLES else []
        lines.append(f"  {short:{width}}  {description}")
    return "\n".join(
        [
            "Usage: gate COMMAND [--config FILE] [options]",
            *lines,
            "",
            "gate COMMAND --help lists the options of a command, gate --version prints the version.",
            "Without --config, gate reads the file that GATE_CONFIG names, else ./config.yaml.",
        ]
    )


def manage(argv: list[str]) -> None:
    """Run a management command; Ctrl-C ends it with status 130.

    `-config FILE` (also --config) is removed before Django loads its settings, because the settings come from that file.
    """
    try:
        _manage(argv)
    except KeyboardInterrupt:
        sys.exit(130)


def _manage(argv: list[str]) -> None:
    # Imported modules stay, so scanning them with the default thresholds would waste a fifth of the start-up time.
    gc.set_threshold(100_000)
    arguments = _pop_config_option(argv)
    if {"-version", "--version"} & set(arguments[1:]) or arguments[1:2] == ["version"]:
        # Replaces Django's help for every command.
        from foundation.version import version

        print(version())
        return
    if arguments[1:] and arguments[1] in WITHOUT_SETTINGS:
        importlib.import_module(f"gateproject.management.commands.{arguments[1]}").Command().run_from_argv(arguments)
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateproject.settings")
    # Silences gRPC's C core, whose messages about ports and handshakes duplicate gate's log.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Daphne's websocket support is not used here, and its compiled parts would load cffi.
    os.environ.setdefault("AUTOBAHN_USE_NVX", "0")
    from django.core.management import execute_from_command_line

    execute_from_command_line(arguments)


def _pop_config_option(argv: list[str]) -> list[str]:
    arguments, rest = [], iter(argv)
    for argument in rest:
        name, separator, value = argument.partition("=")
        if name in ("-config", "--config"):
            value = value if separator else next(rest, "")
            if not value:
                sys.exit(f"--config requires a file: {Path(argv[0]).name} {' '.join(argv[1:2])} --config config.yaml")
            os.environ["GATE_CONFIG"] = str(Path(value).absolute())
        else:
            arguments.append(argument)
    return arguments


if __name__ == "__main__":
    main()
