"""Completion for fish, 3 and later."""

from collections.abc import Iterable, Iterator

from gateproject.completion.commands import CompletedArgument, CompletedCommand, Takes


def fish(commands: Iterable[CompletedCommand]) -> str:
    lines = ["# Completes gate in fish: gate completion fish > ~/.config/fish/completions/gate.fish", "complete -c gate -f"]
    for command in commands:
        lines.append(f"complete -c gate -n __fish_use_subcommand -a {command.name} -d '{_quoted(command.words)}'")
        lines += _arguments(command)
    return "\n".join(lines) + "\n"


def _arguments(command: CompletedCommand) -> Iterator[str]:
    here = f"complete -c gate -n '__fish_seen_subcommand_from {command.name}'"
    for option in command.options:
        names = " ".join(map(_name, option.names))
        yield f"{here} {names} {_action(option)} -d '{_quoted(option.words)}'".replace("  ", " ")
    if (positional := command.positional) is not None:
        action = _action(positional).removeprefix("-r ").removeprefix("-x ")
        if action:
            yield f"{here} {action}"


def _name(name: str) -> str:
    """Option of fish for `--long`, `-s`, and `-long`, which it calls old."""
    if name.startswith("--"):
        return f"-l {name[2:]}"
    return f"-s {name[1:]}" if len(name) == 2 else f"-o {name[1:]}"


def _action(argument: CompletedArgument) -> str:
    match argument.takes:
        case Takes.NOTHING:
            return ""
        case Takes.FILE:
            return "-r -F"
        case Takes.DIRECTORY:
            return "-x -a '(__fish_complete_directories)'"
        case Takes.WORDS:
            return f"-x -a '{' '.join(argument.choices)}'"
    return "-x"


def _quoted(text: str) -> str:
    return text.replace("'", "\\'")
