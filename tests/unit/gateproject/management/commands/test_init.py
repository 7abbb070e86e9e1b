"""`gate init` with a file of answers, valid and invalid; the dialog is in tests/integration/test_init.py."""

import io
import os
from pathlib import Path

import pytest
import yaml
from django.core.management.base import CommandError

from gateproject.management.commands.init import Command
from tests.unit.gateproject.init.test_questions import ANSWERS

GIVEN = {key: value for key, value in ANSWERS.items() if value}


def run(directory: Path, text: str, name: str = "answers.yaml") -> str:
    file = directory / name
    file.write_text(text)
    command = Command(stdout=io.StringIO())
    command.handle(directory=directory / "gate", answers=file, offline=True, systemd=None)
    return command.stdout.getvalue()


def test_answers_of_a_file_are_written_with_what_to_do_next(tmp_path: Path) -> None:
    said = run(tmp_path, yaml.safe_dump({**GIVEN, "who": ["@example.com", "group:ops"]}))
    assert f"{tmp_path}/gate/config.yaml, readable by you only" in said
    assert "rungate --config" in said
    (route,) = yaml.safe_load((tmp_path / "gate/config.yaml").read_text())["policy"]
    assert (route["allowed_domains"], route["allowed_groups"]) == (["example.com"], ["ops"])


def test_json_is_read_too(tmp_path: Path) -> None:
    assert "Created" in run(tmp_path, "{" + ", ".join(f'"{key}": "{value}"' for key, value in GIVEN.items()) + "}", "answers.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (yaml.safe_dump({**GIVEN, "colour": "red"}), "unknown key colour"),
        (yaml.safe_dump({**GIVEN, "who": {"a": "b"}}), "who must be text"),
        (yaml.safe_dump({key: value for key, value in GIVEN.items() if key != "upstream"}), "upstream: missing"),
        (yaml.safe_dump({**GIVEN, "upstream": "10.0.0.5"}), "upstream: needs a scheme"),
        (yaml.safe_dump({**GIVEN, "provider": "mine"}), "provider: "),
        (yaml.safe_dump({**GIVEN, "certificates": "files", "certificate_files": ["no.pem", "no-key.pem"]}), "no.pem can't be read"),
        ("- a list", "without duplicate keys"),
        ("domain: a.com\ndomain: b.com", "without duplicate keys"),
        ("{", "is not valid YAML"),
    ],
)
def test_what_can_t_be_used_is_told_and_nothing_is_written(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        run(tmp_path, text)
    assert not (tmp_path / "gate/config.yaml").exists()


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as told:
        run(tmp_path, yaml.safe_dump({**GIVEN, "upstream": "x", "who": "bob", "sign_in_url": "http://a b"}))
    assert {line.partition(":")[0] for line in str(told.value).splitlines()[1:]} >= {"upstream", "who", "sign_in_url"}


def test_one_answer_that_is_wrong_is_told_of_once(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as told:
        run(tmp_path, yaml.safe_dump({**GIVEN, "domain": "localhost", "who": "bob"}))
    said = str(told.value).splitlines()[1:]
    assert [line.partition(": ")[0] for line in said] == ["domain", "who"]


def test_a_file_that_is_not_there_and_a_folder_that_can_t_be_made(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such file"):
        Command().handle(directory=tmp_path / "gate", answers=tmp_path / "none.yaml", offline=True, systemd=None)
    (tmp_path / "gate").write_text("a file")
    with pytest.raises(CommandError, match="gate already exists"):
        run(tmp_path, yaml.safe_dump(GIVEN))


def test_without_a_terminal_it_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        with pytest.raises(CommandError, match="--answers FILE"):
            Command().handle(directory=tmp_path / "gate", answers=None, offline=True, systemd=None)
