"""Commands as a shell completes them are what their parsers take."""

import argparse
from pathlib import Path

from gateproject.completion.commands import CompletedArgument, Takes, completed


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(add_help=False)
    found.add_argument("-config", "--config", metavar="FILE", help="the file: `x` [y] (default: z); and more")
    found.add_argument("--folder")
    found.add_argument("--every", type=float)
    found.add_argument("--format", choices=("text", "json"))
    found.add_argument("--watch", action="store_true")
    found.add_argument("--hidden", help=argparse.SUPPRESS)
    found.add_argument("file", type=Path)
    return found


def test_each_argument_says_what_it_takes() -> None:
    command = completed("x", "words", parser())
    assert [(argument.names[-1:], argument.takes) for argument in command.arguments] == [
        (("--config",), Takes.FILE),
        (("--folder",), Takes.DIRECTORY),
        (("--every",), Takes.TEXT),
        (("--format",), Takes.WORDS),
        (("--watch",), Takes.NOTHING),
        ((), Takes.FILE),
    ]
    assert command.options[0].words == "the file x y"
    assert command.options[3].choices == ("text", "json")
    assert command.positional == CompletedArgument((), "", Takes.FILE)


def test_subcommands_are_words_and_their_options_are_the_commands_each_once() -> None:
    outer = argparse.ArgumentParser(add_help=False)
    actions = outer.add_subparsers(dest="action")
    for name in ("create", "rotate"):
        actions.add_parser(name, add_help=False).add_argument("--expires")
    command = completed("x", "", outer)
    assert command.positional is not None
    assert command.positional.choices == ("create", "rotate")
    assert [option.names for option in command.options] == [("--expires",)]
