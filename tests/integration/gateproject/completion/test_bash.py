"""Completion in a real bash: the words that it would offer."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gateproject.completion.bash import bash
from gateproject.management.commands.completion import all_commands

# As bash splits a line before it asks a completion function.
ASK = 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gate; printf "%s\\n" "${COMPREPLY[@]}"'


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bash")
    (place / "script").write_text(bash(all_commands()))
    (place / "gate one.yaml").touch()
    (place / "gatefolder").mkdir()
    return place


def offered(folder: Path, *words: str) -> list[str]:
    program = shutil.which("bash")
    assert program
    done = subprocess.run([program, "--norc", "-c", ASK, "bash", *words], cwd=folder, capture_output=True, text=True, timeout=20)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("gate", "ch"), ["check", "check-broker"]),
        (("gate", "check", "--o"), ["--online"]),
        (("gate", "check", "--format", ""), ["text", "json", "sarif"]),
        (("gate", "check", "--format", "=", "s"), ["sarif"]),
        (("gate", "check", "--format", "="), ["text", "json", "sarif"]),
        (("gate", "check", "-config", "gate "), ["gate one.yaml"]),
        (("gate", "run", "-config", "gat"), ["gate one.yaml", "gatefolder"]),
        (("gate", "init", "ga"), ["gatefolder"]),
        (("gate", "import", "gate "), ["gate one.yaml"]),
        (("gate", "service-account", "r"), ["rotate", "revoke"]),
        (("gate", "completion", ""), ["bash", "zsh", "fish"]),
        (("gate", "status", "--every", ""), []),
        (("gate", "no-such-command", "x"), []),
    ],
)
def test_what_may_stand_there_is_offered(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(offered(folder, *words)) == sorted(expected)


def test_a_line_is_completed_by_the_shell_itself(folder: Path) -> None:
    """`complete -F` knows the function: what Tab does in an interactive shell."""
    done = subprocess.run(
        ["bash", "--norc", "-c", "source ./script; complete -p gate"], cwd=folder, capture_output=True, text=True, timeout=20
    )
    assert done.stdout == "complete -F _gate gate\n"
