"""Completion in a real fish: the words that it would offer."""

import subprocess
from pathlib import Path

import pytest

from gateproject.completion.fish import fish
from gateproject.management.commands.completion import all_commands


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("fish")
    (place / "script").write_text(fish(all_commands()))
    (place / "one.yaml").touch()
    (place / "onefolder").mkdir()
    return place


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gate chec", {"check", "check-broker"}),
        ("gate check --on", {"--online"}),
        ("gate check --format s", {"sarif"}),
        ("gate run -config on", {"one.yaml", "onefolder/"}),
        ("gate init on", {"onefolder/"}),
        ("gate import on", {"one.yaml", "onefolder/"}),
        ("gate service-account ro", {"rotate"}),
        ("gate completion z", {"zsh"}),
    ],
)
def test_what_may_stand_there_is_offered(folder: Path, line: str, expected: set[str]) -> None:
    command = ["fish", "--no-config", "--command", "source script; complete --do-complete $argv[1]", line]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=20)
    assert done.stderr == ""
    assert {offer.partition("\t")[0] for offer in done.stdout.splitlines()} == expected
