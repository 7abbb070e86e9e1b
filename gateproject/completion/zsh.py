"""Completion for zsh, by its function _arguments."""

from collections.abc import Iterable

from gateproject.completion.commands import CompletedArgument, CompletedCommand, Takes

_SCRIPT = """\
#compdef gate
# Completes gate in zsh: source <(gate completion zsh), after compinit; or as the file _gate in a directory of $fpath.
_gate() {{
    local -a commands
    commands=(
{commands}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    shift words
    ((CURRENT--))
    case $words[1] in
{cases}
    esac
}}
if [[ ${{funcstack[1]}} == _gate ]]; then
    _gate "$@"
else
    compdef _gate gate
fi
"""
_ACTIONS = {Takes.FILE: ":file:_files", Takes.DIRECTORY: ":directory:_files -/", Takes.TEXT: ":value: ", Takes.NOTHING: ""}


def zsh(commands: Iterable[CompletedCommand]) -> str:
    known = list(commands)
    names = "\n".join(f"        '{command.name}:{_quoted(command.words)}'" for command in known)
    return _SCRIPT.format(commands=names, cases="\n".join(map(_case, known)))


def _case(command: CompletedCommand) -> str:
    options = [f"'{name}[{_quoted(option.words)}]{_action(option)}'" for option in command.options for name in option.names]
    if command.positional:
        options.append(f"'1{_action(command.positional)}'")
    lines = " \\\n".join(f"            {option}" for option in options)
    return f"    {command.name})\n        _arguments \\\n{lines} ;;"


def _action(argument: CompletedArgument) -> str:
    return f":word:({' '.join(argument.choices)})" if argument.takes is Takes.WORDS else _ACTIONS[argument.takes]


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")
