"""Commands and options in the documentation exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from django.core.management import get_commands

from gateproject.command import COMMANDS
from gateproject.management.cli_docs import DeclaredArguments
from tests.repo.test_layout import ROOT

PAGES = [
    page
    for folder in ("", "docs", "deploy", "examples")
    for page in (ROOT / folder).glob("*.md" if folder == "" else "**/*.md")
    if "decisions" not in page.parts
]
ALWAYS = {"--config", "--help"}
_FENCE = re.compile(r"^ *```[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def commands_in(text: str) -> Iterator[str]:
    """Return the `gate` command lines: lines of code blocks at which a command may start, and code spans that start with one."""
    for block in _FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if (found := re.match(r"\s*(?:\$ |sudo )?gate ([^#|]*)", line)) and "=" not in line.partition("gate ")[0]:
                yield found[1].strip()
    yield from re.findall(r"`gate ([a-z][^`]*)`", _FENCE.sub("", text))


@cache
def declared(name: str) -> DeclaredArguments:
    arguments = DeclaredArguments()
    import_module(f"gateproject.management.commands.{name}").Command().add_arguments(arguments)
    return arguments


def problem_of(line: str) -> str:
    """Return the part of a command line that does not exist, "" for none."""
    names = {short: name for short, name, _ in COMMANDS}
    command, *texts = shlex.split(line.replace("...", "").replace("[", "").replace("]", ""))
    if command not in names:
        return "" if command in {"--version", *get_commands()} else f"there is no command {command}"
    known, options = declared(names[command]), set(ALWAYS)
    while True:
        options |= {name for spelled, _ in known.arguments for name in spelled}
        if (sub := next((word for word in texts if word in known.subcommands), None)) is None:
            break
        known = known.subcommands[sub]
    unknown = {word.partition("=")[0] for word in texts if word.startswith("-")} - options
    return f"{command} has no {', '.join(sorted(unknown))}" if unknown else ""


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("check --config c.yaml --online", ""),
        ("migrate", ""),
        ("grants create --user a@b.c --route r --for 2h --reason x", ""),
        ("chek", "there is no command chek"),
        ("check --onlin", "check has no --onlin"),
        ("grants create --fro 2h", "grants has no --fro"),
    ],
)
def test_existing_and_missing_parts(line: str, problem: str) -> None:
    assert problem_of(line) == problem


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_documented_command_exists(page: Path) -> None:
    events = (ROOT / "docs/operations/log-events.md").read_text()
    documented = [line for line in commands_in(page.read_text()) if f"| `gate {line}` |" not in events]
    assert [f"gate {line}: {problem}" for line in documented if (problem := problem_of(line))] == []
