"""Completion for bash, 3.2 and later, without the package bash-completion."""

from collections.abc import Iterable

from gateproject.completion.commands import CompletedArgument, CompletedCommand, Takes

_SCRIPT = """\
# Completes gate in bash: source <(gate completion bash)
_gate_words() {{
    local IFS=$' \\t\\n'
    COMPREPLY=($(compgen -W "$1" -- "$2"))
}}

_gate_paths() {{
    local IFS=$'\\n'
    type compopt >/dev/null 2>&1 && compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen "$1" -- "$2"))
}}

_gate() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} command=${{COMP_WORDS[1]}}
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _gate_words '{commands} --help --version' "$word"
        return
    fi
    # --name=value comes as three words.
    if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
    case "$command $before" in
{values}
    esac
    case $word in
    -*) case $command in
{options}
        esac ;;
    *) case $command in
{positionals}
        esac ;;
    esac
}}
complete -F _gate gate
"""
_ACTIONS = {
    Takes.FILE: '_gate_paths -f "$word"',
    Takes.DIRECTORY: '_gate_paths -d "$word"',
    Takes.TEXT: ":",
}


def bash(commands: Iterable[CompletedCommand]) -> str:
    known = list(commands)
    lines = {
        "commands": " ".join(command.name for command in known),
        "values": "\n".join(_value(command, option) for command in known for option in _with_value(command)),
        "options": "\n".join(map(_options, known)),
        "positionals": "\n".join(_positional(command.name, command.positional) for command in known if command.positional),
    }
    return _SCRIPT.format(**lines)


def _with_value(command: CompletedCommand) -> list[CompletedArgument]:
    return [option for option in command.options if option.takes is not Takes.NOTHING]


def _value(command: CompletedCommand, option: CompletedArgument) -> str:
    cases = "|".join(f"'{command.name} {name}'" for name in option.names)
    return f"    {cases}) {_action(option.takes, option.choices)}; return ;;"


def _options(command: CompletedCommand) -> str:
    names = " ".join(name for option in command.options for name in option.names)
    return f"        {command.name}) _gate_words '{names}' \"$word\" ;;"


def _positional(command: str, argument: CompletedArgument) -> str:
    return f"        {command}) {_action(argument.takes, argument.choices)} ;;"


def _action(takes: Takes, choices: tuple[str, ...]) -> str:
    return f"_gate_words '{' '.join(choices)}' \"$word\"" if takes is Takes.WORDS else _ACTIONS[takes]
