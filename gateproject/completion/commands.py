"""Commands as a shell completes them, read from their parsers: options, and what each argument takes."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path


class Takes(Enum):
    """What may stand as an argument; WORDS are listed, of a TEXT nothing is known."""

    NOTHING = auto()
    TEXT = auto()
    FILE = auto()
    DIRECTORY = auto()
    WORDS = auto()


@dataclass(frozen=True, slots=True)
class CompletedArgument:
    """Option with its `names`, or without any, what stands by itself."""

    names: tuple[str, ...]
    words: str
    takes: Takes
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    name: str
    words: str
    arguments: tuple[CompletedArgument, ...]

    @property
    def options(self) -> list[CompletedArgument]:
        return [argument for argument in self.arguments if argument.names]

    @property
    def positional(self) -> CompletedArgument | None:
        return next((argument for argument in self.arguments if not argument.names), None)


def completed(name: str, words: str, parser: argparse.ArgumentParser) -> CompletedCommand:
    return CompletedCommand(name, words, tuple(_arguments(parser)))


def _arguments(parser: argparse.ArgumentParser) -> Iterator[CompletedArgument]:
    """Arguments of a parser; those of its subcommands count as its own, each once."""
    seen = set[str]()
    for action in parser._actions:  # argparse has no other way to ask
        if action.help == argparse.SUPPRESS or (action.option_strings and action.option_strings[-1] in seen):
            continue
        seen |= set(action.option_strings[-1:])
        choices = tuple(map(str, action.choices or ()))
        yield CompletedArgument(tuple(action.option_strings), _plain(action.help or ""), _takes(action), choices)
        if isinstance(action, argparse._SubParsersAction):
            for inner in dict.fromkeys(action.choices.values()):
                yield from (argument for argument in _arguments(inner) if argument.names and seen.isdisjoint(argument.names))
                seen |= {name for each in inner._actions for name in each.option_strings}


def _takes(action: argparse.Action) -> Takes:
    if action.nargs == 0:
        return Takes.NOTHING
    if action.choices:
        return Takes.WORDS
    if action.dest in ("directory", "folder"):
        return Takes.DIRECTORY
    named = str(action.metavar or "")
    return Takes.FILE if action.type is Path or named.endswith("FILE") else Takes.TEXT


def _plain(text: str) -> str:
    """First part of a help, on one line and without signs that mean something to a shell, but for the apostrophe."""
    first = text.replace("%%", "%").partition("; ")[0].partition(" (default")[0]
    return " ".join("".join(sign for sign in first if sign not in '"`$\\[]:').split())
