"""Completion in a real zsh, at a terminal of its own: what Tab makes of a line."""

import subprocess
from pathlib import Path

import pytest

from gateproject.completion.zsh import zsh
from gateproject.management.commands.completion import all_commands

# zsh completes only at a terminal: it opens one for another zsh, in which a command named gate writes down what it
# was called with.  A line that is typed before its editor has begun would not be completed.
ASK = r"""
zmodload zsh/zpty
until_there() { repeat 400; do [[ -s $1 ]] && return; zpty -r -t shell said; sleep 0.05; done; print -u2 "no $1: $said"; exit 1 }
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
source ./script
gate() { print -r -- "$*" > called }
zle-line-init() { print 1 > begun }
complete-and-enter() { zle expand-or-complete; zle accept-line }
zle -N zle-line-init
zle -N complete-and-enter
bindkey '^I' complete-and-enter
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("zsh")
    (place / "script").write_text(zsh(all_commands()))
    (place / "setup").write_text(SETUP)
    (place / "one.yaml").touch()
    return place


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("gate expl", "explain"),
        ("gate check --onl", "check --online"),
        ("gate check --format sa", "check --format sarif"),
        ("gate run -config on", "run -config one.yaml"),
    ],
)
def test_a_line_is_completed(folder: Path, line: str, completed: str) -> None:
    for left in ("begun", "called"):
        (folder / left).unlink(missing_ok=True)
    done = subprocess.run(["zsh", "-f", "-c", ASK, "zsh", line], cwd=folder, capture_output=True, text=True, timeout=40)
    assert done.stdout.strip() == completed, done.stderr
