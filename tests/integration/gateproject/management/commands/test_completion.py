"""Completion in real shells: what each would offer for a line, or makes of it."""

import subprocess
from io import StringIO
from pathlib import Path

import pytest

from gateproject.management.commands.completion import SHELLS, Command

# As bash splits a line before it calls a completion function, which lets readline complete where nothing is offered.
BASH = """\
compopt() { :; }
source ./bash; COMP_WORDS=($1); [[ $1 == *" " ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
$(complete -p gate | sed 's/.*-F \\([^ ]*\\).*/\\1/'); printf "%s\\n" "${COMPREPLY[@]}"
"""
FISH = "source fish; complete --do-complete $argv[1]"
# zsh completes only at a terminal: it opens one for another zsh, in which a command named gate records how it was called.
# A line that is typed before its editor has begun would not be completed.
ZSH = r"""
zmodload zsh/zpty
until_there() { repeat 400; do [[ -s $1 ]] && return; zpty -r -t shell said; sleep 0.05; done; print -u2 "no $1: $said"; exit 1 }
rm -f begun called
zpty shell 'zsh -f -i'
zpty -w shell 'source ./setup'
until_there begun
zpty -w -n shell "$1"$'\t'
until_there called
cat called
"""
SETUP = """\
autoload -U compinit
compinit -u -D
eval "$(<zsh)"
gate() { print -r -- "$*" > called }
zle-line-init() { print 1 > begun }
complete-and-enter() { zle expand-or-complete; zle accept-line }
zle -N zle-line-init
zle -N complete-and-enter
bindkey '^I' complete-and-enter
"""
RUN = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "fish": ["fish", "--no-config", "--command", FISH],
    "zsh": ["zsh", "-f", "-c", ZSH, "zsh"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        out = StringIO()
        Command(stdout=out).handle(shell=shell)
        (place / shell).write_text(out.getvalue())
    (place / "setup").write_text(SETUP)
    (place / "one.yaml").touch()
    (place / "onefolder").mkdir()
    return place


def answered(shell: str, folder: Path, line: str) -> str:
    done = subprocess.run([*RUN[shell], line], cwd=folder, capture_output=True, text=True, timeout=40)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gate chec", {"check", "check-broker"}),
        ("gate check --on", {"--online"}),
        ("gate check --format s", {"sarif"}),
        ("gate run --config on", {"one.yaml", "onefolder"}),
        ("gate init on", {"onefolder"}),
        ("gate import on", {"one.yaml", "onefolder"}),
        ("gate service-account ro", {"rotate"}),
        ("gate completion z", {"zsh"}),
    ],
)
def test_completion_offers_commands_and_files(shell: str, folder: Path, line: str, expected: set[str]) -> None:
    offers = answered(shell, folder, line).splitlines()
    assert {offer.partition("\t")[0].rstrip("/") for offer in offers} == expected


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("gate expl", "explain"),
        ("gate check --onl", "check --online"),
        ("gate check --format sa", "check --format sarif"),
        ("gate run --config one.", "run --config one.yaml"),
    ],
)
def test_zsh_completes_a_line(folder: Path, line: str, completed: str) -> None:
    assert answered("zsh", folder, line).strip() == completed
