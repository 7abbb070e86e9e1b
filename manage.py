#!/usr/bin/env python
"""The command line: run gate, check a configuration, manage what it keeps."""

import gc
import os
import sys
from pathlib import Path


def main() -> None:
    """`-config FILE` (also --config) is taken out before Django reads its settings, because the settings come from that file."""
    # What is imported stays: Python's own thresholds look through all of it a dozen times, which is a fifth of the start.
    gc.set_threshold(100_000)
    arguments = _take_config(sys.argv)
    if {"-version", "--version"} & set(arguments[1:]):
        # Of every command: Django would print its own.
        from foundation.version import version

        print(version())
        return
    if arguments[1:2] == ["checkconfig"]:
        # Without Django's settings, which would load the same configuration first.
        from gateproject.management.commands.checkconfig import Command

        Command().run_from_argv(arguments)
        return
    if arguments[1:2] == ["tunnel"]:
        # It runs on machines of people, where there is no configuration.
        from gateproject.management.commands.tunnel import Command as Tunnel

        Tunnel().run_from_argv(arguments)
        return
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateproject.settings")
    # What gRPC's C core would print about a taken port or a failed handshake is no log of ours; we log what matters ourselves.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from django.core.management import execute_from_command_line

    execute_from_command_line(arguments)


def _take_config(argv: list[str]) -> list[str]:
    kept, rest = [], iter(argv)
    for argument in rest:
        name, separator, value = argument.partition("=")
        if name in ("-config", "--config"):
            value = value if separator else next(rest, "")
            if not value:
                sys.exit("-config needs a file: python manage.py rungate -config config.yaml")
            os.environ["GATE_CONFIG"] = str(Path(value).absolute())
        else:
            kept.append(argument)
    return kept


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
