"""`gate completion SHELL`: a script that completes gate's commands, options and files."""

from importlib import import_module
from typing import Any

from django.core.management.base import CommandParser

from gateproject.command import COMMANDS
from gateproject.completion.bash import bash
from gateproject.completion.commands import CompletedCommand, completed
from gateproject.completion.fish import fish
from gateproject.completion.zsh import zsh
from gateproject.management.gate_command import GateCommand

SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}


class Command(GateCommand):
    help = (
        "Print a completion script for gate's commands, options and files. bash: source <(gate completion bash) in ~/.bashrc; "
        "zsh: the same in ~/.zshrc, after compinit; fish: gate completion fish > ~/.config/fish/completions/gate.fish"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("shell", choices=tuple(SHELLS), help="name of the shell")

    def handle(self, *args: Any, **arguments: Any) -> None:
        self.stdout.write(SHELLS[arguments["shell"]](all_commands()), ending="")


def all_commands() -> list[CompletedCommand]:
    """Every command of gate, in the order of its list."""
    modules = [(short, words, import_module(f"gateproject.management.commands.{name}")) for short, name, words in COMMANDS]
    return [completed(short, words, module.Command().create_parser("gate", short)) for short, words, module in modules]
