"""`gate completion SHELL`: prints a shell completion script for gate's commands, options and files."""

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import shtab
from django.core.management.base import CommandParser

from gateproject.command import COMMANDS
from gateproject.management.gate_command import GateCommand

SHELLS = ("bash", "zsh", "fish")


class CompletedParser(argparse.ArgumentParser):
    """Parser whose arguments have completion hints for shtab: files and directories; -config is spelled as documented."""

    def add_argument(self, *names: Any, **declared: Any) -> argparse.Action:
        spelled = dict.fromkeys("--config" if name == "-config" else name for name in names)
        action = super().add_argument(*spelled, **declared)
        if action.dest in ("directory", "folder"):
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.type is Path or str(action.metavar or "").endswith("FILE"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        return action


def gate_parser() -> CompletedParser:
    """Return a parser of all commands, in their order in the help."""
    parser = CompletedParser("gate")
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers()
    for short, name, description in COMMANDS:
        import_module(f"gateproject.management.commands.{name}").Command().add_arguments(commands.add_parser(short, help=description))
    return parser


class Command(GateCommand):
    help = (
        'Print a completion script for gate\'s commands, options and files. bash: eval "$(gate completion bash)" in ~/.bashrc; '
        'zsh: eval "$(gate completion zsh)" in ~/.zshrc, after compinit; fish: gate completion fish > ~/.config/fish/completions/gate.fish'
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help="name of the shell")

    def handle(self, *args: Any, **arguments: Any) -> None:
        self.stdout.write(shtab.complete(gate_parser(), shell=arguments["shell"]))
