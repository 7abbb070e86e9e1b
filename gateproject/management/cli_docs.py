"""Command-line reference (docs/reference/cli.md), generated from the declarations of the commands."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from gateproject.command import COMMANDS, TITLES

_HEAD = """# Command line

This page is generated from the declarations of the commands by `make docs`; do not edit it.

Every command reads the configuration from `--config FILE`, else from the file that `GATE_CONFIG` names, else from `config.yaml` in the
working directory, else from environment variables alone. `gate COMMAND --help` prints the options, `gate --version` the version.
"""
_DJANGO = """## Names of Django's management commands

In a checkout, `python manage.py NAME` runs the same commands under the names of Django's management commands. Django's own commands, such
as `migrate`, work too, also as `gate migrate`.

| gate | manage.py |
|---|---|
"""


class DeclaredArguments:
    """Recorder of a command's arguments, with the interface of an argument parser."""

    def __init__(self, help: str = ""):
        self.help = help
        self.arguments: list[tuple[tuple[str, ...], dict[str, Any]]] = []
        self.subcommands: dict[str, DeclaredArguments] = {}

    def add_argument(self, *names: str, **declared: Any) -> None:
        self.arguments.append((names, declared))

    def add_mutually_exclusive_group(self, **_: Any) -> "DeclaredArguments":
        return self

    def add_subparsers(self, **_: Any) -> "DeclaredArguments":
        return self

    def add_parser(self, name: str, *, help: str, **_: Any) -> "DeclaredArguments":
        return self.subcommands.setdefault(name, DeclaredArguments(help))


def cli_page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for short, name, _ in COMMANDS:
        if short in TITLES:
            yield f"## {TITLES[short]}\n"
        command = import_module(f"gateproject.management.commands.{name}").Command()
        declared = DeclaredArguments(command.help)
        command.add_arguments(declared)
        yield from _command(f"gate {short}", declared, 3)
    yield _DJANGO + "".join(f"| `gate {short}` | `manage.py {name}` |\n" for short, name, _ in COMMANDS if short != name)


def _command(name: str, declared: DeclaredArguments, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}`\n"
    yield f"{_sentence(declared.help)}\n"
    if declared.arguments:
        yield "| Argument | Description |"
        yield "|---|---|"
        yield from (_row(names, keys) for names, keys in declared.arguments)
        yield ""
    for subcommand, inner in declared.subcommands.items():
        yield from _command(f"{name} {subcommand}", inner, level + 1)


def _row(names: tuple[str, ...], declared: dict[str, Any]) -> str:
    option = names[-1].replace("-config", "--config") if names[-1] == "-config" else names[-1]
    takes_value = declared.get("action") not in ("store_true", "store_const", "count")
    value = declared.get("metavar") or option.lstrip("-").upper().replace("-", "_")
    is_option = option.startswith("-")
    written = (f"{option} {value}" if takes_value else option) if is_option else (declared.get("metavar") or option.upper())
    description = _sentence(str(declared.get("help", "")).replace("%%", "%"))
    if choices := declared.get("choices"):
        description += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    if declared.get("required"):
        description += " Required."
    return f"| `{written}` | {description.replace('|', chr(92) + '|').strip()} |"


def _sentence(text: str) -> str:
    """Return a help text as a sentence."""
    text = " ".join(text.split())
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?")) or not text else ".")
